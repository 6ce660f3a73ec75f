"""Plans at the job service: posted by a trainer with its job's token, written as the JobResource of the job's name."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from edl.cli.connect.pod_environment import environment
from edl.jobs.registry import EASYDL_JOB
from edl.operator.resources import JOB_RESOURCES, PODS, resource_of
from edl.operator.settings import ServiceSettings
from tests.operator.stage import PATIENCE, Stage, stage

LOCAL = ServiceSettings(host="127.0.0.1", port=0, url="https://127.0.0.1:{port}")
Data = dict[str, Any]
PLAN: Data = {
    "parameter_server": {"replicas": 1, "resource": {"cpu": 1, "memory": 256}},
    "worker": {"replicas": 2, "resource": {"cpu": "500m"}},
}


def job(name: str = "j", window: str = "0s") -> Data:
    template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    roles = {role: {"template": template} for role in ("trainer", "worker", "parameterServer")}
    metadata = {"name": name, "namespace": "default", "annotations": {"edl.dev/freezing-window": window}}
    return {
        "apiVersion": EASYDL_JOB.api_versions[0],
        "kind": "ElasticJob",
        "metadata": metadata,
        "spec": roles,
    }


class Trainer:
    """What a trainer has in its pod: where the service is, its CA and the job's token."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def call(self, method: str, path: str, body: Data | None = None, **headers: str) -> tuple[int, Data]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, f"{self._url}{path}", json=body, headers=named) as found:
            return found.status, await found.json() if found.status != 304 else {}

    async def until(self, path: str, holds: Callable[[Data], Any]) -> Data:
        async with asyncio.timeout(PATIENCE):
            while True:
                status, found = await self.call("GET", path)
                assert status == 200, found
                if holds(found):
                    return found
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def trainer_of(play: Stage, name: str = "j") -> AsyncIterator[Trainer]:
    pod = await play.until(lambda: play.get(PODS, f"{name}-trainer"), "the trainer is made")
    env = await environment(play.client, pod, "default", secrets=f"{name}-edlej-token")
    token, ca = env["EDL_JOB_TOKEN"], env["EDL_SERVICE_CA"]
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=ca))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}, connector=connector) as session:
        yield Trainer(session, f"{env['EDL_SERVICE_URL']}/v1/jobs/default/{name}")


@contextlib.asynccontextmanager
async def act(window: str = "0s") -> AsyncIterator[tuple[Stage, Trainer]]:
    async with stage() as play, play.operator(service=LOCAL):
        await play.client.create(resource_of(EASYDL_JOB), job(window=window), namespace="default")
        async with trainer_of(play) as trainer:
            yield play, trainer


@pytest.mark.case("acceptance-8")
async def test_an_edit_by_hand_and_an_answer_to_oom_wait_for_no_freezing_window() -> None:
    def workers(count: int) -> Data:
        return PLAN | {"worker": {"replicas": count, "resource": {"cpu": "500m"}}}

    async with act(window="10m") as (play, trainer):
        await trainer.call("POST", "/plan", {"spec": workers(1)})
        await trainer.until("/plan", lambda found: found["granted"].get("worker") == 1)
        await trainer.call("POST", "/plan", {"spec": workers(2)})
        held = await trainer.until("/plan", lambda found: found["observed"] == 2 and "frozen" in found["reason"])
        assert held["granted"]["worker"] == 1, "a trainer's later plan waits"
        by_hand = {"spec": {"worker": {"replicas": 3}}}
        await play.client.patch(JOB_RESOURCES, "j", by_hand, namespace="default")
        await trainer.until("/plan", lambda found: found["granted"].get("worker") == 3)
        await trainer.call("POST", "/plan", {"spec": workers(4), "urgent": True})
        await trainer.until("/plan", lambda found: found["granted"].get("worker") == 4)


async def test_a_plan_becomes_the_job_resource_of_the_jobs_name_and_pods_follow() -> None:
    async with act() as (play, trainer):
        assert (await trainer.call("GET", "/plan"))[1]["name"] == ""
        status, answer = await trainer.call("POST", "/plan", {"spec": PLAN, "reason": "first guess"})
        assert (status, answer) == (200, {"name": "j", "generation": 1, "changed": True})
        made = await play.client.get(JOB_RESOURCES, "j", namespace="default")
        assert made["spec"]["selector"] == {"name": "j"}
        assert made["metadata"]["annotations"]["edl.dev/plan-reason"] == "first guess"
        assert made["metadata"]["ownerReferences"][0]["name"] == "j"
        env = await trainer.until("/plan", lambda found: found["granted"] == {"ps": 1, "worker": 2})
        assert (env["spec"], env["observed"], env["followed"]) == (PLAN, 1, True)
        found = await trainer.until("/pods", lambda found: len(found["pods"]) == 4)
        server = next(pod for pod in found["pods"] if pod["role"] == "ps")
        assert (server["name"], server["address"], server["resources"]) == (
            "j-ps-0",
            "j-ps-0:2222",
            {"cpu": 1.0, "memory": 256.0},
        )
        same, again = await trainer.call("POST", "/plan", {"spec": PLAN, "reason": "first guess"})
        assert (same, again["changed"]) == (200, False)
        larger = PLAN | {"worker": {"replicas": 3}}
        assert (await trainer.call("POST", "/plan", {"spec": larger}))[1]["generation"] == 2
        await trainer.until("/plan", lambda found: found["granted"].get("worker") == 3)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"spec": {"worker": {"replicas": -1}}}, "bad-plan", "spec.worker.replicas: -1 is less than 0"),
        ({"spec": {"workers": {"replicas": 1}}}, "bad-plan", "spec.workers: unknown field; did you mean worker?"),
        ({"spec": {"worker": {"replicas": 10**12}}}, "bad-plan", "spec.worker.replicas"),
        (
            {"spec": PLAN | {"resource_updation": [{"name": "x-ps-0", "resource": {"cpu": 1}}]}},
            "bad-plan",
            "is no pod of j",
        ),
        ({"plan": {}}, "bad-body", "the body cannot be read"),
    ],
)
async def test_a_plan_that_cannot_be_is_refused_with_field_and_fix(body: Data, code: str, words: str) -> None:
    async with act() as (play, trainer):
        status, answer = await trainer.call("POST", "/plan", body)
        assert (status, answer["code"]) == (400, code)
        assert words in answer["error"]
        assert await play.get(JOB_RESOURCES, "j") is None


