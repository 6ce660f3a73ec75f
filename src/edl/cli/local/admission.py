"""Admission rules for EDL's own kinds: the API server refuses what `edl validate` refuses, with the same messages.

A real API server does part of this by CEL rules and the operator's webhook; here the functions are called directly.
"""

from functools import cache

from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object


@cache
def edl_groups() -> frozenset[str]:
    """The API groups of EDL's kinds; read when the first custom resource is written, not when the cluster starts."""
    from edl.jobs.registry import KINDS

    return frozenset(kind.group for kind in KINDS)


def edl_rules(group: str, _kind: str, new: Object, old: Object | None) -> list[Cause]:
    """Causes for which the API server refuses `new`; an edit of `old` if that is given."""
    if group not in edl_groups() or (old is not None and _checked_part(new) == _checked_part(old)):
        return []
    from edl.api.schema.problem import errors
    from edl.jobs.admission import check, check_edit

    found = errors(check(new).problems)
    if not found and old is not None:
        found = errors(check_edit(old, new))
    return [Cause("FieldValueInvalid", f"Invalid value: {problem.message}", problem.path) for problem in found]


def _checked_part(obj: Object) -> Object:
    """The part that rules are about. An accepted object stays writable by controllers, whatever rules came since."""
    annotations = (obj.get("metadata") or {}).get("annotations")
    return {"spec": obj.get("spec"), "annotations": annotations}
