"""What following jobs looks like: a view that renews itself in a terminal, lines elsewhere. Decides nothing.

News (a phase, a size and why) scroll by and stay; the numbers of the moment are below them, or once in a while between
them where nobody can look at a moment.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from .jobs import Summary
from .progress import Progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PLAIN_EVERY = 5.0
SPARKS = "▁▂▃▄▅▆▇█"
PHASES = {"running": "green", "scaling": "cyan", "creating": "yellow", "succeeded": "bold green", "failed": "bold red"}
WIDEST = 24  # sizes above this are written as numbers alone


class Look(msgspec.Struct, frozen=True):
    """One job at one moment. `left`: seconds to its end. `losses`: the newest ones, oldest first."""

    job: Summary
    progress: Progress | None = None
    left: float | None = None
    losses: Sequence[float] = ()


class Screen(Protocol):
    def news(self, job: str, words: str) -> None: ...

    def show(self, looks: Sequence[Look]) -> None: ...

    def close(self) -> None: ...


def open_screen() -> Screen:
    import sys

    return RichScreen() if sys.stdout.isatty() else PlainScreen()


# What there is to say about a job


def changes(before: Summary | None, after: Summary) -> list[str]:
    """What a reader would want to know of the difference, in words."""
    said = []
    if before is None or before.phase != after.phase:
        said.append(after.phase or "submitted, the operator has not looked at it yet")
    decided = decisions(before, after)
    said += decided
    if not decided and after.reason and (before is None or before.reason != after.reason):
        said.append(after.reason)
    return said


def decisions(before: Summary | None, after: Summary) -> list[str]:
    """Changes of the size that was granted, oldest first, each with the reason that it was granted for."""
    known = before.scale.get("history") or () if before is not None else ()
    return [
        f"size {entry.get('from') or 0} -> {entry.get('to') or 0}: {entry.get('reason', '')}"
        for entry in after.scale.get("history") or ()
        if entry not in known
    ]


def numbers(look: Look) -> list[str]:
    """The moment in short words, what is unknown left out."""
    job, progress = look.job, look.progress or Progress()
    known = [f"size {job.now or 0}/{job.target or 0}"]
    if progress.pass_index is not None and progress.passes:
        known.append(f"pass {progress.pass_index}/{progress.passes}")
    if progress.done is not None and progress.total:
        known.append(f"{100 * progress.done // progress.total} %")
    if progress.loss is not None:
        known.append(f"loss {progress.loss:.4g}")
    if progress.throughput is not None and not job.finished:
        known.append(f"{count(progress.throughput)} samples/s")
    if look.left is not None and not job.finished:
        known.append(f"{duration(look.left)} left")
    return known


def count(number: float) -> str:
    """1234 -> 1.2k"""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return f"{number:.0f}"


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


def dots(job: Summary) -> str:
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
        self._said: dict[str, tuple[float, list[str]]] = {}

    def news(self, job: str, words: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {job}: {words}", flush=True)

    def show(self, looks: Sequence[Look]) -> None:
        now = time.monotonic()
        for look in looks:
            name, told = look.job.name, numbers(look)
            at, before = self._said.get(name, (now - self._every, []))
            if look.job.phase and told != before and (now - at >= self._every or look.job.finished):
                self._said[name] = now, told
                self.news(name, ", ".join(told))

    def close(self) -> None:
        pass


class RichScreen:
    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=8, transient=False)
        self._live.start()

    def news(self, job: str, words: str) -> None:
        from rich.markup import escape

        at = time.strftime("%H:%M:%S")
        self._console.print(f"[dim]{at}[/] [bold]{escape(job)}[/] {escape(words)}")

    def show(self, looks: Sequence[Look]) -> None:
        self._live.update(render(looks), refresh=True)

    def close(self) -> None:
        self._live.stop()


def render(looks: Sequence[Look]) -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ROUNDED, border_style="dim", expand=False, header_style="dim")
    for header in ("job", "phase", "trainers", "progress", "loss", "samples/s", "left"):
        table.add_column(header, no_wrap=True, justify="right" if header in ("samples/s", "left") else "left")
    for look in looks:
        job, progress = look.job, look.progress or Progress()
        table.add_row(
            Text(job.name, style="bold"),
            Text(job.phase or "new", style=PHASES.get(job.phase, "")),
            f"{job.now or 0}/{job.target or 0} {dots(job)}",
            _bar(progress),
            _loss(look),
            count(progress.throughput) if progress.throughput is not None and not job.finished else "",
            duration(look.left) if look.left is not None and not job.finished else "",
        )
    return table


def _bar(progress: Progress) -> "RenderableType":
    if progress.done is None or not progress.total:
        return ""
    full = round(12 * progress.done / progress.total)
    return f"[green]{'━' * full}[/][dim]{'━' * (12 - full)}[/] pass {progress.pass_index}/{progress.passes}"


def _loss(look: Look) -> str:
    loss = look.progress.loss if look.progress is not None else None
    return "" if loss is None else f"{loss:<8.4g}[cyan]{sparkline(look.losses)}[/]"
