"""Migration from client-side to server-side apply, as kubectl does it.

An object that was applied client-side carries the applied configuration in an annotation, and its fields belong to the
manager `kubectl-client-side-apply`. When kubectl then applies server-side, conflicts about exactly those fields are
resolved in its favour, and the annotation is kept up to date.
"""

from typing import Any

import msgspec

from edl.embedded.server import status
from edl.embedded.server.apply import merge as merging
from edl.embedded.server.apply.fieldset import members, of_applied, show
from edl.embedded.server.apply.managed_fields import Manager, ownable
from edl.embedded.server.types.model import Type
from edl.embedded.server.verbs.call import Object

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def apply(kind: Type, live: Object, config: Object, *, manager: Manager, force: bool, **options: Any) -> Object:
    """As `merge.apply`, with kubectl's migration."""
    before = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    if manager.name != "kubectl" or not before:
        return merging.apply(kind, live, config, manager=manager, force=force, **options)
    try:
        new = merging.apply(kind, live, config, manager=manager, force=force, **options)
    except status.ApiError as error:
        if not _allowed(kind, before, error):
            raise
        new = merging.apply(kind, live, config, manager=manager, force=True, **options)
    if new is not live:
        annotations = {**(new["metadata"].get("annotations") or {}), ANNOTATION: _annotation(config)}
        new["metadata"] = {**new["metadata"], "annotations": annotations}
    return new


def _allowed(kind: Type, before: str, error: status.ApiError) -> bool:
    """Whether every conflict is about a field that kubectl itself applied before."""
    causes = (error.details or {}).get("causes") or []
    if error.code != 409 or not causes:
        return False
    try:
        applied = msgspec.json.decode(before, type=dict[str, Any])
        mine = {show(path) for path in members(of_applied(kind, ownable({"metadata": {}, **applied})))}
    except (msgspec.MsgspecError, TypeError, AttributeError):
        return False
    return all(cause["field"] in mine for cause in causes)


def _annotation(config: Object) -> str:
    annotations = {
        key: value for key, value in (config["metadata"].get("annotations") or {}).items() if key != ANNOTATION
    }
    shown = {**config, "metadata": {**config["metadata"], "annotations": annotations}}
    return msgspec.json.Encoder(order="deterministic").encode(shown).decode() + "\n"
