"""Strategy of a kind (defaults, preparation, validation), which plugs it into the common write path."""

from collections.abc import Callable

import msgspec

from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object


def nothing(_obj: Object) -> None:
    return None


def _nothing_to_compare(_new: Object, _old: Object) -> None:
    return None


def valid(_obj: Object) -> list[Cause]:
    return []


def valid_change(_new: Object, _old: Object) -> list[Cause]:
    return []


class Strategy(msgspec.Struct, frozen=True):
    """`default` sets absent fields; the `prepare` functions set what clients may not; the `validate` functions return
    the causes of a refusal. `generation` counts changes of the spec.
    """

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
