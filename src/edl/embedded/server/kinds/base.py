"""What is particular to one kind, as a record of functions, so that the one write path serves all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edl.embedded.server.call import Object
from edl.embedded.server.status import Cause


def nothing(_obj: Object) -> None:
    return None


def _nothing_to_compare(_new: Object, _old: Object) -> None:
    return None


def valid(_obj: Object) -> list[Cause]:
    return []


def valid_change(_new: Object, _old: Object) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class Kind:
    """`default` fills in what is not given; the `prepare` functions set what clients may not; the `validate` functions
    say what is wrong. `generation` tells whether changes of the spec are counted."""

    default: Callable[[Object], None] = nothing
    prepare_create: Callable[[Object], None] = nothing
    prepare_update: Callable[[Object, Object], None] = _nothing_to_compare
    validate: Callable[[Object], list[Cause]] = valid
    validate_update: Callable[[Object, Object], list[Cause]] = valid_change
    validate_status: Callable[[Object], list[Cause]] = valid
    generation: bool = False
    has_status: bool = False
    returns_deleted: bool = False
    """A deletion answers with the object, not with a Status."""
    unconditional: bool = True
    """A replacement may come without a resourceVersion."""
