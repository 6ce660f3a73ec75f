"""ConfigMaps, Secrets, ServiceAccounts, Events and the RBAC objects."""

import base64
import re

from edl.embedded.server import causes
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_SIZE_LIMIT = 1 << 20
_REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _check_keys(obj: Object, *fields: str) -> list[Cause]:
    found = []
    for field in fields:
        for key in obj.get(field) or {}:
            if not _KEY.match(key):
                found.append(causes.invalid(f"{field}[{key}]", key, _KEY_RULE))
            elif len(key) > 253:
                found.append(causes.invalid(f"{field}[{key}]", key, "must be no more than 253 characters"))
    return found


def _check_configmap(obj: Object) -> list[Cause]:
    found = _check_keys(obj, "data", "binaryData")
    for key in obj.get("binaryData") or {}:
        if key in (obj.get("data") or {}):
            found.append(causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    size = sum(len(value) for value in (obj.get("data") or {}).values())
    size += sum(len(value) * 3 // 4 for value in (obj.get("binaryData") or {}).values())
    if size > _SIZE_LIMIT:
        found.append(causes.too_long("", _SIZE_LIMIT))
    return found


def _check_frozen(new: Object, old: Object, *fields: str) -> list[Cause]:
    """`immutable: true` cannot be undone."""
    if not old.get("immutable"):
        return []
    found = []
    if not new.get("immutable"):
        found.append(causes.forbidden("immutable", "field is immutable when `immutable` is set"))
    changed = [field for field in fields if new.get(field) != old.get(field)]
    return found + [causes.forbidden(field, "field is immutable when `immutable` is set") for field in changed]


def _update_configmap(new: Object, old: Object) -> list[Cause]:
    return _check_frozen(new, old, "data", "binaryData") + _check_configmap(new)


def _default_secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")


def fold_string_data(secret: Object) -> None:
    """`stringData` is write-only: it is merged into `data`."""
    for key, value in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _check_secret(secret: Object) -> list[Cause]:
    found = _check_keys(secret, "data")
    data = secret.get("data") or {}
    found += [causes.required(f"data[{key}]") for key in _REQUIRED_KEYS.get(secret["type"], ()) if key not in data]
    if sum(len(value) * 3 // 4 for value in data.values()) > _SIZE_LIMIT:
        found.append(causes.too_long("data", _SIZE_LIMIT))
    return found


def _update_secret(new: Object, old: Object) -> list[Cause]:
    found = []
    if new["type"] != old["type"]:
        found.append(causes.immutable("type", new["type"]))
    return found + _check_frozen(new, old, "data") + _check_secret(new)


def _check_role_binding(binding: Object) -> list[Cause]:
    found = []
    reference = binding["roleRef"]
    if reference.get("apiGroup") != "rbac.authorization.k8s.io":
        found.append(
            causes.unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), ("rbac.authorization.k8s.io",))
        )
    if reference.get("kind") not in ("Role", "ClusterRole"):
        found.append(causes.unsupported("roleRef.kind", reference.get("kind", ""), ("Role", "ClusterRole")))
    if not reference.get("name"):
        found.append(causes.required("roleRef.name"))
    return found


def _default_role_binding(binding: Object) -> None:
    if not binding["roleRef"].get("apiGroup"):
        binding["roleRef"]["apiGroup"] = "rbac.authorization.k8s.io"
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = "rbac.authorization.k8s.io"


def _update_role_binding(new: Object, old: Object) -> list[Cause]:
    found = _check_role_binding(new)
    if new["roleRef"] != old["roleRef"]:
        found.append(causes.invalid("roleRef", new["roleRef"], "cannot change roleRef"))
    return found


def _check_event(event: Object) -> list[Cause]:
    about = event.get("involvedObject") or {}
    namespace = event["metadata"].get("namespace", "")
    wanted = about.get("namespace", "")
    if (wanted and wanted != namespace) or (not wanted and namespace not in ("default", "kube-system")):
        return [causes.invalid("involvedObject.namespace", wanted, "does not match event.namespace")]
    return []


CONFIG_MAP = Strategy(validate=_check_configmap, validate_update=_update_configmap)
SECRET = Strategy(default=_default_secret, validate=_check_secret, validate_update=_update_secret)
SERVICE_ACCOUNT = Strategy(returns_deleted=True)
EVENT = Strategy(validate=_check_event)
ROLE = Strategy()
ROLE_BINDING = Strategy(
    default=_default_role_binding, validate=_check_role_binding, validate_update=_update_role_binding
)
