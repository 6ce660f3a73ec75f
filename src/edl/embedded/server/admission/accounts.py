"""Service accounts: every pod gets one, and its token at the path where client libraries expect it."""

import copy

from edl.embedded.server import names, status
from edl.embedded.server.core import Core
from edl.embedded.server.kinds.pod_defaults import containers
from edl.embedded.server.verbs.call import Call, Object

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access-"


def set_service_account(core: Core, call: Call, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or "default"
    entry = core.store.latest("/serviceaccounts", (call.namespace, name))
    if entry is None:
        why = f'error looking up service account {call.namespace}/{name}: serviceaccount "{name}" not found'
        raise status.forbidden("", "pods", pod["metadata"].get("name", ""), why)
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = core.peek(entry)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = copy.deepcopy(account["imagePullSecrets"])
    wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken"))
    if wanted is not False:
        _mount_token(core, spec)


def _mount_token(core: Core, spec: Object) -> None:
    bare = [container for container in containers(spec) if not _has_token(container)]
    if not bare:
        return
    volumes = spec.setdefault("volumes", [])
    known = next((volume["name"] for volume in volumes if volume["name"].startswith(_VOLUME)), "")
    volume = known or names.generate(_VOLUME, core.random)
    if not known:
        volumes.append({"name": volume, "projected": _projected()})
    for container in bare:
        mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}
        container.setdefault("volumeMounts", []).append(mount)


def _has_token(container: Object) -> bool:
    return any(mount.get("mountPath") == TOKEN_PATH for mount in container.get("volumeMounts") or ())


def _projected() -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": authority},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }
