"""The operator on a real control plane beside its Go peer, in the same run: `make bench-kube`.

startup: jobs of eight pods on 200 kwok nodes, from submission to running. Aims are held against the median of rounds.
plans: random plans against the real kube-scheduler, which binds them or makes us withdraw them.
growth: what etcd grows by per task while fifty jobs use the job service.
sizing: whether two operators with the resources that `edl install` gives them bear 1,000 jobs; needs root, and is run
        only if it is named.
first-line: how soon the first line of an edited script runs, by `edl run` on a cluster with containers; needs root, and
        is run only if it is named.
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
import time

from bench.kube.aims import SECONDS_OF_A_FIRST_LINE, SECONDS_OF_A_PLAN, compared
from bench.kube.contenders import CONTENDERS, WORKERS, Contender
from bench.kube.first_line import measure_first_lines
from bench.kube.growth import measure_growth
from bench.kube.plans import try_plans
from bench.kube.sizing import prove
from bench.kube.startup import NODES, Result, measure, median

from edl.install.options import InstallOptions

PARTS = ("startup", "plans", "growth")
NAMED = ("sizing", "first-line")  # run only if they are named
JOBS_OF_GROWTH, SECONDS_OF_GROWTH = 50, 60.0
COLUMNS = (
    ("jobs", 5),
    ("", 6),
    ("submitted", 9),
    ("running", 9),
    ("settled", 9),
    ("CPU/job", 9),
    ("cluster", 9),
    ("others", 7),
    ("memory", 8),
    ("calls/job", 10),
    ("objects", 8),
)
HEAD = " ".join(["".ljust(20), *(name.rjust(width) for name, width in COLUMNS)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join((*PARTS, *NAMED))}")
    parser.add_argument("--jobs", default="200x3,1000", help="numbers of jobs, and in how many rounds (%(default)s)")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="who takes part (%(default)s)")
    parser.add_argument("--plans", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--sizing-jobs", type=int, default=1000, help="jobs of eight pods (%(default)s)")
    parser.add_argument("--edits", type=int, default=5, help="of a script, whose median is told (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the plans (%(default)s)")
    parser.add_argument("--calls", action="store_true", help="list the calls that were made, by verb and resource")
    options = parser.parse_args()
    unknown = set(options.parts) - {*PARTS, *NAMED}
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    if "first-line" in options.parts:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # in good order, as in `measure_all`
        first_line(options.edits)
    if options.parts == ["first-line"]:
        return
    try:
        asyncio.run(measure_all(options))
    except asyncio.CancelledError:
        sys.exit("terminated")


async def measure_all(options: argparse.Namespace) -> None:
    """SIGTERM ends it in good order, as Ctrl-C does: whatever is measured on is a cluster that must not stay behind."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    parts = options.parts or PARTS
    if "startup" in parts:
        contenders = [CONTENDERS[name] for name in options.contenders.split(",")]
        await startup(contenders, _sizes(options.jobs), options.calls)
    if "plans" in parts:
        await plans(options.plans, options.seed)
    if "growth" in parts:
        await growth()
    if "sizing" in parts:
        await sizing(options.sizing_jobs)


async def plans(count: int, seed: int) -> None:
    started = time.monotonic()
    tally = await try_plans(count, seed)
    fates = ", ".join(f"{fate}: {number}" for fate, number in tally.fates.most_common())
    seconds = time.monotonic() - started
    print(f"{tally.made} random plans for {tally.jobs} jobs (seed {seed}) in {seconds:.0f} s: {fates}")
    print(
        f"  the longest that a pod was without a node before it was bound or withdrawn: {tally.slowest:.1f} s", end=""
    )
    print(f" (aim: {SECONDS_OF_A_PLAN} s)", flush=True)


async def growth() -> None:
    one = await measure_growth(JOBS_OF_GROWTH, SECONDS_OF_GROWTH)
    seconds = f"{SECONDS_OF_GROWTH:.0f} s"
    print(f"{JOBS_OF_GROWTH} jobs that commit {one.tasks} tasks in {seconds} through the job service:")
    print(f"  {one.writes} writes of {one.tasks / one.writes:.1f} tasks each;", end=" ")
    print(f"etcd grows by {one.bytes / one.tasks:.0f} bytes per task until it compacts", flush=True)


