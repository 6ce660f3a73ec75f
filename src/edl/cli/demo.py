"""Watch elastic training happen: a cluster of four process nodes on this machine, two real training jobs that grow and
shrink, an online service that needs their room, a trainer and a master killed with kill -9. Ends by itself in about a
minute, with a summary and a picture. Uses a directory and a port of its own; your cluster is not touched.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .main import CommandError

if TYPE_CHECKING:
    from rich.console import Console

    from edl.demo.story import Outcome

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

    from edl.demo.stage import StoryError
    from edl.demo.summary import show
    from edl.demo.svg import draw

    if sys.platform != "linux":
        raise CommandError("the demo's nodes are processes and need Linux")
    out = Path(options.out)
    if not out.resolve().parent.is_dir():
        raise CommandError(f"--out {options.out}: there is no directory {out.parent}")
    console = Console(highlight=False)
    try:
        outcome = asyncio.run(_play(console, quick=options.quick))
    except StoryError as error:
        raise CommandError(f"the demo went wrong: {error}") from error
    show(console, outcome)
    out.write_text(draw(outcome.recording))
    console.print(f"[dim]the picture is in {out}[/]")
    console.print("[dim]next: `. .venv/bin/activate`, then `edl run examples/fit_a_line/job.yaml`[/]", soft_wrap=True)
    return 0 if outcome.good else 1


async def _play(console: "Console", *, quick: bool) -> "Outcome":
    import logging
    import tempfile

    from edl.demo.cast import NODES, QUICK, SLOW, examples
    from edl.demo.stage import stage
    from edl.demo.story import play
    from edl.demo.view import LiveView, PlainView

    scripts = examples()
    if scripts is None:
        raise CommandError("the demo trains with the repository's scripts, which are not here: run it in a clone")
    logging.getLogger("edl").setLevel(logging.CRITICAL)  # processes die here by intent
    pace = QUICK if quick else SLOW
    console.print(OPENING.format(nodes=NODES, cores=pace.cores), soft_wrap=True)
    view = LiveView(console) if console.is_terminal else PlainView()
    try:
        with tempfile.TemporaryDirectory(prefix="edl-demo-") as home:
            async with stage(Path(home), view, pace) as made:
                return await play(made, pace, scripts, Path(home) / "data")
    finally:
        view.close()
