"""Faults around the operator: bad jobs, crashes, rivals, a server that goes away."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from edl.jobs.core.kind import JobKind
from edl.jobs.registry import PYTORCH_JOB, TRAINING_JOB
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.transport import DirectTransport, Request, Response
from edl.operator.crds import UnsupportedError, check_version
from edl.operator.resources import JOBS, PODS, REPLICA_SETS, SERVICES, TRAINING_JOBS, resource_of
from tests.operator.stage import PATIENCE, Data, Stage, Wire, manifest, play, stage

SMALL: Data = {"pserver": None, "trainer": {"min-instance": 1, "max-instance": 1}}


class Guarded(Wire):
    """As in a namespace whose Pod Security admits no pod of a job."""

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/pods") and b"refused-" in (request.body or b""):
            body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "violates PodSecurity"}
            return Response(403, msgspec.json.encode(body | {"code": 403}))
        return await super().request(request)


@pytest.mark.case("attack-4")
@pytest.mark.case("acceptance-24")
@pytest.mark.parametrize("kind", [PYTORCH_JOB, TRAINING_JOB], ids=["pytorch", "training"])
async def test_a_job_whose_pods_are_refused_gives_back_the_room_it_was_granted(kind: JobKind) -> None:
    async with stage() as scene, scene.operator(Guarded(scene.transport())):
        window = {"edl.dev/freezing-window": "0s"}
        await scene.make(_trainers("rich", 1, 8, {"annotations": window}))
        await scene.until(
            lambda: _target(scene, "rich", 7), "one has the whole cluster but what its master needs", "rich"
        )
        if kind is PYTORCH_JOB:
            scene.jobs = resource_of(PYTORCH_JOB)
            worker = {"template": {"spec": {"containers": [{"name": "worker", "image": "x", "resources": CORE}]}}}
            spec = {"minReplicas": 4, "maxReplicas": 4, "replicaSpecs": {"Worker": worker}}
            body = {"apiVersion": scene.jobs.api_version, "kind": scene.jobs.kind, "metadata": {"name": "refused-j"}}
            await scene.make(body | {"spec": spec})
        else:
            await scene.make(_trainers("refused-j", 4, 4))
        jobs, scene.jobs = scene.jobs, TRAINING_JOBS
        await scene.until(lambda: _target(scene, "rich", 3), "it makes room", "rich")
        await scene.until(lambda: _target(scene, "rich", 7), "it has got it back", "rich")
        scene.jobs = jobs
        status = await scene.status("refused-j")
        scale = status.get("scale") or status["scale_status"]
        assert (scale["target"], scale["code"]) == (0, "PodRefused")
        assert "violates PodSecurity" in scale["reason"]


CORE = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}


def _trainers(name: str, least: int, most: int, metadata: Data | None = None) -> Data:
    made = manifest(name, master={"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}})
    made["spec"]["trainer"] |= {"min-instance": least, "max-instance": most, "resources": CORE}
    del made["spec"]["pserver"]
    made["metadata"] |= metadata or {}
    return made


async def _target(scene: Stage, name: str, size: int) -> bool:
    return bool((await scene.status(name)).get("scale_status", {}).get("target") == size)


async def test_a_bad_job_is_refused_and_the_others_never_notice() -> None:
    async with stage(lenient=True) as scene, scene.operator():
        await scene.submit("good")
        bad = manifest("bad", trainer={"template": {"spec": {"containers": [{"name": "trainer", "image": ""}, 7]}}})
        await scene.client.create(TRAINING_JOBS, bad, namespace="default")
        condition = await scene.until_condition("Valid", "False", "bad")
        assert condition["reason"] == "Invalid"
        assert "spec.trainer.template" in condition["message"]
        await scene.until_event("Invalid", "bad")
        await scene.until_phase("running", "good")
        await scene.edit({"spec": {"trainer": {"template": None}}}, "bad")
        await scene.until_phase("running", "bad")


async def scenario(scene: Stage) -> None:
    """A short life with every kind of write in it."""
    await scene.submit(**SMALL)
    await scene.until_phase("running")
    await scene.until(lambda: scene.get(PODS, "j-trainer-0"), "the trainer is there")
    await scene.end("j-trainer-0", 1)
    await scene.until(lambda: _runs(scene, "j-trainer-0-1"), "its successor runs")
    await scene.end("j-trainer-0-1", 0)
    await scene.until_phase("succeeded")
    await scene.until(lambda: _at_rest(scene), "everything is released and told")


async def _runs(scene: Stage, name: str) -> bool:
    pod = await scene.get(PODS, name)
    return pod is not None and pod.get("status", {}).get("phase") == "Running"


async def _at_rest(scene: Stage) -> bool:
    job, status = await scene.get(JOBS, "j-trainer"), await scene.status()
    conditions = (job or {}).get("status", {}).get("conditions", ())
    reported = [role.get("active", 0) for role in status["replica_statuses"]]
    released = not await scene.pods("master") and sum(reported) == 0
    return released and any(one["type"] == "Complete" for one in conditions)


async def final(scene: Stage) -> Data:
    """All that lasts, without what tells of moments."""
    names: Data = {}
    for resource in (PODS, SERVICES, REPLICA_SETS, JOBS):
        items = (await scene.client.list(resource, namespace="default")).items
        names[resource.kind] = sorted(item["metadata"]["name"] for item in items)
    status = await scene.status()
    for moment in ("pod_seconds", "code", "reason"):  # the last word of a scheduler that looked every second
        status["scale_status"].pop(moment, None)
    # A plan that took more than a second was waited for, which a condition that no longer holds tells of for ever.
    status["conditions"] = [one for one in status["conditions"] if (one["type"], one["status"]) != ("Queued", "False")]
    return {"names": names, "status": _timeless(status)}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = ((key, item) for key, item in value.items() if "time" not in key.lower() and key != "selector")
        return {key: _timeless(item) for key, item in kept}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


async def ending(crash_after: int | None) -> tuple[Data, list[str]]:
    async with stage() as scene:
        writes = await play(scene, scenario, crash_after)
        return await final(scene), writes


async def test_a_crash_after_any_write_is_repaired_by_the_next_operator() -> None:
    untouched, writes = await ending(None)
    assert len(writes) > 12
    for number in range(1, len(writes) + 1):
        ended, _ = await ending(number)
        assert ended == untouched, f"crashed after write {number}, {writes[number - 1]}"


async def test_of_two_operators_one_works_and_the_other_takes_over_when_it_stops() -> None:
    async with stage() as scene, contextlib.AsyncExitStack() as first_leads:
        first = await first_leads.enter_async_context(scene.operator(identity="first"))
        async with scene.standby(identity="second") as (second, leads):
            await scene.submit("a", **SMALL)
            await scene.until_phase("running", "a")
            assert len(first.writes) > 5
            assert second.writes == []
            assert not leads.is_set()
            await first_leads.aclose()
            await asyncio.wait_for(leads.wait(), PATIENCE)
            before = len(first.writes)
            await scene.submit("b", **SMALL)
            await scene.until_phase("running", "b")
            assert len(first.writes) == before
            assert await scene.pods(name="a") == ["a-trainer-0"], "a change of leaders moves nobody"
            assert not [write for write in second.writes if "/pods" in write and "POST" not in write]


async def test_a_leader_that_is_gone_is_followed_when_its_lease_runs_out() -> None:
    async with stage() as scene:
        async with scene.operator(lease=4.0) as wire:
            await scene.submit("a", **SMALL)
            await scene.until_phase("running", "a")
            wire.crashed.set()
        async with scene.operator():
            await scene.submit("b", **SMALL)
            await scene.until_phase("running", "b")


async def test_a_paused_leader_that_comes_back_late_harms_nothing() -> None:
    """Its writes were decided on versions that are gone, its pods have names that are used."""
    async with stage() as scene:
        async with scene.operator() as wire:
            await scene.submit(**SMALL)
            await scene.until_phase("running")
            late = [write for write in wire.writes if "status" in write]
        job, pod = await scene.job(), await scene.get(PODS, "j-trainer-0")
        assert late
        assert pod is not None
        await scene.edit({"metadata": {"annotations": {"a": "b"}}})
        stale = [{"op": "replace", "path": "/metadata/resourceVersion", "value": job["metadata"]["resourceVersion"]}]
        with pytest.raises(ApiError, match="Conflict"):
            await scene.client.patch(TRAINING_JOBS, "j", stale, kind="json", namespace="default", subresource="status")
        with pytest.raises(ApiError, match="AlreadyExists"):
            await scene.client.create(PODS, {**pod, "metadata": {"name": "j-trainer-0"}}, namespace="default")
        with pytest.raises(ApiError, match="Conflict"):
            await scene.client.delete(PODS, "j-trainer-0", namespace="default", uid="another")


async def test_a_status_that_a_hand_has_spoilt_is_mended() -> None:
    async with stage() as scene, scene.operator():
        await scene.submit(**SMALL)
        await scene.until_phase("running")
        spoilt = {"status": {"phase": "succeeded?", "slots": None, "scale_status": None, "replica_statuses": None}}
        await scene.client.patch(TRAINING_JOBS, "j", spoilt, namespace="default", subresource="status")
        await scene.until_phase("running")
        assert await scene.pods() == ["j-trainer-0"]


@pytest.mark.parametrize(
    ("version", "good"), [("v1.31.9", False), ("v1.32.0", True), ("v1.36.3+edl", True), ("odd", True)]
)
async def test_an_old_kubernetes_is_refused_with_the_reason(version: str, good: bool) -> None:
    async def answer(request: Request) -> Response:
        return Response(200, msgspec.json.encode({"gitVersion": version}))

    client = Client(DirectTransport(answer))
    if good:
        assert await check_version(client) == version
    else:
        with pytest.raises(UnsupportedError, match=r"needs 1.32 or newer \(Jobs with spec.managedBy\)"):
            await check_version(client)
