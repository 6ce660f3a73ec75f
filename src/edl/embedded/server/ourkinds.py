"""Admission for EDL's own kinds: what `edl validate` refuses, the server refuses, with the same words.

A real API server does part of this by CEL rules; here the functions themselves are at hand.
"""

from __future__ import annotations

from edl.embedded.server.call import Object
from edl.embedded.server.status import Cause

_GROUPS = frozenset({"paddlepaddle.org", "elastic.pytorch.org", "elastic.iml.github.io", "elastic.easydl.org"})


def edl_rules(group: str, _kind: str, new: Object, old: Object | None) -> list[Cause]:
    if group not in _GROUPS or (old is not None and _judged(new) == _judged(old)):
        return []
    from edl.api.admission import check, check_edit
    from edl.api.problem import errors

    found = errors(check(new).problems)
    if not found and old is not None:
        found = errors(check_edit(old, new))
    return [Cause("FieldValueInvalid", f"Invalid value: {problem.message}", problem.path) for problem in found]


def _judged(obj: Object) -> Object:
    """What rules are about: an object that was accepted keeps being written by controllers, whatever rules came
    since."""
    annotations = (obj.get("metadata") or {}).get("annotations")
    return {"spec": obj.get("spec"), "annotations": annotations}
