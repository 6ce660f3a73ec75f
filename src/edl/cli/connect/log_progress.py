"""Progress of a training read out of its log lines, for scripts that report none.

A line counts if it has a step of a total (`step 120/600`, `iteration 5 of 90`, a bar of tqdm) or a loss (`loss 0.31`,
`loss=0.31`, `'loss': '0.31'`); an epoch and samples per second count beside them. docs/train/progress.md lists them.
Of a line that was drawn over (carriage returns) the last drawing counts. A bar that has a title counts if that begins
with training, epoch, step or the like: one that loads weights or maps a data set has steps of its own.
"""

import re

from msgspec.structs import replace

from edl.protocol.pace import Pace
from edl.protocol.progress import LOG, LastProgress, Progress, ProgressReport

LONGEST = 1000  # characters of a line that are looked at

_NUMBER = r"([-+]?\d{1,15}(?:\.\d{1,15})?(?:[eE][-+]?\d{1,3})?)"
_IS = r"['\"]?\s{0,3}[:=]?\s{0,3}['\"]?"
_STEP = re.compile(
    r"\b(?:global[_ ]?)?(?:step|iteration|iter|batch)s?\b['\"]?\s{0,3}[:=#]?\s{0,3}\[?"
    r"(\d{1,15})\s{0,3}(?:/|of)\s{0,3}(\d{1,15})",
    re.IGNORECASE,
)
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\|\s{0,3}(\d{1,15})/(\d{1,15}) \[[^\]]{0,200}\]?")
_TITLE = re.compile(
    r"\s*(?:\Z|(?:train(?:ing)?|(?:global[_ ]?)?steps?|epochs?|iter(?:ation)?s?|batch(?:es)?)\b)", re.IGNORECASE
)
_LOSS = re.compile(rf"\b(?:train(?:ing)?[_ /])?loss\b{_IS}{_NUMBER}", re.IGNORECASE)
_EPOCH = re.compile(rf"\bepoch\b{_IS}\[?{_NUMBER}", re.IGNORECASE)
_PACE = re.compile(rf"{_NUMBER}\s{{0,3}}(?:samples|examples|images|sequences|img)/s", re.IGNORECASE)
_OF_TOTAL = ("done", "total", "left", "rate")


def figures(line: str) -> ProgressReport | None:
    """What the line says of the training; None if nothing."""
    text = last_drawn(line[-LONGEST:])
    step, loss = _STEP.search(text) or _bar(text), _LOSS.search(text)
    if step is None and loss is None:
        return None
    epoch, pace = _EPOCH.search(text), _PACE.search(text)
    done, total = (int(step[1]), int(step[2])) if step is not None else (None, None)
    return ProgressReport(
        done=done if total else None,
        total=total or None,
        loss=float(loss[1]) if loss is not None else None,
        epoch=float(epoch[1]) if epoch is not None else None,
        throughput=float(pace[1]) if pace is not None else None,
        source=LOG,
    )


def last_drawn(line: str) -> str:
    """What a terminal would be left with of a line that was drawn over again and again."""
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def drawn(line: str) -> list[str]:
    """What is to be shown of such a line: all that was drawn, of bars the last alone."""
    if "\r" not in line:
        return [line]
    *before, last = [part for part in line.split("\r") if part.strip()] or [""]
    return [*(part for part in before if _BAR.search(part) is None), last]


def is_bar(text: str) -> bool:
    """Whether it is a bar of the training and nothing else."""
    found = _bar(text)
    return found is not None and not text[found.end() :].strip()


def _bar(text: str) -> re.Match[str] | None:
    found = _BAR.search(text) if "%|" in text else None
    return found if found is not None and _TITLE.match(text[: found.start()]) else None


class LogProgress:
    """The progress of one job as its lines tell it."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._pace = Pace()
        self._at: float | None = None

    def read(self, line: str, now: float) -> None:
        found = figures(line)
        if found is None:
            return
        self._progress, self._at = self._progress.updated(found), now
        if found.done is not None:
            self._pace.add(now, found.done)

    def report(self) -> ProgressReport:
        """For the job service, so that others see it too."""
        known = {field: getattr(self._progress, field) for field in Progress.__struct_fields__}
        return ProgressReport(**known, source=LOG)

    def last(self, now: float) -> LastProgress | None:
        if self._at is None:
            return None
        progress = self._progress
        known = {field: getattr(progress, field) for field in Progress.__struct_fields__}
        left = self._pace.left(now, progress.total) if progress.total else None
        return LastProgress(**known | {"left": left}, age=now - self._at, rate=self._pace.rate())


def both(reported: LastProgress | None, read: LastProgress | None) -> LastProgress | None:
    """What the job reported counts; what it said nothing of is filled in from its lines. Steps of another total are
    not its own: of an evaluation in between, say."""
    if reported is None or read is None:
        return reported or read
    others = read.total is not None and reported.total is not None and read.total != reported.total
    filled = {
        field: getattr(read, field)
        for field in (*Progress.__struct_fields__, "rate")
        if getattr(reported, field) is None and not (others and field in _OF_TOTAL)
    }
    if reported.done is not None and read.done is not None and read.total == reported.total:
        filled |= {"done": max(reported.done, read.done)}
    return replace(reported, **filled)
