"""The state of a job in a backup, and how the restored job knows it: by a seal of the installation's key. Pure.

On a new cluster a job has another uid, and what it had stored has no owner. Anybody who may write ConfigMaps in the
job's namespace could put a state there; so a state without an owner counts only if the job says which uid it had, and
the seal says that the state is that one's, of this name in this namespace, and as it was. No pod knows the seal's key.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec

from edl.api.kubernetes.meta import ObjectMeta
from edl.api.labels import LABEL_JOB, LABEL_UID, SEAL

Texts = Mapping[str, str]
LEDGER = "ledger.json"


def state_name(job: str, tag: str) -> str:
    return f"{job}-{tag}-state"


def backed_up(found: dict[str, Any], *, job: str, uid: str, key: str) -> dict[str, Any]:
    """A job's ConfigMap for a backup: without owner, sealed. The account stays behind: it is of the job that was."""
    name, namespace = found["metadata"]["name"], found["metadata"]["namespace"]
    data = {one: text for one, text in (found.get("data") or {}).items() if one != LEDGER}
    binary = found.get("binaryData") or {}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {LABEL_JOB: job, LABEL_UID: uid},
        "annotations": {SEAL: _seal(key, namespace, name, uid, data, binary)},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data, "binaryData": binary}


def is_sealed(metadata: ObjectMeta, data: Texts, binary: Texts, *, uid: str, keys: tuple[str, ...]) -> bool:
    made = metadata.annotations.get(SEAL, "").encode()
    wanted = (_seal(key, metadata.namespace, metadata.name, uid, data, binary) for key in keys)
    return any(hmac.compare_digest(made, one.encode()) for one in wanted)


def _seal(key: str, namespace: str, name: str, uid: str, data: Texts, binary: Texts) -> str:
    told = msgspec.json.encode([namespace, name, uid, sorted(data.items()), sorted(binary.items())])
    return hmac.new(key.encode(), told, hashlib.sha256).hexdigest()
