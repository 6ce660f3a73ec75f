"""A problem in an object: where, what and how bad. Everything that judges input speaks in these."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Path = tuple[str | int, ...]
Severity = Literal["error", "warning"]


# Of one object. A larger number helps nobody and costs a hostile manifest nothing.
MAX_PROBLEMS = 100


class Problem(msgspec.Struct, frozen=True):
    at: Path
    message: str
    severity: Severity = "error"

    @property
    def path(self) -> str:
        return path_text(self.at)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.at else self.message


def path_text(at: Path) -> str:
    """`spec.trainer.min-instance`, `items[0].metadata.labels[edl.dev/job]`."""
    text = ""
    for step in at:
        if isinstance(step, int) or not _plain(step):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _plain(step: str) -> bool:
    return step.replace("-", "").replace("_", "").isalnum()


def warning(at: Path, message: str) -> Problem:
    return Problem(at, message, "warning")


def first(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The first MAX_PROBLEMS errors, and warnings as far as there is room. Stops looking when it has them."""
    kept: list[Problem] = []
    wrong = 0
    for problem in problems:
        wrong += problem.severity == "error"
        if problem.severity == "error" or len(kept) < MAX_PROBLEMS:
            kept.append(problem)
        if wrong >= MAX_PROBLEMS:
            break
    return tuple(kept)


def errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]
