"""The spec that is in force, as a job's status remembers it from its first pod to its end.

An edit that is refused changes nothing for as long as it is refused, whoever leads: what it replaced is no longer in
the spec, so it must be somewhere else. What was edited and honoured is remembered as it is now.
"""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from edl.api.schema.problem import Path, Problem
from edl.api.schema.rules import edit_problems, nested_structs
from edl.api.schema.spec import Unchanging

LONGEST = 64 * 1024
"""Characters. A longer spec is not remembered: an object of Kubernetes has an end, and status is rewritten often."""
S = TypeVar("S", bound=msgspec.Struct)


def remembered(spec: msgspec.Struct) -> str:
    """As it goes into status; `spec` is valid and defaulted."""
    text = msgspec.json.encode(spec).decode()
    return text if len(text) <= LONGEST else ""


def recalled(text: str, kind: type[S]) -> S | None:
    """From status, None if nothing is remembered, or nothing that can be read."""
    try:
        return msgspec.json.decode(text, type=kind) if text else None
    except (msgspec.DecodeError, RecursionError):
        return None


def keep_unchanging(old: S, new: S) -> tuple[S, tuple[Problem, ...]]:
    """The new spec with what its types declare as unchanging as it was, and what was refused with that."""
    problems = tuple(edit_problems(old, new, ("spec",)))
    return (_kept(old, new), problems) if problems else (new, ())


def _kept(old: Any, new: Any) -> Any:
    names = dict(zip(new.__struct_encode_fields__, new.__struct_fields__, strict=True))
    fields = [names[rule.field] for rule in getattr(new, "RULES", ()) if isinstance(rule, Unchanging)]
    changes = {field: getattr(old, field) for field in fields}
    kind: type[msgspec.Struct] = type(new)
    for attribute, _ in nested_structs(kind):
        before, after = getattr(old, attribute), getattr(new, attribute)
        if before is not None and after is not None:
            changes[attribute] = _kept(before, after)
    return replace(new, **changes)


def refused_value(field: Path, wanted: object, begun: object) -> Problem:
    words = f"{wanted} cannot take effect: the job's pods were started with {begun}; delete the job and create it anew"
    return Problem(("spec", *field), words)
