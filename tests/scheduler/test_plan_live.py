"""`edl plan` without a file, on a cluster that is up: the same answer as from a dump of the cluster, and no write."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.cli.commands.jobs.plan import _NATIVE
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport
from tests.embedded.cluster_fixture import PODS, Cluster, pod
from tests.scheduler.makers import Data, elastic_job, training_job

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
ELASTIC_JOBS = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")
TRAINING_JOBS = Resource("paddlepaddle.org", "v1", "trainingjobs", "TrainingJob")
NATIVE = [Resource(*row) for row in _NATIVE]


class Edl:
    def __init__(self, home: Path) -> None:
        self.kubeconfig = home / "kubeconfig"
        self._env = {**os.environ, "EDL_HOME": str(home)}
        self._env.pop("KUBECONFIG", None)

    def __call__(self, *words: str) -> str:
        command = [sys.executable, "-m", "edl.cli.main", *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def edl(tmp_path: Path) -> Iterator[Edl]:
    edl = Edl(tmp_path / "home")
    try:
        edl("up", "--no-operator", "--nodes", "2", "--cpu", "8", "--memory", "8Gi", "--gpu", "4")
        yield edl
    finally:
        edl("down")


def asking(name: str, cpu: str) -> Data:
    body: Data = pod(name, script="sleep 1000")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return body


async def install(cluster: Cluster, definitions: str) -> None:
    for definition in yaml.safe_load_all(definitions):
        await cluster.create(CRDS, definition)
    for resource in (ELASTIC_JOBS, TRAINING_JOBS):
        await cluster.until(CRDS, f"{resource.plural}.{resource.group}", established)


def established(definition: Data) -> bool:
    conditions = definition.get("status", {}).get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def fill(cluster: Cluster) -> None:
    await cluster.create(PODS, asking("web", "2"))
    await cluster.phase("web", "Running")
    await cluster.create(PODS, asking("giant", "100"))
    await cluster.until(PODS, "giant", lambda one: one.get("status", {}).get("conditions"))
    await cluster.create(ELASTIC_JOBS, elastic_job("hungry", 1, 6, cpu=1, gpu=1))
    await cluster.create(TRAINING_JOBS, training_job("huge", 1, 1, cpu=1, gpu=5))


async def everything(client: Client) -> list[Data]:
    found: list[Data] = []
    for resource in (*NATIVE, ELASTIC_JOBS, TRAINING_JOBS):
        items: list[Any] = (await client.list(resource)).items
        found += [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in items]
    return found


async def test_the_cluster_and_a_dump_of_it_get_one_plan(edl: Edl, tmp_path: Path) -> None:
    client = Client(HttpTransport(load_client_config(edl.kubeconfig)))
    try:
        await install(Cluster(client), await asyncio.to_thread(edl, "crds"))
        await fill(Cluster(client))
        before = await everything(client)
        made = json.loads(await asyncio.to_thread(edl, "plan", "-o", "json"))
        after = await everything(client)
    finally:
        await client.close()
    assert versions(after) == versions(before), "a dry run writes nothing"
    (tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": before}))
    again = await asyncio.to_thread(edl, "plan", "-f", str(tmp_path / "dump.json"), "--now", made["now"], "-o", "json")
    assert json.loads(again) == made
    jobs = {job["name"]: job for job in made["jobs"]}
    assert (jobs["hungry"]["current"], jobs["hungry"]["target"]) == (0, 6)
    assert sum(jobs["hungry"]["placements"]["worker"].values()) == 6
    assert jobs["huge"]["target"] == 0
    assert "needs 5 GPUs on one node, the largest has 4 (node-0)" in jobs["huge"]["reason"]
    assert [(one["name"], one["placed"]) for one in made["foreign"]] == [("giant", False)]
    assert made["cluster"]["capacity"]["nvidia.com/gpu"] == "8"
    assert made["cluster"]["used_before"]["cpu"] == "2"
    table = await asyncio.to_thread(edl, "plan")
    assert table.splitlines()[1].split()[:3] == ["default/hungry", "0", "6"]


def versions(objects: list[Data]) -> dict[str, str]:
    """Nodes write their heartbeats whatever happens."""
    return {
        f"{one['kind']} {one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for one in objects
        if one["kind"] != "Node"
    }
