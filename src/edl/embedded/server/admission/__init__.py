"""Admission: checks and defaults that depend on other objects (namespaces, service accounts, priorities, limits,
quotas), and writes to them.
"""

from edl.embedded.server.admission import accounts, addresses, definitions, limits, namespaces, priorities, quotas
from edl.embedded.server.core import Core
from edl.embedded.server.verbs.call import Call, Object

__all__ = ["after", "check_namespace", "mutate", "validate"]

check_namespace = namespaces.check_namespace


def mutate(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Fills in what depends on other objects; runs before the kind's own validation."""
    storage = call.resource.storage
    if storage == "/pods" and old is None:
        limits.apply_defaults(core, call, new)
        accounts.set_service_account(core, call, new)
        priorities.set_priority(core, call, new)
    if storage == "/pods" and not call.subresource:
        priorities.add_default_tolerations(new)
    elif storage == "/nodes" and old is None:
        priorities.taint_until_ready(new)
    elif storage == "/services" and call.subresource != "status":
        addresses.allocate_cluster_ip(core, new, old)
    elif storage == definitions.STORAGE:
        definitions.set_defaults(core, new, old)


def validate(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Refuses what other objects forbid; runs last, when the object is complete."""
    if call.resource.storage == "/pods" and old is None:
        limits.check(core, call, new)
    if call.resource.storage == definitions.STORAGE:
        definitions.check(core, call, new, old)
    if old is None or call.subresource == "resize":
        quotas.check(core, call, new, old)


def after(core: Core, call: Call, new: Object | None, old: Object | None) -> None:
    """Stages writes that follow from this one, in the same transaction. `new` is None when the object is gone."""
    storage = call.resource.storage
    if storage == "/namespaces" and old is None and new is not None:
        namespaces.create_default_objects(core, new)
    quotas.recount(core, call, new, old)
