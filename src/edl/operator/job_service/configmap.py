"""The states of jobs in the Kubernetes API: one ConfigMap per job, owned by the job, guarded by its resourceVersion.

`data` holds what a person may want to read (slots, versions), `binaryData` the values as they are. Only a ConfigMap
that carries our label is ever written or deleted.
"""

import base64
from typing import Any

import msgspec

from edl.kube.client import Client
from edl.kube.errors import ApiError, KubeError
from edl.kube.resource import Resource
from edl.runtime.rendezvous.rounds import Round

from .record import JobRecord
from .state import JobState, Slot, Value
from .store import ConflictError, Stored, UnavailableError

CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
UID_LABEL = "edl.dev/job-uid"

_META = "state.json"
_PREFIX = "kv."


class _Meta(msgspec.Struct):
    revision: int
    writer: str
    slots: dict[str, Slot]
    versions: dict[str, int]
    round: Round | None = None


class _ObjectMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: _ObjectMeta
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
        if found is None or found.metadata.labels.get(UID_LABEL, record.uid) != record.uid:
            return None
        if UID_LABEL not in found.metadata.labels:
            raise UnavailableError(
                f"ConfigMap {namespace}/{_name(name, record)} is not ours; delete it or rename the job"
            )
        return Stored(_decode(found, f"ConfigMap {namespace}/{_name(name, record)}"), found.metadata.resource_version)

    async def save(self, namespace: str, name: str, record: JobRecord, state: JobState, version: str | None) -> str:
        body = _body(namespace, name, record, state, version)
        try:
            if version is None:
                await self._make_room(namespace, name, record)
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
        try:
            return await self._client.get(CONFIGMAPS, name, type=_ConfigMap, namespace=namespace, timeout=self._timeout)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def _make_room(self, namespace: str, name: str, record: JobRecord) -> None:
        """Removes what an older job of the same name left; the garbage collector may not have come by yet."""
        found = await self._find(namespace, _name(name, record))
        if found is None or found.metadata.labels.get(UID_LABEL, record.uid) == record.uid:
            return
        await self._client.delete(
            CONFIGMAPS, _name(name, record), namespace=namespace, uid=found.metadata.uid, timeout=self._timeout
        )


def _name(job: str, record: JobRecord) -> str:
    return f"{job}-{record.tag}-state"


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
        "labels": {"edl.dev/job": name, UID_LABEL: record.uid},
    }
    if record.owner:
        metadata["ownerReferences"] = [record.owner]
    if version is not None:
        metadata["resourceVersion"] = version
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {_META: msgspec.json.encode(meta).decode()},
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
    return JobState(meta.revision, meta.writer, meta.slots, values, meta.round)
