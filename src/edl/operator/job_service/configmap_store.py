"""Stores job states in the Kubernetes API: one ConfigMap per job, owned by the job, guarded by its resourceVersion.

`data` holds what a person may want to read (slots, versions), `binaryData` the values as they are. Only a ConfigMap
whose controller is the job, or an earlier job of its name, is ever read, written or deleted; and one of a backup that
has no controller, by the job that was restored with it (`restored_state`), whose it becomes with the first write.
"""

import base64
from typing import Any, Literal, TypeVar

import msgspec

from edl.api.kubernetes.meta import ObjectMeta
from edl.api.labels import LABEL_JOB, LABEL_UID
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.resource import Resource
from edl.ledger.job_use import KeptLedger
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.restored_state import LEDGER, is_sealed, state_name
from edl.operator.job_service.state import HeldSlot, JobState, Value
from edl.operator.job_service.store import ConflictError, NotRestoredError, Stored, UnavailableError
from edl.protocol.rounds import Round
from edl.scheduler.snapshot.objects import MEASURED_FILE
from edl.throughput.measurements import Measurements

T = TypeVar("T")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")

_META = "state.json"
_LEDGER = LEDGER
_RESTORE = "apply the whole backup; to begin anew, remove annotation edl.dev/restored-from"
_PROVE = "apply the whole backup, its key first; to begin anew, delete it and annotation edl.dev/restored-from"
_MEASURED = MEASURED_FILE
_PREFIX = "kv."


class _Meta(msgspec.Struct):
    revision: int
    writer: str
    slots: dict[str, HeldSlot]
    versions: dict[str, int]
    round: Round | None = None


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class ConfigMapStore:
    def __init__(self, client: Client, *, timeout: float = 10.0) -> None:
        self._client, self._timeout = client, timeout

    async def load(self, namespace: str, name: str, record: JobRecord) -> Stored | None:
        try:
            found = await self._find(namespace, _name(name, record))
        except KubeError as error:
            raise UnavailableError(str(error)) from error
        owned, what = _ownership(found, record), f"ConfigMap {namespace}/{_name(name, record)}"
        if (found is None or owned == "leftover") and record.restored_from:
            raise NotRestoredError(f"{what} is missing, which the job was restored with; {_RESTORE}")
        if found is None or owned == "leftover":
            return None
        if owned == "foreign":
            raise UnavailableError(f"{what} is not ours; delete it or rename the job")
        if owned == "unproven":
            raise NotRestoredError(f"{what} is not the state that this installation's key sealed; {_PROVE}")
        return Stored(_decode(found, what), found.metadata.resource_version)

    async def save(self, namespace: str, name: str, record: JobRecord, state: JobState, version: str | None) -> str:
        body = _body(namespace, name, record, state, version)
        try:
            if version is None:
                await self._remove_leftover(namespace, name, record)
                saved = await self._client.create(
                    CONFIGMAPS, body, type=_ConfigMap, namespace=namespace, timeout=self._timeout
                )
            else:
                saved = await self._client.replace(
                    CONFIGMAPS, _name(name, record), body, type=_ConfigMap, namespace=namespace, timeout=self._timeout
                )
        except ApiError as error:
            kind = ConflictError if error.code == 409 or error.is_not_found else UnavailableError
            raise kind(str(error)) from error
        except KubeError as error:
            raise UnavailableError(str(error)) from error
        return saved.metadata.resource_version

    async def _find(self, namespace: str, name: str) -> _ConfigMap | None:
        return await self._client.find(CONFIGMAPS, name, type=_ConfigMap, namespace=namespace, timeout=self._timeout)

    async def _remove_leftover(self, namespace: str, name: str, record: JobRecord) -> None:
        """Removes the ConfigMap of an older job of the same name, which garbage collection may not have removed yet."""
        found = await self._find(namespace, _name(name, record))
        if found is None or _ownership(found, record) != "leftover":
            return
        await self._client.delete(
            CONFIGMAPS, _name(name, record), namespace=namespace, uid=found.metadata.uid, timeout=self._timeout
        )


def _ownership(found: _ConfigMap | None, record: JobRecord) -> Literal["ours", "leftover", "foreign", "unproven"]:
    """By the uid of its controller; without one that we know (a record by hand), by the job's label. Of a restored job
    by the seal."""
    if found is None:
        return "ours"
    controller, owner = found.metadata.controller, record.owner
    if not owner:
        return "ours" if found.metadata.labels.get(LABEL_UID) == record.uid else "foreign"
    if controller is None and record.restored_from:
        sealed = is_sealed(
            found.metadata, found.data, found.binary_data, uid=record.restored_from, keys=record.state_keys
        )
        return "ours" if sealed else "unproven"
    if controller is None or (controller.kind, controller.name) != (owner["kind"], owner["name"]):
        return "foreign"
    return "ours" if controller.uid == record.uid else "leftover"


def _name(job: str, record: JobRecord) -> str:
    return state_name(job, record.tag)


def _body(namespace: str, name: str, record: JobRecord, state: JobState, version: str | None) -> dict[str, Any]:
    meta = _Meta(
        state.revision,
        state.writer,
        state.slots,
        {key: value.version for key, value in state.values.items()},
        state.round,
    )
    metadata: dict[str, Any] = {
        "name": _name(name, record),
        "namespace": namespace,
        "labels": {LABEL_JOB: name, LABEL_UID: record.uid},
    }
    if record.owner:
        metadata["ownerReferences"] = [record.owner]
    if version is not None:
        metadata["resourceVersion"] = version
    kept = _written(_LEDGER, state.ledger) | _written(_MEASURED, state.measured)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {_META: msgspec.json.encode(meta).decode(), **kept},
        "binaryData": {_PREFIX + key: base64.b64encode(value.data).decode() for key, value in state.values.items()},
    }


def _decode(found: _ConfigMap, what: str) -> JobState:
    try:
        meta = msgspec.json.decode(found.data.get(_META, ""), type=_Meta)
        values = {
            key: Value(version, base64.b64decode(found.binary_data[_PREFIX + key], validate=True))
            for key, version in meta.versions.items()
        }
    except (msgspec.DecodeError, KeyError, ValueError) as error:
        raise UnavailableError(f"{what} was edited and cannot be read ({error}); restore or delete it") from error
    ledger, measured = _read(found, _LEDGER, KeptLedger), _read(found, _MEASURED, Measurements)
    return JobState(meta.revision, meta.writer, meta.slots, values, meta.round, ledger, measured)


def _written(key: str, value: object) -> dict[str, str]:
    return {key: msgspec.json.encode(value).decode()} if value is not None else {}


def _read(found: _ConfigMap, key: str, kind: type[T]) -> T | None:
    """What cannot be read (another version's, or edited) is none: nothing of the training depends on it."""
    try:
        return msgspec.json.decode(found.data.get(key, ""), type=kind)
    except msgspec.DecodeError:
        return None
