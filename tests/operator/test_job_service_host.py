"""The job service inside the operator: tokens, job records, who answers, and what outlasts a leader."""

import base64
import json
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from edl.cli.connect.pod_environment import environment
from edl.operator.credentials.identity import load_identity
from edl.operator.job_service.configmap_store import CONFIGMAPS
from edl.operator.job_service_host import SLICES
from edl.operator.resources import PODS, SECRETS
from edl.operator.settings import NAMESPACE, SECRET, SERVICE, ServiceSettings
from edl.scheduler.settings import Settings
from tests.operator.stage import Data, Stage, stage

LOCAL = ServiceSettings(host="127.0.0.1", port=0, url="https://127.0.0.1:{port}")
SMALL: Data = {"pserver": None, "trainer": {"min-instance": 1, "max-instance": 1}}


class Pod:
    """What a pod can do with what it was told."""

    def __init__(self, name: str, env: dict[str, str]) -> None:
        self.name, self.env = name, env
        self.token, self.ca = env["EDL_JOB_TOKEN"], env["EDL_SERVICE_CA"]

    @classmethod
    async def of(cls, scene: Stage, name: str, job: str = "j") -> "Pod":
        found = await scene.get(PODS, name)
        assert found is not None
        return cls(name, await environment(scene.client, found, "default", secrets=f"{job}-tj-"))

    async def call(self, method: str, path: str, *, token: str = "", **more: Any) -> tuple[int, Any]:
        url = f"{self.env['EDL_SERVICE_URL']}/v1/jobs/{self.env['EDL_JOB_NAMESPACE']}/{self.env['EDL_JOB_NAME']}{path}"
        headers = {"Authorization": f"Bearer {token or self.token}"}
        trusted = ssl.create_default_context(cadata=self.ca)
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, headers=headers, ssl=trusted, **more) as answer,
        ):
            body = await answer.read()
            return answer.status, (await answer.json() if "json" in answer.content_type else body)


async def test_a_pod_reaches_the_service_with_its_jobs_token_and_no_other() -> None:
    async with stage() as scene, scene.operator(service=LOCAL):
        await scene.submit("a", **SMALL)
        await scene.submit("b", **SMALL)
        await scene.until_phase("running", "a")
        await scene.until_phase("running", "b")
        mine, other = await Pod.of(scene, "a-trainer-0", "a"), await Pod.of(scene, "b-trainer-0", "b")
        status, view = await mine.call("GET", "/job")
        assert (status, view["phase"], view["size"], view["target"]) == (200, "running", 1, 1)
        assert view["roles"]["trainer"]["addresses"] == ["a-trainer-0.a-trainer"]
        assert view["roles"]["master"]["replicas"] == 1
        status, error = await mine.call("GET", "/job", token=other.token)
        assert (status, error["code"]) == (401, "unauthorized")


async def test_what_was_acknowledged_outlasts_the_leader() -> None:
    async with stage() as scene:
        async with scene.operator(service=LOCAL):
            await scene.submit(**SMALL)
            await scene.until_phase("running")
            pod = await Pod.of(scene, "j-trainer-0")
            assert (await pod.call("PUT", "/kv/queue", data=b"42"))[0] == 200
        async with scene.operator(service=LOCAL) as wire:
            assert await pod.call("GET", "/kv/queue") == (200, b"42"), "where running pods know it"
            await scene.edit({"spec": {"trainer": {"entrypoint": "false"}}})
            await scene.end("j-trainer-0", 1)
            await scene.until(lambda: scene.get(PODS, "j-trainer-0-1"), "a pod of the new leader")
            pod = await Pod.of(scene, "j-trainer-0-1")
            assert await pod.call("GET", "/kv/queue") == (200, b"42")
            assert not [write for write in wire.writes if write.startswith("POST") and "tj-token" in write]


