"""Metrics that alerts are built on, provoked: leadership, the job service, failed cycles, refusals, certificates."""

import time

import pytest

from edl.kube.controllers.lease import LEASES
from edl.operator.resources import QUOTAS
from edl.operator.scheduling_loop import SchedulingLoop
from edl.operator.settings import ServiceSettings
from tests.operator.metrics.test_metrics import Shown, shown
from tests.operator.stage import Stage, Wire, stage
from tests.ports import free_port

YEAR = 365 * 24 * 3600.0


def service() -> ServiceSettings:
    return ServiceSettings(host="127.0.0.1", port=free_port(), url="https://127.0.0.1:{port}")


async def until(scene: Stage, port: int, what: str, **wanted: float) -> Shown:
    """One scrape in which these metrics, which have no labels, have these values."""

    async def seen() -> Shown | None:
        found = await shown(port)
        return found if all(found.samples.get((name,)) == value for name, value in wanted.items()) else None

    found: Shown = await scene.until(seen, what)
    return found


async def test_one_operator_leads_and_serves_and_the_other_waits() -> None:
    first, second = free_port(), free_port()
    async with stage() as scene, scene.operator(probes=("127.0.0.1", first), service=service()):
        found = await until(scene, first, "it leads", edl_leader=1, edl_job_service_published=1)
        ends = found.samples["edl_certificate_ends_seconds", "certificate=server"]
        assert 0.9 * YEAR < ends - time.time() <= YEAR
        assert found.samples["edl_certificate_ends_seconds", "certificate=authority"] > ends
        async with scene.standby(Wire(scene.transport()), probes=("127.0.0.1", second), service=service()):
            await until(scene, second, "it waits", edl_leader=0, edl_job_service_published=0)
            lease = (await scene.client.list(LEASES)).items[0]["spec"]
            assert lease["holderIdentity"]


async def test_cycles_that_fail_are_counted_and_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    port, plan, broken = free_port(), SchedulingLoop._plan, True

    def failing(self: SchedulingLoop, *words: object) -> object:
        if broken:
            raise ZeroDivisionError("division by zero")
        return plan(self, *words)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(SchedulingLoop, "_plan", failing)
    async with stage() as scene, scene.operator(probes=("127.0.0.1", port)):

        async def counted() -> float:
            return (await shown(port)).samples.get(("edl_cycle_errors_total",), 0.0)

        await scene.until(counted, "a cycle failed and was counted")
        broken = False
        await scene.submit(master=None, pserver=None)
        await scene.until_phase("running")


async def test_a_job_that_the_api_server_refuses_shows_until_it_is_taken() -> None:
    """The plan knows of no quota on Services; the API server does."""
    port = free_port()
    spec = {"hard": {"services": "2"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": spec}
    async with stage() as scene, scene.operator(probes=("127.0.0.1", port)):

        async def told(value: float) -> bool:
            return (await shown(port)).of("edl_job_refused") == value

        await scene.client.create(QUOTAS, quota, namespace="default")
        await scene.submit()
        await scene.until(lambda: told(1), "the gauge says that it is refused")
        await scene.delete(QUOTAS, "few")
        await scene.until(lambda: told(0), "and that it is not any more")
