"""Admission: what depends on other objects (namespaces, service accounts, priorities, limits, quotas) or changes
them."""

from __future__ import annotations

from edl.embedded.server.admission import accounts, addresses, definitions, limits, namespaces, priorities, quotas
from edl.embedded.server.call import Call, Object
from edl.embedded.server.core import Core

__all__ = ["after", "check_namespace", "mutate", "validate"]

check_namespace = namespaces.check_namespace


def mutate(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Complete the object: runs before the kind's own rules."""
    storage = call.resource.storage
    if storage == "/pods" and old is None:
        limits.apply_defaults(core, call, new)
        accounts.give_account(core, call, new)
        priorities.give_priority(core, call, new)
    if storage == "/pods" and not call.subresource:
        priorities.tolerate_briefly(new)
    elif storage == "/nodes" and old is None:
        priorities.taint_until_ready(new)
    elif storage == "/services" and call.subresource != "status":
        addresses.give_address(core, new, old)
    elif storage == definitions.STORAGE:
        definitions.complete(core, new, old)


def validate(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Refuse what the object's surroundings forbid: runs last, when the object is complete."""
    if call.resource.storage == "/pods" and old is None:
        limits.check(core, call, new)
    if call.resource.storage == definitions.STORAGE:
        definitions.check(core, call, new, old)
    if old is None or call.subresource == "resize":
        quotas.check(core, call, new, old)


def after(core: Core, call: Call, new: Object | None, old: Object | None) -> None:
    """Stage what follows from the write, in the same transaction. `new` is None when the object is gone."""
    storage = call.resource.storage
    if storage == "/namespaces" and old is None and new is not None:
        namespaces.furnish(core, new)
    quotas.recount(core, call, new, old)
