"""The scheduling loop and the reconciles that carry out its grants, where one is slower than the other."""

import asyncio
import logging
import threading
from typing import Any, ClassVar

import msgspec
import pytest

from edl.api.kubernetes.core import Pod
from edl.api.labels import LABEL_UID
from edl.kube.rest.transport import Request, Response
from edl.operator import scheduling_loop
from edl.operator.plan_triggers import pod_matters
from edl.scheduler.plan import Plan, plan
from edl.scheduler.reasons.codes import Code
from tests.operator.stage import Stage, Wire, stage
from tests.operator.test_job_service_host import LOCAL
from tests.operator.test_job_service_host import Pod as CallingPod


class Slow(Wire):
    """Holds back the first word about the job `first` until it is let go."""

    def __init__(self, inner: object) -> None:
        super().__init__(inner)  # type: ignore[arg-type]  # a Transport, whatever kind
        self.go, self.held = asyncio.Event(), asyncio.Event()

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and request.path.endswith("/first/status"):
            self.held.set()
            await self.go.wait()
        return await super().request(request)


async def test_a_grant_keeps_its_reason_until_the_job_has_written_it(caplog: pytest.LogCaptureFixture) -> None:
    """One worker, which is busy with the first job while several plans are made for the second."""
    caplog.set_level(logging.DEBUG, logger="edl.operator.scheduling_loop")

    async def planned_again() -> bool:
        return sum(record.message.startswith("cycle: 2 jobs") for record in caplog.records) >= 4

    async with stage() as scene:
        wire = Slow(scene.transport())
        async with scene.operator(wire, workers=1, interval=0.02):
            await scene.submit("first", master=None, pserver=None)
            await asyncio.wait_for(wire.held.wait(), 30)
            await scene.submit("second", master=None, pserver=None)
            await scene.until(planned_again, "several plans for both jobs")
            wire.go.set()
            status = await scene.until_phase("running", "second")
    (change,) = status["scale_status"]["history"]
    assert "starts with its minimum" in change["reason"]


class SlowPlanner:
    """Plans as the scheduler does, but the first plan with a suspended job in it takes until it is let go."""

    def __init__(self) -> None:
        self.held, self.go, self.plans = threading.Event(), threading.Event(), 0

    def __call__(self, *snapshot: Any, **more: Any) -> Plan:
        made = plan(*snapshot, **more)
        if not self.held.is_set() and any(one.code == Code.SUSPENDED for one in made.jobs):
            self.held.set()
            assert self.go.wait(60.0)
        self.plans += 1
        return made


async def test_a_plan_made_while_a_job_was_suspended_is_not_carried_out_after_its_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner = SlowPlanner()
    monkeypatch.setattr(scheduling_loop, "plan", planner)
    again = ["j-trainer-0-1", "j-trainer-1-1"]
    async with stage() as scene, scene.operator(interval=0.02):
        try:
            await scene.submit()
            await scene.until_phase("running")
            await scene.edit({"spec": {"suspend": True}})
            await scene.until(lambda: _true(planner.held.is_set()), "it is planned for as suspended")
            await scene.until(lambda: _live(scene, []), "its trainers are gone")
            await scene.edit({"spec": {"suspend": None}})
            await scene.until(lambda: _live(scene, again), "its trainers are back")
            before = planner.plans
        finally:
            planner.go.set()
        await scene.until(lambda: _true(planner.plans > before + 3), "further plans are made")
        await scene.until_phase("running")
        assert await scene.pods() == again


async def _true(holds: bool) -> bool:
    return holds


async def _live(scene: Stage, pods: list[str]) -> bool:
    return await scene.pods() == pods


class TestWhatIsNewsToAPlan:
    """Which changes of a pod are worth another plan. Those that the last plan brought about itself are not."""

    WISH: ClassVar = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {
                        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["chosen"]}],
                    },
                }
            ]
        }
    }

    def pod(self, node: str = "", *, ours: bool = True, phase: str = "Pending", **more: object) -> Pod:
        labels = {LABEL_UID: "u"} if ours else {}
        body = {
            "metadata": {"name": "p", "labels": labels},
            "spec": {"nodeName": node, "affinity": self.WISH},
            "status": {"phase": phase, **more},
        }
        return msgspec.convert(body, Pod)

    def refused(self) -> Pod:
        return self.pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}])

    def test_a_pod_of_ours_goes_where_the_plan_wanted_it(self) -> None:
        assert not pod_matters(None, self.pod())
        assert not pod_matters(self.pod(), self.pod("chosen"))
        assert not pod_matters(self.pod("chosen"), self.pod("chosen", phase="Running"))

    def test_it_goes_elsewhere_which_the_next_regular_plan_sees(self) -> None:
        assert not pod_matters(self.pod(), self.pod("other"))

    def test_it_goes_nowhere_or_ends(self) -> None:
        assert pod_matters(self.pod(), self.refused())
        assert pod_matters(self.refused(), self.pod("chosen"))
        assert pod_matters(self.pod("chosen"), self.pod("chosen", phase="Failed"))
        assert pod_matters(self.pod("chosen"), None)

    def test_whatever_others_do_is_news(self) -> None:
        assert pod_matters(None, self.pod(ours=False))
        assert pod_matters(self.pod(ours=False), self.pod("chosen", ours=False))
        assert pod_matters(None, self.pod("chosen"))


async def test_a_job_that_waits_says_when_it_will_start() -> None:
    """The one that holds its place tells its steps: 60 are left at one in ten seconds, as far as it goes."""
    whole: dict[str, Any] = {"min-instance": 7, "max-instance": 7}
    async with stage() as scene, scene.operator(service=LOCAL):
        await scene.submit("first", trainer=whole, pserver=None)
        await scene.until_phase("running", "first")
        pod = await CallingPod.of(scene, "first-trainer-0", "first")
        pace = {"throughput": 0.1, "workers": 7, "span": 10.0, "batch": 1, "done": 10, "total": 70}
        assert (await pod.call("POST", "/progress", json=pace))[0] == 200
        await scene.submit("second", trainer=whole, pserver=None)
        await scene.until(lambda: _waits(scene, "; starts in about 10 min (6-17)"), "it says when", "second")


async def _waits(scene: Stage, words: str) -> bool:
    """A busy scheduler may not have looked at it yet, which is said as well."""
    return str((await scene.until_condition("Queued", name="second"))["message"]).endswith(words)


async def test_a_job_that_waits_for_one_that_tells_nothing_says_so() -> None:
    whole: dict[str, Any] = {"min-instance": 7, "max-instance": 7}
    async with stage() as scene, scene.operator():
        await scene.submit("first", trainer=whole, pserver=None)
        await scene.until_phase("running", "first")
        await scene.submit("second", trainer=whole, pserver=None)
        words = "; nobody can say when it starts: default/first does not tell how much is left to do"
        await scene.until(lambda: _waits(scene, words), "it says that nobody knows", "second")
