"""A finding of a diagnosis: its severity, its subject, and the fix."""

from typing import Any, Literal

import msgspec

Level = Literal["ok", "note", "wrong"]
Data = dict[str, Any]


class Finding(msgspec.Struct, frozen=True):
    """`wrong` keeps something from working; a `note` is worth knowing. What is wrong has a `fix`."""

    level: Level
    about: str
    message: str
    fix: str = ""


def ok(about: str, message: str) -> Finding:
    return Finding("ok", about, message)


def note(about: str, message: str, fix: str = "") -> Finding:
    return Finding("note", about, message, fix)


def wrong(about: str, message: str, fix: str) -> Finding:
    return Finding("wrong", about, message, fix)


def condition(item: Data, kind: str) -> Data:
    """The condition of this type in the status of an object; empty if it has none."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


def is_true(item: Data, kind: str) -> bool:
    return condition(item, kind).get("status") == "True"


def listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
