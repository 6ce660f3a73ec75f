"""Volumes and working directories of pods on a process node."""

import os
from pathlib import Path

import pytest
from tests.embedded.cluster_fixture import PODS, Cluster, cluster_with_node
from tests.embedded.node.seen import log_of, main

from edl.kube.rest.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


@pytest.mark.parametrize("mode", ["none", "best"])
async def test_volumes_appear_at_their_paths_in_every_mode(tmp_path: Path, mode: str) -> None:
    """Mounted where the machine allows it; else below the pod's directory, and whatever names the path leads there."""
    modes = ("none",) if mode == "none" else ("mount", "user", "none")
    async with cluster_with_node(tmp_path, modes=modes) as cluster:
        await cluster.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "from the map"}})
        container = {
            "workingDir": "/edl-test/work",
            "command": ["cat", "/edl-test/config/k", "given", "/edl-test/work/sub/also"],
            "volumeMounts": [
                {"name": "config", "mountPath": "/edl-test/config"},
                {"name": "work", "mountPath": "/edl-test/work"},
            ],
        }
        init = {
            "name": "i",
            "image": "x",
            "env": [{"name": "PLACE", "value": "/edl-test/work"}],
            "command": ["sh", "-c", "echo written > $PLACE/given; mkdir $PLACE/sub; echo deep > $PLACE/sub/also"],
            "volumeMounts": [{"name": "work", "mountPath": "/edl-test/work"}],
        }
        volumes = [{"name": "config", "configMap": {"name": "c"}}, {"name": "work", "emptyDir": {}}]
        await cluster.pod("p", container=container, initContainers=[init], volumes=volumes)
        found = await cluster.phase("p", "Succeeded")
        assert log_of(cluster, found).split("\n") == ["from the mapwritten", "deep"]
        assert "edl-test" not in os.listdir("/")


async def test_a_mounted_config_map_follows_its_object(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edl.embedded.node.pod.worker._REFRESH_SECONDS", 0.3)
    await cluster.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "old"}})
    container = {
        "volumeMounts": [{"name": "v", "mountPath": "/edl-test"}],
        "env": [{"name": "AT", "value": "/edl-test"}],
    }
    volumes = [{"name": "v", "configMap": {"name": "c"}}]
    await cluster.pod("p", script="while ! grep new $AT/k; do sleep 0.1; done", container=container, volumes=volumes)
    await cluster.phase("p", "Running")
    await cluster.client.patch(CONFIG_MAPS, "c", {"data": {"k": "new"}}, namespace="default")
    await cluster.phase("p", "Succeeded")


@pytest.mark.parametrize("mode", ["none", "best"])
async def test_a_working_directory_that_is_nowhere_is_made(tmp_path: Path, mode: str) -> None:
    """In the volume that it lies in, else as the container's own; empty at every run, and never on the machine."""
    modes = ("none",) if mode == "none" else ("mount", "user", "none")
    async with cluster_with_node(tmp_path, modes=modes) as cluster:
        own = {"workingDir": "/edl-test/nowhere/deep"}
        await cluster.pod("own", script="ls; touch mine; exit 1", container=own, restartPolicy="OnFailure")
        shared = {"workingDir": "/edl-test/v/sub", "volumeMounts": [{"name": "v", "mountPath": "/edl-test/v"}]}
        volumes = [{"name": "v", "emptyDir": {}}]
        script = "touch given; cd ..; find . -name given"
        await cluster.pod("shared", script=script, container=shared, volumes=volumes)
        found = await cluster.phase("shared", "Succeeded")
        assert log_of(cluster, found) == "./sub/given"
        found = await cluster.until(
            PODS, "own", lambda p: p["status"].get("containerStatuses") and main(p)["restartCount"] >= 1
        )
        await cluster.until(PODS, "own", lambda p: p["status"]["containerStatuses"][0]["lastState"])
        assert log_of(cluster, found, run=0) == log_of(cluster, found, run=1) == ""
        assert main(found)["lastState"]["terminated"]["exitCode"] == 1
        assert "edl-test" not in os.listdir("/")


async def test_a_working_directory_that_is_a_file_is_refused_by_name(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await cluster.pod("p", script="true", container={"workingDir": str(tmp_path / "file")})
    found = await cluster.phase("p", "Failed")
    assert f"workingDir {tmp_path}/file: Not a directory" in main(found)["state"]["terminated"]["message"]
