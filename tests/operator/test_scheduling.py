"""The scheduling loop and the looks that carry out what it grants, where one is slower than the other."""

import asyncio

from edl.kube.transport import Request, Response
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
