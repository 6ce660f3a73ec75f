"""ReplicaSets, Deployments and StatefulSets: what a user sees of them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.embedded.cluster_fixture import PODS, eventually
from tests.embedded.controllers.stage import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Stage, stage, template, workload

from edl.kube.rest.resource import Resource

LIMITS = Resource("", "v1", "limitranges", "LimitRange")


@pytest.fixture
async def play() -> AsyncIterator[Stage]:
    async with stage("replicaset", "deployment", "statefulset", "garbage-collector") as made:
        yield made


async def scale(play: Stage, resource: Resource, name: str, replicas: int) -> None:
    await play.client.patch(resource, name, {"spec": {"replicas": replicas}}, namespace="default")


async def images(play: Stage) -> list[str]:
    return [one["spec"]["containers"][0]["image"] for one in await play.pods(app="x")]


async def test_a_replica_set_keeps_its_size(play: Stage) -> None:
    await play.create(REPLICA_SETS, workload("r", 3))
    await play.settled(3, app="x")
    status = (await play.until(REPLICA_SETS, "r", lambda one: one["status"].get("availableReplicas") == 3))["status"]
    assert (status["replicas"], status["readyReplicas"], status["fullyLabeledReplicas"]) == (3, 3, 3)
    first = (await play.pods())[0]
    assert first["metadata"]["generateName"] == "r-"
    assert first["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    await play.client.delete(PODS, first["metadata"]["name"], namespace="default")
    await play.settled(3, app="x")
    assert first["metadata"]["name"] not in await play.names()
    await play.end((await play.names())[0], 1)

    async def replaced() -> bool:
        return [one["status"]["phase"] for one in await play.pods()].count("Running") == 3

    await eventually(replaced)


async def test_a_replica_set_shrinks_by_those_that_are_missed_least(play: Stage) -> None:
    await play.create(REPLICA_SETS, workload("r", 3))
    await play.settled(3, app="x")
    cheap = (await play.names())[1]
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
    await play.client.patch(PODS, cheap, cost, namespace="default")
    await scale(play, REPLICA_SETS, "r", 2)
    await play.settled(2, app="x")
    assert cheap not in await play.names()
    await scale(play, REPLICA_SETS, "r", 0)
    await play.settled(0, app="x")


async def test_strays_are_adopted_and_what_no_longer_matches_is_let_go(play: Stage) -> None:
    stray = {"metadata": {"name": "stray", "labels": {"app": "x"}}, "spec": template()["spec"]}
    await play.create(PODS, stray)
    await play.create(REPLICA_SETS, workload("r", 2))
    await play.settled(2, app="x")
    adopted = await play.until(PODS, "stray", lambda one: one["metadata"].get("ownerReferences"))
    assert adopted["metadata"]["ownerReferences"][0]["name"] == "r"
    await play.client.patch(PODS, "stray", {"metadata": {"labels": {"app": "other"}}}, namespace="default")
    await play.until(PODS, "stray", lambda one: not one["metadata"].get("ownerReferences"))
    await play.settled(2, app="x")


async def test_a_refused_pod_is_told_in_the_conditions(play: Stage) -> None:
    limits = [{"type": "Pod", "min": {"memory": "1Gi"}}]
    await play.create(LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    await play.create(REPLICA_SETS, workload("r", 2))
    found = await play.until(REPLICA_SETS, "r", lambda one: one["status"].get("conditions"))
    assert "minimum memory usage per Pod is 1Gi" in found["status"]["conditions"][0]["message"]
    await play.client.delete(LIMITS, "l", namespace="default")
    await play.settled(2, app="x")
    await play.until(REPLICA_SETS, "r", lambda one: not one["status"].get("conditions"))


async def test_a_deployment_rolls_without_losing_availability(play: Stage) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await play.create(DEPLOYMENTS, workload("d", 3, strategy=strategy))
    await play.settled(3, app="x")
    await play.until(DEPLOYMENTS, "d", lambda one: one["status"].get("availableReplicas") == 3)
    least = 3
    await play.client.patch(DEPLOYMENTS, "d", {"spec": {"template": template(version="2")}}, namespace="default")

    async def rolled() -> bool:
        nonlocal least
        pods = await play.pods(app="x")
        least = min(least, sum(one["status"].get("phase") == "Running" for one in pods))
        return await images(play) == ["image:2"] * 3

    await eventually(rolled)
    assert least == 3
    found = await play.until(DEPLOYMENTS, "d", lambda one: one["status"].get("updatedReplicas") == 3)
    done = await play.until(
        DEPLOYMENTS, "d", lambda one: _condition(one, "Progressing")["reason"] == "NewReplicaSetAvailable"
    )
    assert done["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert _condition(done, "Available")["status"] == "True"
    assert done["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


def _condition(one: Any, kind: str) -> Any:
    return next((found for found in one["status"].get("conditions", []) if found["type"] == kind), {"reason": ""})


async def test_a_broken_version_stops_the_roll_and_can_be_undone(play: Stage) -> None:
    await play.create(DEPLOYMENTS, workload("d", 4, progressDeadlineSeconds=1))
    await play.settled(4, app="x")
    old = {one["metadata"]["name"] for one in await play.pods()}
    play.unready.add("d-")
    await play.client.patch(DEPLOYMENTS, "d", {"spec": {"template": template(version="bad")}}, namespace="default")

    async def failed() -> bool:
        return bool(_condition(await play.get(DEPLOYMENTS, "d"), "Progressing")["reason"] == "ProgressDeadlineExceeded")

    play.unready.clear()
    play.unready.update({"d-"} - old)
    await eventually(failed)
    await play.client.patch(DEPLOYMENTS, "d", {"spec": {"template": template(version="1")}}, namespace="default")
    play.unready.clear()

    async def back() -> bool:
        return await images(play) == ["image:1"] * 4

    await eventually(back)
    sets = (await play.client.list(REPLICA_SETS, namespace="default")).items
    assert len(sets) == 2
    revisions = {
        one["spec"]["replicas"]: one["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for one in sets
    }
    assert revisions[4] == "3"


async def test_recreate_stops_the_old_before_it_starts_the_new(play: Stage) -> None:
    await play.create(DEPLOYMENTS, workload("d", 2, strategy={"type": "Recreate"}))
    await play.settled(2, app="x")
    mixed = False
    await play.client.patch(DEPLOYMENTS, "d", {"spec": {"template": template(version="2")}}, namespace="default")

    async def rolled() -> bool:
        nonlocal mixed
        present = await images(play)
        mixed |= len(set(present)) > 1
        return present == ["image:2"] * 2

    await eventually(rolled)
    assert not mixed


async def test_a_paused_deployment_scales_but_does_not_roll(play: Stage) -> None:
    await play.create(DEPLOYMENTS, workload("d", 2))
    await play.settled(2, app="x")
    paused = {"spec": {"paused": True, "replicas": 3, "template": template(version="2")}}
    await play.client.patch(DEPLOYMENTS, "d", paused, namespace="default")
    await play.settled(3, app="x")
    assert await images(play) == ["image:1"] * 3
    await play.client.patch(DEPLOYMENTS, "d", {"spec": {"paused": False}}, namespace="default")

    async def rolled() -> bool:
        return await images(play) == ["image:2"] * 3

    await eventually(rolled)


async def test_old_generations_are_forgotten(play: Stage) -> None:
    await play.create(DEPLOYMENTS, workload("d", 1, revisionHistoryLimit=1))
    for version in ("2", "3", "4"):
        await play.settled(1, app="x")
        await play.client.patch(
            DEPLOYMENTS, "d", {"spec": {"template": template(version=version)}}, namespace="default"
        )

        async def rolled(version: str = version) -> bool:
            return await images(play) == [f"image:{version}"]

        await eventually(rolled)

    async def trimmed() -> bool:
        return len((await play.client.list(REPLICA_SETS, namespace="default")).items) == 2

    await eventually(trimmed)


async def test_deleting_a_deployment_deletes_what_it_owns(play: Stage) -> None:
    await play.create(DEPLOYMENTS, workload("d", 2))
    await play.settled(2, app="x")
    await play.client.delete(DEPLOYMENTS, "d", namespace="default", propagation="Foreground")
    await play.gone(DEPLOYMENTS, "d")
    assert await play.names() == []
    assert (await play.client.list(REPLICA_SETS, namespace="default")).items == []


async def test_a_stateful_set_starts_in_order_with_names_of_its_own(play: Stage) -> None:
    play.unready.add("s-1")
    await play.create(STATEFUL_SETS, workload("s", 3, serviceName="svc"))
    await play.until(PODS, "s-1", lambda one: one is not None and one.get("status", {}).get("phase") == "Running")
    assert await play.names() == ["s-0", "s-1"]
    play.unready.clear()
    await play.settled(3, app="x")
    pod = await play.get(PODS, "s-2")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("s-2", "svc")
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "s-2"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "2"
    status = (await play.until(STATEFUL_SETS, "s", lambda one: one["status"].get("readyReplicas") == 3))["status"]
    assert (status["replicas"], status["updatedReplicas"], status["currentReplicas"]) == (3, 3, 3)


async def test_a_stateful_set_shrinks_from_the_end_and_replaces_what_died(play: Stage) -> None:
    await play.create(STATEFUL_SETS, workload("s", 3, serviceName="svc"))
    await play.settled(3, app="x")
    await scale(play, STATEFUL_SETS, "s", 2)
    await play.gone(PODS, "s-2")
    before = (await play.get(PODS, "s-0"))["metadata"]["uid"]
    await play.end("s-0", 1)
    await play.until(PODS, "s-0", lambda one: one is not None and one["metadata"]["uid"] != before)
    await play.settled(2, app="x")


async def test_parallel_starts_all_at_once(play: Stage) -> None:
    play.unready.add("s-")
    await play.create(STATEFUL_SETS, workload("s", 3, serviceName="svc", podManagementPolicy="Parallel"))

    async def all_there() -> bool:
        return await play.names() == ["s-0", "s-1", "s-2"]

    await eventually(all_there)


async def test_a_rolling_update_goes_from_the_highest_down_to_the_partition(play: Stage) -> None:
    await play.create(STATEFUL_SETS, workload("s", 3, serviceName="svc"))
    await play.settled(3, app="x")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    change = {"spec": {"template": template(version="2"), "updateStrategy": strategy}}
    await play.client.patch(STATEFUL_SETS, "s", change, namespace="default")

    async def partly() -> bool:
        return await images(play) == ["image:1", "image:2", "image:2"]

    await eventually(partly)
    await play.settled(3, app="x")
    assert await images(play) == ["image:1", "image:2", "image:2"]
    whole = {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}}
    await play.client.patch(STATEFUL_SETS, "s", whole, namespace="default")

    async def done() -> bool:
        return await images(play) == ["image:2"] * 3

    await eventually(done)
    found = await play.until(STATEFUL_SETS, "s", lambda one: one["status"].get("currentReplicas") == 3)
    assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
