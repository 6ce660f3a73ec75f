"""Screens that follow jobs: a view that renews itself in a terminal, lines elsewhere. Reads nothing from a cluster.

News (a phase, a size and why) scroll by and stay; the current numbers are below them, or printed between them once in a
while where there is no terminal.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from edl.api.status import MemberChange
from edl.cli.connect.jobs import JobSummary
from edl.cli.output.terminal import harmless
from edl.protocol.progress import LastProgress

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_EVERY = 5.0
SPARKS = "▁▂▃▄▅▆▇█"
WIDEST = 24  # sizes above this are written as numbers alone


class JobSnapshot(msgspec.Struct, frozen=True):
    """One job at one moment. `left`: seconds to its end. `losses`: the newest ones, oldest first."""

    job: JobSummary
    progress: LastProgress | None = None
    left: float | None = None
    losses: Sequence[float] = ()


class Screen(Protocol):
    def news(self, job: str, text: str) -> None: ...

    def lines(self, job: str, lines: Sequence[str]) -> None:
        """Log lines of a job; `job` is empty where there is only one."""
        ...

    def show(self, snapshots: Sequence[JobSnapshot]) -> None: ...

    def close(self) -> None: ...


def open_screen() -> Screen:
    """A view that renews itself where the terminal can; lines elsewhere."""
    import os
    import sys

    able = sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    return RichScreen() if able else PlainScreen()


# What there is to say about a job


def changes(before: JobSummary | None, after: JobSummary) -> list[str]:
    """The differences that a reader wants to know, as text."""
    said = []
    if before is None or before.phase != after.phase:
        said.append(after.stage or "submitted, the operator has not looked at it yet")
    decided = decisions(before, after)
    said += decided
    if not decided and after.reason and (before is None or before.reason != after.reason):
        said.append(after.reason)
    changed = last_change(after)
    if changed is not None and (before is None or changed != last_change(before)):
        said.append(changed.words)
    return said


def last_change(job: JobSummary) -> MemberChange | None:
    """How its workers last changed, as they said themselves."""
    try:
        return msgspec.convert(job.status.get("lastChange"), MemberChange | None)
    except msgspec.ValidationError:
        return None  # as another version of the operator wrote it


def decisions(before: JobSummary | None, after: JobSummary) -> list[str]:
    """Changes of the size that was granted, oldest first, each with the reason that it was granted for."""
    known = before.scale.get("history") or () if before is not None else ()
    return [
        f"size {entry.get('from') or 0} -> {entry.get('to') or 0}: {entry.get('reason', '')}"
        for entry in after.scale.get("history") or ()
        if entry not in known
    ]


def numbers(snapshot: JobSnapshot) -> list[str]:
    """The current numbers as text; what is unknown is left out."""
    job, progress = snapshot.job, snapshot.progress or LastProgress()
    known = [f"size {job.now or 0}/{job.target or 0}"]
    if (stage := stage_of(progress)) != "":
        known.append(stage)
    if progress.percent is not None:
        known.append(f"{progress.percent} %")
    if progress.epoch is not None:
        known.append(f"epoch {progress.epoch:g}")
    if progress.loss is not None:
        known.append(f"loss {progress.loss:.4g}")
    if (speed := pace_of(progress)) and not job.finished:
        known.append(speed)
    if snapshot.left is not None and not job.finished:
        known.append(f"{duration(snapshot.left)} left")
    return known


def stage_of(progress: LastProgress) -> str:
    """pass 2/5 of a queue, else step 120/600."""
    if progress.pass_index is not None and progress.passes:
        return f"pass {progress.pass_index}/{progress.passes}"
    if progress.done is None or progress.pass_index is not None:
        return ""
    return f"step {progress.done}/{progress.total}" if progress.total else f"step {progress.done}"


def pace_of(progress: LastProgress) -> str:
    if progress.throughput is not None:
        return f"{count(progress.throughput)} samples/s"
    return f"{count(progress.rate)} steps/s" if progress.rate and progress.pass_index is None else ""


def count(number: float) -> str:
    """1234 -> 1.2k"""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return f"{number:.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {whole % 60:02} s"


def sparkline(values: Sequence[float], width: int = 16) -> str:
    """The newest values as bars; the line is as long as there are values, `width` at most."""
    if not values:
        return ""
    kept = [values[len(values) * place // width] for place in range(width)] if len(values) > width else list(values)
    least, most = min(kept), max(kept)
    span = (most - least) or 1.0
    return "".join(SPARKS[min(len(SPARKS) - 1, int((value - least) / span * len(SPARKS)))] for value in kept)


def dots(job: JobSummary) -> str:
    """Trainers that run, that are wanted, that are allowed."""
    now, target, most = job.now or 0, job.target or 0, job.most or 0
    if max(now, target, most) > WIDEST:
        return ""
    return (
        "●" * min(now, target)
        + "◍" * max(0, now - target)
        + "◌" * max(0, target - now)
        + "·" * (most - max(now, target))
    )


# Where it is said


class PlainScreen:
    """A line per piece of news, and one with numbers every few seconds in which they changed."""

    def __init__(self, every: float = PLAIN_EVERY) -> None:
        self._every = every
        self._shown: dict[str, tuple[float, list[str]]] = {}

    def news(self, job: str, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {harmless(f'{job}: {text}')}", flush=True)

    def lines(self, job: str, lines: Sequence[str]) -> None:
        for line in lines:
            print(harmless(f"{job}: {line}" if job else line), flush=True)

    def show(self, snapshots: Sequence[JobSnapshot]) -> None:
        now = time.monotonic()
        for snapshot in snapshots:
            name, shown = snapshot.job.name, numbers(snapshot)
            at, before = self._shown.get(name, (now - self._every, []))
            if snapshot.job.phase and shown != before and (now - at >= self._every or snapshot.job.finished):
                self._shown[name] = now, shown
                self.news(name, ", ".join(shown))

    def close(self) -> None:
        pass


class RichScreen:
    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._live.start()

    def news(self, job: str, text: str) -> None:
        from rich.markup import escape

        at = time.strftime("%H:%M:%S")
        self._console.print(f"[dim]{at}[/] [bold]{escape(harmless(job))}[/] {escape(harmless(text))}")

    def lines(self, job: str, lines: Sequence[str]) -> None:
        from rich.text import Text

        if lines:
            prefix = f"{job}: " if job else ""
            self._console.print(Text("\n".join(harmless(f"{prefix}{line}") for line in lines)))

    def show(self, snapshots: Sequence[JobSnapshot]) -> None:
        from edl.cli.output.job_table import job_table

        self._live.update(job_table(snapshots, self._console.width), refresh=True)

    def close(self) -> None:
        self._live.stop()
