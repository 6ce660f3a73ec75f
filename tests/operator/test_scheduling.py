"""The scheduling loop and the looks that carry out what it grants, where one is slower than the other."""

import asyncio
from typing import ClassVar

import msgspec

from edl.api.core import Pod
from edl.jobs.children import LABEL_UID
from edl.kube.transport import Request, Response
from edl.operator.scheduling import pod_matters
from tests.operator.stage import Wire, stage


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


async def test_a_grant_keeps_its_reason_until_the_job_has_written_it() -> None:
    """One worker, which is busy with the first job while several plans are made for the second."""
    async with stage() as scene:
        wire = Slow(scene.transport())
        async with scene.operator(wire, workers=1, interval=0.02):
            await scene.submit("first", master=None, pserver=None)
            await asyncio.wait_for(wire.held.wait(), 30)
            await scene.submit("second", master=None, pserver=None)
            await asyncio.sleep(0.5)
            wire.go.set()
            status = await scene.until_phase("running", "second")
    (change,) = status["scale_status"]["history"]
    assert "starts with its minimum" in change["reason"]


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
