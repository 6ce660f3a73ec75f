"""Whether an object of ours is good: the three steps in a row, for `edl validate`, webhook and operator alike."""

import msgspec

from edl.api.decoding import decode
from edl.api.defaults import default
from edl.api.kinds import EdlObject
from edl.api.problem import MAX_PROBLEMS, Path, Problem, errors, warning
from edl.api.rules import edit_problems
from edl.api.validation import validate


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


def _within(at: Path, tainted: tuple[Path, ...]) -> bool:
    return any(at[: len(bad)] == bad for bad in tainted)