async def test_the_measured_pause_of_a_job_gets_into_its_status() -> None:
    async with stage() as scene, scene.operator(service=LOCAL):
        await scene.submit(**SMALL)
        await scene.until_phase("running")
        pod = await Pod.of(scene, "j-trainer-0")
        assert (await pod.call("POST", "/progress", json={"pause": 4.2}))[0] == 200
        await scene.edit({"metadata": {"annotations": {"any": "change"}}})

        async def reported() -> bool:
            return bool((await scene.status())["scale_status"].get("rescale_seconds") == 4.2)

        await scene.until(reported, "the pause is in status")


async def test_the_leader_points_the_service_at_itself() -> None:
    settings = ServiceSettings(host="127.0.0.1", port=0, address="10.1.2.3")
    async with stage() as scene, scene.operator(service=settings):
        found = await scene.client.get(SLICES, SERVICE, namespace=NAMESPACE)
        assert found["endpoints"][0]["addresses"] == ["10.1.2.3"]
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == SERVICE
        await scene.submit(**SMALL)
        await scene.until_phase("running")
        pod = await Pod.of(scene, "j-trainer-0")
        port = found["ports"][0]["port"]
        assert pod.env["EDL_SERVICE_URL"] == f"https://{SERVICE}.{NAMESPACE}.svc:{port}"


async def test_every_operator_of_an_installation_has_the_same_identity() -> None:
    async with stage() as scene, scene.operator():
        names = ["localhost"]
        first = await load_identity(scene.client, NAMESPACE, SECRET, names)
        again = await load_identity(scene.client, NAMESPACE, SECRET, names)
        assert first == again
        assert first.token("uid") == again.token("uid") != first.token("other")
        assert first.serves(names, datetime.now(UTC))
        assert not first.serves(names, datetime.now(UTC) + timedelta(days=3600)), "it is renewed in time"
        wider = await load_identity(scene.client, NAMESPACE, SECRET, [*names, "10.0.0.1"])
        assert (wider.ca, wider.key) == (first.ca, first.key), "pods that trust it go on trusting"
        assert wider.certificate != first.certificate


async def test_an_identity_that_cannot_be_read_is_made_anew() -> None:
    async with stage() as scene, scene.operator():
        await load_identity(scene.client, NAMESPACE, SECRET, ["localhost"])
        spoilt = {"data": {"tls.crt": base64.b64encode(b"nonsense").decode()}}
        await scene.client.patch(SECRETS, SECRET, spoilt, namespace=NAMESPACE)
        made = await load_identity(scene.client, NAMESPACE, SECRET, ["localhost"])
        assert made.serves(["localhost"], datetime.now(UTC))


async def test_a_new_leader_has_what_a_job_has_measured_without_a_call_of_its_pods() -> None:
    """It is in the job's state. The job is faster with one trainer than with four, and the next plan knows that."""
    elastic: Data = {"pserver": None, "freezing_window": "0s", "trainer": {"min-instance": 1, "max-instance": 4}}
    async with stage() as scene:
        async with scene.operator(service=LOCAL):
            await scene.submit(**elastic)
            await scene.until(lambda: _has_target(scene, 4), "it has its maximum")
            await scene.until_phase("running")
            pod = await Pod.of(scene, "j-trainer-0")
            for workers, throughput in ((1, 100.0), (4, 50.0)):
                pace = {"throughput": throughput, "workers": workers, "span": 5.0, "batch": 32}
                assert (await pod.call("POST", "/progress", json=pace))[0] == 200
            await scene.until(lambda: _measured_sizes(scene, [1, 4]), "what it measured is in its state")
        async with scene.operator(service=LOCAL, scheduler=Settings(policy="goodput")):
            await scene.until(lambda: _has_target(scene, 1), "it is given the size that it measured to be faster")
            assert (await scene.status())["scale_status"]["history"][-1]["reason"] == "-3: it is faster with 1"


async def _has_target(scene: Stage, target: int) -> bool:
    return bool((await scene.status()).get("scale_status", {}).get("target") == target)


async def _measured_sizes(scene: Stage, sizes: list[int]) -> bool:
    state = await scene.get(CONFIGMAPS, "j-tj-state")
    measured = json.loads(state["data"].get("throughput.json", "{}")) if state is not None else {}
    return [point[0] for point in measured.get("points", ())] == sizes
