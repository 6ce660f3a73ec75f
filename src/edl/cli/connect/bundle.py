"""Collects what a report of a fault needs into one archive: versions, findings, objects, Events, logs, plan, metrics.

Secrets are never read for it, and values of environments are removed. What the caller may not read, or what does not
answer, is named in `missing.txt`; it keeps nothing else from being collected.
"""

import io
import platform
import tarfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from edl import __version__
from edl.api.labels import LABEL_JOB
from edl.doctor.finding import Data
from edl.doctor.redaction import redacted, redacted_text
from edl.install.cluster.pruning import everything
from edl.install.options import PART_OF
from edl.install.resources import resource_of as installed_resource
from edl.install.text import yaml_text
from edl.jobs.registry import JOB_KINDS, KINDS
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import Request
from edl.operator.resources import (
    CRDS,
    JOBS,
    NODES,
    PODS,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    resource_of,
)

EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
LOG_LINES, LOG_BYTES = 5000, 4 << 20
_OF_A_JOB = (PODS, JOBS, REPLICA_SETS, STATEFUL_SETS, SERVICES)
_OF_A_NAMESPACE = (QUOTAS,)
Files = dict[str, str]


class Collector:
    """`proof` opens the operators' metrics, if the caller has it."""

    def __init__(self, client: Client, system: str, *, proof: str = "") -> None:
        self._client, self._system, self._proof = client, system, proof
        self.files: Files = {}
        self._missing: list[str] = []

    def add(self, name: str, text: str) -> None:
        self.files[name] = redacted_text(text)

    async def collect(self) -> None:
        """What concerns the installation."""
        await self._versions()
        for resource in (*_installed(), LEASES, SLICES, PODS):
            await self._objects(resource, f"installation/{resource.plural}.yaml", self._system)
        await self._objects(CRDS, "installation/kinds.yaml", None, keep=_is_our_kind, shorten=_without_schema)
        await self._objects(NODES, "cluster/nodes.yaml", None)
        for kind in JOB_KINDS:
            await self._objects(resource_of(kind), f"cluster/{kind.crd_name}.yaml", None, shorten=_status_alone)
        await self._objects(EVENTS, "installation/events.yaml", self._system)
        await self._pods_of_ours()

    async def collect_job(self, kind: Resource, namespace: str, name: str) -> None:
        """What concerns one job."""
        folder = f"job/{namespace}-{name}"
        await self._objects(kind, f"{folder}/job.yaml", namespace, keep=lambda item: item["metadata"]["name"] == name)
        for resource in _OF_A_JOB:
            await self._objects(resource, f"{folder}/{resource.plural}.yaml", namespace, keep=_is_of(name))
        for resource in _OF_A_NAMESPACE:
            await self._objects(resource, f"{folder}/{resource.plural}.yaml", namespace)
        await self._objects(EVENTS, f"{folder}/events.yaml", namespace, keep=_is_about(name))

    def archive(self) -> bytes:
        files = {**self.files, "missing.txt": "".join(f"{line}\n" for line in self._missing)}
        output = io.BytesIO()
        with tarfile.open(fileobj=output, mode="w:gz") as archive:
            for name, text in sorted(files.items()):
                data = text.encode()
                entry = tarfile.TarInfo(f"edl-bundle/{name}")
                entry.size, entry.mode = len(data), 0o600
                archive.addfile(entry, io.BytesIO(data))
        return output.getvalue()

    async def _versions(self) -> None:
        server = await self._raw("/version", "version of the cluster")
        python = f"Python {platform.python_version()} on {platform.platform()}"
        self.add("versions.txt", f"edl {__version__}\n{python}\nKubernetes: {server}\n")

    async def _objects(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        *,
        keep: Callable[[Data], bool] = lambda item: True,
        shorten: Callable[[Data], Data] = lambda item: item,
    ) -> list[Data]:
        try:
            found = (await self._client.list(resource, namespace=namespace if resource.namespaced else None)).items
        except KubeError as error:
            self._missing.append(f"{name}: {error}")
            return []
        kept = [redacted(shorten({"kind": resource.kind, **item})) for item in found if keep(item)]
        self.files[name] = yaml_text(kept) if kept else ""
        return kept

    async def _pods_of_ours(self) -> None:
        """Logs of operators and Brain, also of what ran before a restart; metrics of operators."""
        found = await self._objects(PODS, "installation/pods.yaml", self._system)
        for pod in found:
            name = pod["metadata"]["name"]
            if not PART_OF.items() <= (pod["metadata"].get("labels") or {}).items():
                continue
            path = f"/api/v1/namespaces/{self._system}/pods/{name}/log"
            asked = {"tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
            self.add(f"logs/{name}.log", await self._raw(path, f"log of {name}", asked))
            if _restarted(pod):
                before = await self._raw(path, f"log of {name} before its restart", {**asked, "previous": "true"})
                self.add(f"logs/{name}.previous.log", before)
            if port := _metrics_port(pod):
                path = f"/api/v1/namespaces/{self._system}/pods/https:{name}:{port}/proxy/metrics"
                self.add(f"metrics/{name}.txt", await self._raw(path, f"metrics of {name}"))

    async def _raw(self, path: str, what: str, query: Mapping[str, str] | None = None) -> str:
        headers = {"EDL-Token": self._proof} if self._proof and path.endswith("/metrics") else {}
        try:
            answer = await self._client.raw(Request("GET", path, query=dict(query or {}), headers=headers))
        except KubeError as error:
            self._missing.append(f"{what}: {error}")
            return ""
        return bytes(answer.body).decode(errors="replace")


def _installed() -> Iterable[Resource]:
    return dict.fromkeys(installed_resource(body) for body in everything("any") if body["kind"] != "Secret")


def _is_of(job: str) -> Callable[[Data], bool]:
    return lambda item: (item["metadata"].get("labels") or {}).get(LABEL_JOB) == job


def _is_about(job: str) -> Callable[[Data], bool]:
    return lambda event: str((event.get("regarding") or {}).get("name", "")).startswith(job)


def _is_our_kind(crd: Data) -> bool:
    return crd["metadata"]["name"] in {kind.crd_name for kind in KINDS}


def _without_schema(crd: Data) -> Data:
    """Which versions are served and stored, and its conditions."""
    versions = [{key: one.get(key) for key in ("name", "served", "storage")} for one in crd["spec"]["versions"]]
    return {**crd, "spec": {"group": crd["spec"]["group"], "versions": versions}}


def _status_alone(job: Data) -> Data:
    metadata = {key: job["metadata"].get(key) for key in ("name", "namespace", "uid", "generation", "annotations")}
    return {"kind": job["kind"], "metadata": metadata, "status": job.get("status")}


def _restarted(pod: Data) -> bool:
    return any(one.get("restartCount") for one in (pod.get("status") or {}).get("containerStatuses") or ())


def _metrics_port(pod: Data) -> int | None:
    """None: it serves none there."""
    ports: list[Any] = [port for one in pod["spec"]["containers"] for port in one.get("ports") or ()]
    named = (port["containerPort"] for port in ports if port.get("name") == "metrics")
    return next(named, None)
