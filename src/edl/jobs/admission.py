"""Checks an object of any kind: decode, validate, default, for `edl validate`, webhook and operator alike."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from edl.api.schema.problem import MAX_PROBLEMS, Path, Problem, errors, first, warning
from edl.api.schema.rules import edit_problems, rule_problems
from edl.jobs.core.objects import EdlObject
from edl.jobs.core.validation import metadata_problems
from edl.jobs.decoding import decode
from edl.jobs.registry import kind_of

T = TypeVar("T", bound=EdlObject)


class Checked(msgspec.Struct, frozen=True):
    """`object`, decoded and defaulted, is there if no problem is an error."""

    object: EdlObject | None
    problems: tuple[Problem, ...]


def check(value: object) -> Checked:
    """All errors and warnings at once. Never raises, whatever the value."""
    try:
        return _check(value)
    except RecursionError:
        return Checked(None, (Problem((), "is nested too deeply to be read"),))


def _check(value: object) -> Checked:
    decoded = decode(value)
    if decoded.rest is None:
        return Checked(None, decoded.problems)
    found = [problem for problem in validate(decoded.rest) if not _within(problem.at, decoded.tainted)]
    problems = (*decoded.problems, *found)
    if len(problems) >= MAX_PROBLEMS:
        problems = (*problems, warning((), f"has more problems than the first {MAX_PROBLEMS}; mend these first"))
    return Checked(None if errors(problems) else default(decoded.rest), problems)


def check_edit(old: object, new: object) -> tuple[Problem, ...]:
    """What an edit asks for that cannot be honoured. Objects that are wrong by themselves are `check`'s to refuse."""
    before, after = decode(old).object, decode(new).object
    if before is None or after is None or type(before) is not type(after):
        return ()
    return tuple(edit_problems(default(before).spec, default(after).spec, ("spec",)))


def default(value: T) -> T:
    """The same object with every omitted field that has a default. In memory: a user's spec is never written."""
    defaulted: T = kind_of(value).default(value)
    return defaulted


def validate(value: EdlObject) -> tuple[Problem, ...]:
    """Errors and warnings, the first hundred, of an object that is defaulted or not. Never raises."""
    return first(_problems(value))


def _problems(value: EdlObject) -> Iterator[Problem]:
    kind = kind_of(value)
    yield from metadata_problems(value.metadata, names_pods=kind.names_pods)
    yield from rule_problems(value.spec, ("spec",))
    yield from kind.validate(value, default(value))


def _within(at: Path, tainted: tuple[Path, ...]) -> bool:
    return any(at[: len(bad)] == bad for bad in tainted)
