"""Watch elastic training happen: a cluster of four process nodes on this machine, two real training jobs that grow and
shrink, an online service that needs their room, a trainer and a master killed with kill -9. Ends by itself in about a
minute, with a summary and a picture. Uses a directory and a port of its own; your cluster is not touched.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edl.cli.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from edl.demo.scenario import Outcome

SUMMARY = "watch elastic training happen, in about a minute"
ORDER = 10
LOOK_SECONDS = 600.0

OPENING = (
    "Starting a Kubernetes cluster on this machine: {nodes} nodes with {cores} cores each for trainers and services. "
    "Pods are processes, training is real.\nLines with a number are what users and chance do to it, the others are "
    "what EDL decides, and why.\n"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="the same story in less time, with less to see")
    parser.add_argument("--out", default="demo.svg", metavar="FILE", help="where the picture goes (%(default)s)")


def run(options: argparse.Namespace) -> int:
    import asyncio

    from rich.console import Console

    from edl.demo.cluster import ScenarioError
    from edl.demo.summary import show
    from edl.demo.svg import draw

    if sys.platform != "linux":
        raise CommandError("the demo's nodes are processes and need Linux")
    out = Path(options.out)
    if not out.resolve().parent.is_dir():
        raise CommandError(f"--out {options.out}: there is no directory {out.parent}")
    console = Console(highlight=False)

    def ended(outcome: "Outcome") -> None:
        show(console, outcome)
        out.write_text(draw(outcome.recording))
        console.print(f"[dim]the picture is in {out}[/]")
        console.print(f"[dim]next: {_next_step()}[/]", soft_wrap=True)

    try:
        outcome = asyncio.run(_play(console, ended, quick=options.quick))
    except ScenarioError as error:
        raise CommandError(f"the demo went wrong: {error}") from error
    return 0 if outcome.good else 1


def _next_step() -> str:
    """In a checkout `make demo` made a virtualenv; an installed EDL is on the path already."""
    if Path("examples/fit_a_line/job.yaml").exists():
        return "`. .venv/bin/activate`, then `edl run examples/fit_a_line/job.yaml`"
    return "`edl run train.py --min 1 --max 4` with a PyTorch script of yours"


async def _play(console: "Console", ended: "Callable[[Outcome], None]", *, quick: bool) -> "Outcome":
    """Before a terminal the page of what was seen is kept until Enter, or for ten minutes; elsewhere nothing waits."""
    import logging
    import tempfile

    from edl.demo.cluster import demo_cluster
    from edl.demo.scenario import run_scenario
    from edl.demo.view import LiveView, PlainView
    from edl.demo.workloads import NODES, QUICK, SLOW, examples

    scripts = examples()
    if scripts is None:
        raise CommandError("the demo trains with the repository's scripts, which are not here: run it in a clone")
    logging.getLogger("edl").setLevel(logging.CRITICAL)  # processes die here by intent
    pace = QUICK if quick else SLOW
    console.print(OPENING.format(nodes=NODES, cores=pace.cores), soft_wrap=True)
    looks = console.is_terminal and sys.stdin.isatty()
    view = LiveView(console) if console.is_terminal else PlainView()
    try:
        with tempfile.TemporaryDirectory(prefix="edl-demo-") as home:
            async with demo_cluster(Path(home), view, pace, looks=looks) as made:
                outcome = await run_scenario(made, pace, scripts, Path(home) / "data")
                view.close()
                ended(outcome)
                if looks and made.page is not None:
                    console.print(f"see it in a browser: {made.page.login(seconds=LOOK_SECONDS)}", soft_wrap=True)
                    console.print("[dim]Enter ends the demo, and the page with it[/]")
                    await _enter(LOOK_SECONDS)
                return outcome
    finally:
        view.close()


async def _enter(seconds: float) -> None:
    import asyncio
    import contextlib

    loop, pressed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), pressed.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await pressed.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
