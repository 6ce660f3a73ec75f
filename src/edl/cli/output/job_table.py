"""The table of jobs that are followed, in as many columns as the terminal has room for.

However narrow it is, size, progress, loss and time left are shown.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from edl.cli.output.live import JobSnapshot, count, dots, duration, sparkline, stage_of
from edl.cli.output.terminal import harmless
from edl.protocol.progress import LastProgress

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

PHASES = {
    "created": "yellow",
    "creating": "yellow",
    "pending": "yellow",
    "running": "green",
    "scaling": "cyan",
    "restarting": "red",
    "succeeded": "bold green",
    "failed": "bold red",
}
HUGE, WIDE, MEDIUM = 160, 120, 60
FEW = 8  # dots that still fit
NAME = 14  # characters of a job's name where there is little room


class Cells(NamedTuple):
    """A column: its header, and its cell of a job in a terminal of some width."""

    header: str
    cell: "Callable[[JobSnapshot, int], RenderableType]"
    least: int = 0
    """The terminal's width from which on it is shown."""
    right: bool = False


def job_table(snapshots: Sequence[JobSnapshot], width: int = WIDE) -> "Table":
    from rich import box
    from rich.table import Table

    shown = [cells for cells in COLUMNS if width >= cells.least or (cells.header == "job" and len(snapshots) > 1)]
    style = box.ROUNDED if width >= MEDIUM else None
    table = Table(box=style, border_style="dim", expand=False, header_style="dim", pad_edge=width >= MEDIUM)
    for cells in shown:
        table.add_column(cells.header, no_wrap=True, justify="right" if cells.right else "left")
    for snapshot in snapshots:
        table.add_row(*(cells.cell(snapshot, width) for cells in shown))
    return table


def _name(snapshot: JobSnapshot, width: int) -> "RenderableType":
    from rich.text import Text

    name = harmless(snapshot.job.name)
    return Text(name if len(name) <= NAME or width >= HUGE + 20 else f"{name[: NAME - 1]}…", style="bold")


def _phase(snapshot: JobSnapshot, width: int) -> "RenderableType":
    from rich.text import Text

    phase = snapshot.job.phase
    return Text(harmless(phase).lower() or "new", style=PHASES.get(phase.lower(), ""))


def _size(snapshot: JobSnapshot, width: int) -> str:
    job = snapshot.job
    few = max(job.now or 0, job.target or 0, job.most or 0) <= FEW
    drawn = f" {dots(job)}" if width >= HUGE or (width >= WIDE and few) else ""
    return f"{job.now or 0}/{job.target or 0}{drawn}"


def _progress(snapshot: JobSnapshot, width: int) -> str:
    """A bar, the share, and the step or pass; without a total the steps alone."""
    progress = snapshot.progress or LastProgress()
    percent, stage = progress.percent, stage_of(progress)
    if percent is None:
        return stage or ("" if progress.epoch is None else f"epoch {progress.epoch:g}")
    if width < MEDIUM:
        return f"{percent}%"
    length = 12 if width >= WIDE else 8
    full = length * percent // 100
    bar = f"[green]{'━' * full}[/][dim]{'━' * (length - full)}[/] {percent}%"
    epoch = f" epoch {progress.epoch:g}" if progress.epoch is not None and width >= HUGE else ""
    return f"{bar} {stage}{epoch}".rstrip() if width >= WIDE else bar


def _loss(snapshot: JobSnapshot, width: int) -> str:
    loss = snapshot.progress.loss if snapshot.progress is not None else None
    if loss is None:
        return ""
    return f"{loss:<8.4g}[cyan]{sparkline(snapshot.losses)}[/]" if width >= HUGE else f"{loss:.4g}"


def _pace(snapshot: JobSnapshot, width: int) -> str:
    progress = snapshot.progress
    if progress is None or snapshot.job.finished:
        return ""
    if progress.throughput is not None:
        return count(progress.throughput)
    return f"{count(progress.rate)} steps" if progress.rate and progress.pass_index is None else ""


def _left(snapshot: JobSnapshot, width: int) -> str:
    return duration(snapshot.left) if snapshot.left is not None and not snapshot.job.finished else ""


COLUMNS = (
    Cells("job", _name, 70),
    Cells("phase", _phase, 100),
    Cells("size", _size),
    Cells("progress", _progress),
    Cells("loss", _loss),
    Cells("samples/s", _pace, 90, right=True),
    Cells("ETA", _left, right=True),
)
