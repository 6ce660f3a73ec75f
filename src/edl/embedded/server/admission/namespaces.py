"""Namespaces: nothing is created in one that is absent or going; a new one is furnished at once."""

from __future__ import annotations

from edl.embedded.server import status
from edl.embedded.server.call import Call, Object
from edl.embedded.server.core import Core, decode

_TERMINATING = "being terminated"


def check_namespace(core: Core, call: Call, name: str) -> None:
    if not call.namespace:
        return
    entry = core.store.latest("/namespaces", ("", call.namespace))
    if entry is None:
        raise status.not_found("", "namespaces", call.namespace)
    if b'"deletionTimestamp"' not in entry.body or not decode(entry.body)["metadata"].get("deletionTimestamp"):
        return
    resource = call.resource
    why = f"unable to create new content in namespace {call.namespace} because it is {_TERMINATING}"
    error = status.forbidden(resource.group, resource.plural, name, why)
    message = f"namespace {call.namespace} is {_TERMINATING}"
    assert error.details is not None
    error.details["causes"] = [{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]
    raise error


def furnish(core: Core, namespace: Object) -> None:
    """Every namespace has the service account that its pods use by default, and the authority they trust."""
    name = namespace["metadata"]["name"]
    core.ensure("", "v1", "serviceaccounts", {"metadata": {"name": "default", "namespace": name}})
    if core.root_ca:
        authority = {"metadata": {"name": "kube-root-ca.crt", "namespace": name}, "data": {"ca.crt": core.root_ca}}
        core.ensure("", "v1", "configmaps", authority)
