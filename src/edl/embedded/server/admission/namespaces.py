"""Namespace life cycle: refuses creations in a missing or terminating one, adds a new one's default objects."""

from edl.embedded.server import status
from edl.embedded.server.core import Core, decode
from edl.embedded.server.verbs.call import Call, Object

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


def create_default_objects(core: Core, namespace: Object) -> None:
    """The service account that pods use by default, and the certificate authority that they trust."""
    name = namespace["metadata"]["name"]
    account: Object = {"metadata": {"name": "default", "namespace": name}}
    if not core.default_tokens:
        account["automountServiceAccountToken"] = False
    core.ensure("", "v1", "serviceaccounts", account)
    if core.root_ca:
        authority = {"metadata": {"name": "kube-root-ca.crt", "namespace": name}, "data": {"ca.crt": core.root_ca}}
        core.ensure("", "v1", "configmaps", authority)