async def test_plans_made_by_hand_are_never_touched() -> None:
    async with act() as (play, trainer):
        mine = {"apiVersion": JOB_RESOURCES.api_version, "kind": "JobResource"}
        body = mine | {"metadata": {"name": "mine"}, "spec": {"selector": {"name": "j"}, "worker": {"replicas": 1}}}
        await play.client.create(JOB_RESOURCES, body, namespace="default")
        await trainer.until("/plan", lambda found: found["name"] == "mine")
        status, answer = await trainer.call("POST", "/plan", {"spec": PLAN})
        assert (status, answer["code"], answer["by"]) == (409, "ruled", "mine")
        await play.client.delete(JOB_RESOURCES, "mine", namespace="default")
        await trainer.until("/plan", lambda found: found["name"] == "")
        taken = body | {"metadata": {"name": "j"}, "spec": {"selector": {"name": "other"}}}
        await play.client.create(JOB_RESOURCES, taken, namespace="default")
        status, answer = await trainer.call("POST", "/plan", {"spec": PLAN})
        assert (status, answer["code"]) == (409, "name-taken")
        assert (await play.client.get(JOB_RESOURCES, "j", namespace="default"))["spec"] == taken["spec"]


async def test_a_trainer_that_was_replaced_and_a_foreign_token_are_refused() -> None:
    async with act() as (_, trainer):
        for holder in ("j-trainer/1", "j-trainer-1/1"):
            assert (await trainer.call("POST", "/slots/trainer/0", {"holder": holder}))[0] == 200
        status, answer = await trainer.call("POST", "/plan", {"spec": PLAN}, EDL_Slot="trainer/0/1")
        assert (status, answer["code"]) == (409, "stale-epoch")
        assert (await trainer.call("POST", "/plan", {"spec": PLAN}, EDL_Slot="trainer/0/2"))[0] == 200
        assert (await trainer.call("GET", "/plan", Authorization="Bearer other"))[0] == 401


async def test_usage_and_the_users_own_words_reach_the_trainer() -> None:
    async with act() as (_, trainer):
        assert (await trainer.call("GET", "/spec"))[1]["spec"] == job()["spec"]
        await trainer.until("/pods", lambda found: found["pods"] and found["pods"][0]["ready"])
        body = {"pod": "j-trainer", "cpu": 0.5, "memory": 120}
        assert (await trainer.call("POST", "/usage", body))[0] == 200
        assert (await trainer.call("POST", "/usage", body | {"pod": "stranger"}))[0] == 404
        _, found = await trainer.call("GET", "/pods")
        [pod] = found["pods"]
        assert (pod["usage"]["cpu"], pod["usage"]["memory"]) == (0.5, 120)
        assert (await trainer.call("GET", f"/pods?after={found['revision']}"))[0] == 304


async def test_a_plan_without_a_job_waits_and_says_so() -> None:
    async with stage(lenient=True) as play, play.operator():
        mine = {"apiVersion": JOB_RESOURCES.api_version, "kind": "JobResource", "metadata": {"name": "r"}}
        spec = {"selector": {"name": "j"}, "worker": {"replicas": 1}, "parameter_server": {"replicas": 1}}
        await play.client.create(JOB_RESOURCES, mine | {"spec": spec}, namespace="default")

        async def says(words: str) -> bool:
            found = await play.client.get(JOB_RESOURCES, "r", namespace="default")
            return words in (found.get("status") or {}).get("reason", "")

        await play.until(lambda: says("waits for ElasticJob j"), "it waits for its job")
        await play.client.create(resource_of(EASYDL_JOB), job(), namespace="default")
        await play.until(lambda: play.get(PODS, "j-worker-0"), "its worker is made")
        twice = [{"name": "x-ps-0", "resource": {"cpu": 1}}]
        await play.client.patch(JOB_RESOURCES, "r", {"spec": {"resource_updation": twice}}, namespace="default")
        await play.until(lambda: says("is no pod of j"), "an edit that cannot be is refused in status")
        assert await play.pods("worker") == ["j-worker-0"]
        await play.client.delete(resource_of(EASYDL_JOB), "j", namespace="default")
        mended = {"spec": {"resource_updation": None}}
        await play.client.patch(JOB_RESOURCES, "r", mended, namespace="default")
        await play.until(lambda: says("waits for ElasticJob j"), "it waits for its job again")
