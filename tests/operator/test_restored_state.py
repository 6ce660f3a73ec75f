"""A job of a backup whose state has not been applied yet: its status says so, and goes on when it is there."""

from typing import Any

from edl.operator.credentials.identity import load_identity
from edl.operator.job_service.configmap_store import CONFIGMAPS
from edl.operator.job_service.restored_state import backed_up
from edl.operator.settings import NAMESPACE, SECRET
from tests.operator.stage import Data, Stage, manifest, stage
from tests.operator.test_job_service_host import LOCAL, SMALL, Pod

FORMER = "11111111-2222-3333-4444-555555555555"
NAME = "j-tj-state"


async def submit_restored(scene: Stage) -> None:
    job = manifest("j", **SMALL)
    job["metadata"]["annotations"] = {"edl.dev/restored-from": FORMER}
    await scene.make(job)


async def saved_state(scene: Stage) -> Data:
    """As `edl backup` wrote it on the cluster that is gone."""
    identity = await load_identity(scene.client, NAMESPACE, SECRET, ["localhost"])
    metadata = {"name": NAME, "namespace": "default"}
    meta = '{"revision":3,"writer":"w","slots":{},"versions":{"queue":2}}'
    found: Data = {"metadata": metadata, "data": {"state.json": meta}, "binaryData": {"kv.queue": "NDI="}}
    return backed_up(found, job="j", uid=FORMER, key=identity.state_keys(FORMER)[0])


async def reason(scene: Stage) -> str:
    return str((await scene.status()).get("scale_status", {}).get("reason", ""))


async def test_a_job_says_that_it_waits_for_its_state_and_goes_on_with_it() -> None:
    async with stage() as scene, scene.operator(service=LOCAL) as wire:
        await submit_restored(scene)
        said = await scene.until_condition("WaitsForState")
        assert f"ConfigMap default/{NAME} is missing, which the job was restored with" in said["message"]
        assert "apply the whole backup" in said["message"]
        assert await reason(scene) == (await scene.status())["reason"] == said["message"]
        assert said["message"] in await scene.until_event("NotRestored")
        await scene.until_phase("running")
        await wire.quiet(3.0)  # it is looked for every two seconds: nothing is written for that

        await scene.client.create(CONFIGMAPS, await saved_state(scene), namespace="default")
        await scene.until_condition("WaitsForState", "False")
        await scene.until_condition("Ready")
        assert not (await scene.status()).get("reason")
        pod = await Pod.of(scene, "j-trainer-0")
        assert await pod.call("GET", "/kv/queue") == (200, b"42")


async def test_a_state_of_another_key_is_told_as_such() -> None:
    async with stage() as scene, scene.operator(service=LOCAL):
        forged = await saved_state(scene)
        forged["metadata"]["annotations"] = {"edl.dev/seal": "0" * 64}
        await scene.client.create(CONFIGMAPS, forged, namespace="default")
        await submit_restored(scene)
        said = await scene.until_condition("WaitsForState")
        assert "is not the state that this installation's key sealed" in said["message"]


async def test_without_the_annotation_it_begins_anew() -> None:
    """Also a pod whose calls were refused until then."""
    async with stage() as scene, scene.operator(service=LOCAL):
        await submit_restored(scene)
        await scene.until_condition("WaitsForState")
        await scene.until_phase("running")
        pod = await Pod.of(scene, "j-trainer-0")
        code, refusal = await pod.call("PUT", "/kv/queue", data=b"1")
        assert code == 503
        assert "is missing, which the job was restored with" in str(refusal)
        await scene.edit({"metadata": {"annotations": {"edl.dev/restored-from": None}}})
        await scene.until_condition("WaitsForState", "False")

        async def answered() -> bool:
            status: Any = (await pod.call("PUT", "/kv/queue", data=b"1"))[0]
            return bool(status == 200)

        await scene.until(answered, "its pods are served")


async def test_a_new_leader_says_the_same_and_writes_nothing() -> None:
    async with stage() as scene:
        async with scene.operator(service=LOCAL) as wire:
            await submit_restored(scene)
            await scene.until_condition("WaitsForState")
            await scene.until_phase("running")
            await wire.quiet(1.0)
        before = await scene.status()
        async with scene.operator(service=LOCAL) as wire:
            await wire.quiet(3.0)
            assert await scene.status() == before