async def sizing(jobs: int) -> None:
    proof = await prove(jobs)
    limit = proof.groups[0].memory_limit / 2**20
    peaks = " and ".join(f"{peak / 2**20:.0f}" for peak in proof.peaks)
    print(f"{jobs} jobs, {jobs * WORKERS} pods on {NODES} nodes, two operators with the Deployment's own resources:")
    print(f"  all run after {proof.running:.0f} s; memory {peaks} of {limit:.0f} MiB at most,", end=" ")
    print(f"{proof.kills} killed for it; throttled {proof.throttled} times")
    print(f"  {len(proof.leaders)} led; the lease, which lasts {InstallOptions().lease} s,", end=" ")
    print(f"was {proof.latest_renewal:.1f} s old at most", flush=True)


def first_line(edits: int) -> None:
    found = measure_first_lines(edits)
    for number, one in enumerate(found, 1):
        print(f"  edit {number}: its first line ran after {one.ran:.1f} s, was on the screen after {one.shown:.1f} s")
    ran, shown = statistics.median(one.ran for one in found), statistics.median(one.shown for one in found)
    print(f"median of {edits} edits, from the start of `edl run`: the first line ran after {ran:.1f} s", end="")
    print(f" (aim: {SECONDS_OF_A_FIRST_LINE} s), was on the screen after {shown:.1f} s", flush=True)


def _sizes(text: str) -> dict[int, int]:
    """Number of jobs -> rounds."""
    parts = [part.partition("x") for part in text.split(",")]
    return {int(jobs): int(rounds or 1) for jobs, _, rounds in parts}


async def startup(contenders: list[Contender], sizes: dict[int, int], calls: bool) -> None:
    print(f"jobs of {WORKERS} pods on {NODES} kwok nodes, all on {os.cpu_count()} cores", end="; ")
    print("calls and objects without Events, leases and watches")
    print("cluster: CPU per job of everything but the operator; others: of the machine, what had nothing to do with it")
    print(HEAD)
    found: dict[str, list[Result]] = {one.name: [] for one in contenders}
    for jobs, rounds in sizes.items():
        # In turns, so that whatever else the machine does, or its host, meets all of them.
        measured = [[await _measured(one, jobs, calls) for one in contenders] for _ in range(rounds)]
        for number, contender in enumerate(contenders):
            middle = median([results[number] for results in measured])
            found[contender.name].append(middle)
            if rounds > 1:
                _print("median", middle)
    for results in found.values():
        if len(results) > 1:
            _print_growth(results[0], results[-1])
    print("aims:")
    for line in compared([one for results in found.values() for one in results]):
        print(f"  {line}", flush=True)


async def _measured(contender: Contender, jobs: int, calls: bool) -> Result:
    one = await measure(contender, jobs)
    _print("", one)
    if calls:
        for what, count in one.by_call.most_common():
            print(f"    {count / jobs:8.2f}  {what}")
    return one


def _print(what: str, one: Result) -> None:
    print(
        f"{one.contender:<20} {one.jobs:>5} {what:>6}",
        f"{one.submitted:>7.1f} s {one.running:>7.1f} s {one.settled:>7.1f} s",
        f"{one.cpu_ms:>6.1f} ms {one.cluster_ms:>6.0f} ms {one.others:>7.0%} {one.memory_mb:>5.0f} MB",
        f"{one.calls:>10.1f} {one.objects:>8.1f}",
        flush=True,
    )


def _print_growth(few: Result, many: Result) -> None:
    cpu, rate = many.cpu_ms / few.cpu_ms, (many.running / many.jobs) / (few.running / few.jobs)
    kilobytes = (many.memory_mb - few.memory_mb) * 1024 / (many.jobs - few.jobs)
    print(f"{few.contender}, {few.jobs} to {many.jobs} jobs: {cpu:.2f} times the CPU", end=" ")
    print(f"and {rate:.2f} times the time per job, {kilobytes:.0f} KB more per job")


if __name__ == "__main__":
    main()
