"""Simulate the scheduler that ships, on virtual time, under one policy or several: over a trace of jobs, manifests, a
snapshot, or the live cluster.

Nothing is created and no cluster is needed. The same input gives the same result.
"""

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from edl.cli.connect.cluster import add_cluster_options
from edl.cli.errors import CommandError
from edl.cli.output.progress_line import ProgressLine
from edl.cli.output.simulation_charts import BARS, COLUMNS, Series, distribution, html, svg
from edl.cli.output.tables import table

if TYPE_CHECKING:
    from edl.scheduler.settings import Settings
    from edl.scheduler.simulation.engine import Run
    from edl.scheduler.simulation.figures import Figures
    from edl.scheduler.simulation.foretold import ForecastError
    from edl.scheduler.simulation.trace import Trace

SUMMARY = "what would happen: completion times of a trace of jobs under each policy"
ORDER = 135
SETTABLE = ("max_load", "available", "scale_hold")


def arguments(parser: argparse.ArgumentParser) -> None:
    from edl.cli.input.traces import COLUMNS as TRACE_COLUMNS
    from edl.scheduler.policies.registry import DEFAULT_POLICY, POLICIES

    lines = "\n".join(f"  {name:11} {text}" for name, text in TRACE_COLUMNS.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"columns of a trace (the first three must be there):\n{lines}"
    parser.add_argument("--jobs", metavar="FILE.csv", help="the trace of jobs; its columns are below")
    parser.add_argument(
        "-f",
        "--filename",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="in place of a trace: jobs as YAML or JSON, with the nodes and pods of a snapshot if they are in there",
    )
    parser.add_argument(
        "--live", action="store_true", help="in place of a trace: the cluster as it is, and -f beside it"
    )
    parser.add_argument(
        "--takes", metavar="TIME", help="with -f and --live: how long jobs need at their minimum that do not say it"
    )
    add_cluster_options(parser)
    _cluster_arguments(parser)
    parser.add_argument(
        "--policy",
        default=DEFAULT_POLICY,
        metavar="NAME[,NAME...]",
        help=f"{', '.join(POLICIES)} (default {DEFAULT_POLICY})",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"a setting of the scheduler: {', '.join(SETTABLE)}",
    )
    _run_arguments(parser)


def _cluster_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=16, metavar="N", help="nodes of the cluster (default 16)")
    parser.add_argument("--gpu", type=int, default=4, metavar="N", help="GPUs of a node (default 4)")
    parser.add_argument(
        "--node-changes", metavar="FILE.csv", help="nodes that come and go: t_s, event (add, remove, end), nodes"
    )
    parser.add_argument(
        "--foreign", metavar="FILE.csv", help="GPUs that pods of others want, who come first: t_s, gpus from then on"
    )
    parser.add_argument("--regime", metavar="NAME", help="rows of --node-changes with this regime")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--declare-work", action="store_true", help="jobs declare the work that they have left")
    parser.add_argument(
        "--work-error",
        type=float,
        default=0.0,
        metavar="X",
        help="by how much jobs misjudge the work that they declare: 0.7 is half or twice, more or less (default 0)",
    )
    parser.add_argument(
        "--foretell",
        action="store_true",
        help="foretell when each job that waits will start, and print the error; best with --declare-work",
    )
    parser.add_argument("--chart", metavar="FILE", help="draw distributions and use over time: .svg or .html")
    parser.add_argument(
        "--record", metavar="FILE", help="keep the history of the run in a new file, for `edl ui --history FILE`"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")


def run(options: argparse.Namespace) -> int:
    if bool(options.jobs) == bool(options.filename or options.live):
        raise CommandError("name what to simulate: --jobs FILE.csv, or -f FILE, or --live")
    if options.chart is not None and not options.chart.endswith((".svg", ".html")):
        raise CommandError(f"--chart {options.chart}: wants a name that ends in .svg or .html")
    if options.record is not None and (not options.jobs or "," in options.policy):
        raise CommandError("--record: wants --jobs, and one --policy: a file holds the history of one cluster")
    if not options.jobs:
        from edl.cli.output.what_ifs import simulate_cluster

        return simulate_cluster(options, _settings(options))
    return _run_trace(options)


def _run_trace(options: argparse.Namespace) -> int:
    from edl.scheduler.simulation.figures import figures

    trace = _trace(options)
    runs = []
    for settings in _settings(options):
        one = _simulated(options, trace, settings)
        runs.append((one, figures(one)))
    if options.output == "json":
        from msgspec import to_builtins

        print(json.dumps([to_builtins(found) for _, found in runs], indent=2))
    else:
        from msgspec.structs import asdict

        print(_table([asdict(found) for _, found in runs]))
        for _, found in runs:
            if found.foretold is not None:
                print(f"\n{found.policy}: {_foretold(found.foretold)}")
        longest = max((time for one, _ in runs for time in _times(one)), default=1.0)
        for one, _ in runs:
            print(f"\n{one.settings.policy}: GPUs in use over time\n{drawing(one)}")
            print(f"{one.settings.policy}: completion times\n{distribution(_times(one), longest)}")
    if options.chart is not None:
        _draw(options.chart, [(one, found) for one, found in runs])
    return 0


def _simulated(options: argparse.Namespace, trace: "Trace", settings: "Settings") -> "Run":
    from contextlib import ExitStack

    from edl.scheduler.simulation.engine import Run, StuckError

    with ExitStack() as stack:
        watch = None
        if options.record is not None:
            from edl.cli.output.recording import recording

            watch = stack.enter_context(recording(options.record, trace))
        one = Run(
            trace,
            settings,
            declares=options.declare_work,
            clock=time.process_time,
            foretells=options.foretell,
            work_error=options.work_error,
            watch=watch,
        )
        progress = ProgressLine(settings.policy)
        stack.callback(progress.end)
        try:
            one.run(progress)
        except StuckError as error:
            raise CommandError(f"{settings.policy}: {error}") from error
    return one


def _times(run: "Run") -> list[float]:
    return [(job.ended or 0.0) - job.trace.submit for job in run.jobs]


def _draw(file: str, runs: "list[tuple[Run, Figures]]") -> None:
    from pathlib import Path

    from msgspec.structs import asdict

    series = [
        Series(
            one.settings.policy,
            _times(one),
            [(time, float(used)) for time, used, _ in one.used],
            float(max((gpus for _, _, gpus in one.used), default=1)),
            max((job.ended or 0.0 for job in one.jobs), default=1.0),
        )
        for one, _ in runs
    ]
    text = svg(series) if file.endswith(".svg") else html(series, _table([asdict(found) for _, found in runs]))
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--chart {file}: {error.strerror or error}") from error


def _trace(options: argparse.Namespace) -> "Trace":
    from pathlib import Path

    from edl.cli.input.traces import read_foreign, read_jobs, read_node_changes
    from edl.scheduler.simulation.trace import Trace

    for name, most in (("nodes", 100_000), ("gpu", 1024)):
        if not 1 <= getattr(options, name) <= most:
            raise CommandError(f"--{name} {getattr(options, name)}: wants 1 to {most}")
    if not 0 <= options.work_error <= 3:
        raise CommandError(f"--work-error {options.work_error:g}: wants 0 to 3")
    changes = read_node_changes(Path(options.node_changes), options.regime) if options.node_changes else ()
    at_first = [change for change in changes if change.added and change.time <= 0]
    named = tuple(sorted({node for change in at_first for node in change.nodes}))
    nodes = named or tuple(f"node-{number}" for number in range(options.nodes))
    jobs = read_jobs(Path(options.jobs), len(nodes) * options.gpu)
    foreign = read_foreign(Path(options.foreign)) if options.foreign else ()
    return Trace(jobs, nodes, options.gpu, tuple(one for one in changes if one not in at_first), foreign)


def _settings(options: argparse.Namespace) -> list["Settings"]:
    from msgspec import ValidationError, convert

    from edl.scheduler.policies.registry import policy_named
    from edl.scheduler.settings import Settings, parse_load

    chosen: dict[str, Any] = {"max_load": "1"}
    for pair in options.set:
        key, equals, value = pair.partition("=")
        if not equals or key not in SETTABLE:
            raise CommandError(f"--set {pair}: wants KEY=VALUE with one of {', '.join(SETTABLE)}")
        chosen[key] = value
    found = []
    for name in options.policy.split(","):
        try:
            policy_named(name.strip())
            parse_load(chosen["max_load"])
            found.append(convert({**chosen, "policy": name.strip()}, Settings, strict=False))
        except (ValueError, ValidationError) as error:
            raise CommandError(str(error)) from error
    return found


_HEADER = (
    *("POLICY", "JOBS", "AVG", "P50", "P90", "P99", "MAKESPAN", "WAIT"),
    *("USED", "JAIN", "WORST", "CHANGES", "LOST-GPU-H", "MS"),
)


def _table(found: list[dict[str, Any]]) -> str:
    rows = [
        (
            one["policy"],
            one["jobs"],
            *(f"{one[key]:.0f}" for key in ("avg_jct", "p50", "p90", "p99", "makespan", "avg_wait")),
            f"{one['utilisation']:.0%}",
            f"{one['fairness_jain']:.2f}",
            f"{one['fairness_worst']:.1f}",
            one["changes"],
            f"{one['gpu_hours_lost']:.1f}",
            f"{one['decision_ms_mean']:.2f}",
        )
        for one in found
    ]
    return table(_HEADER, rows)


def _foretold(error: "ForecastError") -> str:
    return (
        f"{error.forecasts} starts foretold, of {error.unknown} nobody could say when; "
        f"error {error.median:.0f} s median, {error.p90:.0f} s p90, of waits of {error.median_wait:.0f} s median; "
        f"{error.within:.0%} within the range that was named"
    )


def drawing(run: "Run") -> str:
    """One line of bars: GPUs in use, of the most that there were."""
    if not run.used:
        return ""
    begin, end = run.used[0][0], max(job.ended or 0.0 for job in run.jobs)
    most = max(gpus for _, _, gpus in run.used) or 1
    bars, at = [], 0
    for column in range(COLUMNS):
        moment = begin + (end - begin) * column / COLUMNS
        while at + 1 < len(run.used) and run.used[at + 1][0] <= moment:
            at += 1
        bars.append(BARS[min(len(BARS) - 1, -(-run.used[at][1] * (len(BARS) - 1) // most))])
    return f"{''.join(bars)}  0 to {most} GPUs, {end - begin:.0f} s"
