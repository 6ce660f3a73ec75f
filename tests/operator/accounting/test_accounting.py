"""A whole operator with a Brain beside it: jobs are accounted for over a leader's death, and outlive their deletion."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edl.api.labels import LABEL_JOB, LABEL_KIND, LABEL_ROLE, LABEL_UID
from edl.brain.sqlite import SqliteDatabase
from edl.jobs.core.kind import JobKind
from edl.jobs.registry import EASYDL_JOB, PYTORCH_JOB, TRAINING_JOB
from edl.ledger.cluster_account import KeptCluster
from edl.ledger.job_use import KeptLedger
from edl.ledger.uses import CapacityUse, Use
from edl.operator.accounting import accounting, history_feed, history_posts, job_ledger
from edl.operator.accounting.cluster_ledger import CONFIG_MAPS
from edl.operator.resources import JOB_RESOURCES, PODS, resource_of
from edl.operator.settings import LEDGER, NAMESPACE, BrainSettings, ServiceSettings
from edl.protocol.history import ClusterPoint, JobPast
from tests.brain.serving import KEY, Caller, brain
from tests.operator.stage import Stage, manifest, stage
from tests.operator.test_easydl import job as easydl_job
from tests.operator.test_easydl import plan as easydl_plan
from tests.operator.test_easydl import role as easydl_role
from tests.operator.test_pytorch import elastic

LOCAL = ServiceSettings(host="127.0.0.1", port=0, url="https://127.0.0.1:{port}")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes become parts of a second."""
    for module, name, seconds in (
        (history_posts, "EVERY", 0.1),
        (history_posts, "LAST_RETRY", 0.2),
        (history_feed, "UNCHANGED", 0.2),
        (accounting, "STEP", 0.05),
        (accounting, "KEEP_CLUSTER", 0.2),
        (accounting, "POINT", 0.2),
        (job_ledger, "KEEP", 0.2),
    ):
        monkeypatch.setattr(module, name, seconds)


async def past(call: Caller, name: str = "j") -> JobPast | None:
    status, found = await call("GET", f"/v1/history/jobs/default/{name}")
    return msgspec.convert(found, JobPast) if status == 200 else None


async def until_past(scene: Stage, call: Caller, holds: Any, what: str) -> JobPast:
    async def matching() -> JobPast | None:
        found = await past(call)
        return found if found is not None and holds(found) else None

    known: JobPast = await scene.until(matching, what)
    return known


async def kept(scene: Stage) -> KeptLedger | None:
    found = await scene.get(CONFIG_MAPS, "j-tj-state")
    text = ((found or {}).get("data") or {}).get("ledger.json")
    return msgspec.json.decode(text, type=KeptLedger) if text else None


async def test_a_job_is_accounted_for_over_a_leaders_death_and_outlives_its_deletion(tmp_path: Path) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=time.time) as call, stage() as scene:
        both: dict[str, Any] = {"service": LOCAL, "brain": BrainSettings(call.url, KEY)}
        async with scene.operator(**both) as wire:
            await scene.submit()
            await until_past(scene, call, lambda found: found.job.phase == "running", "it is told that it runs")

            async def trains() -> bool:
                found = await kept(scene)
                return found is not None and found.open.use is Use.TRAINING

            async def seen() -> bool:
                _, points = await call("GET", "/v1/history/cluster")
                return any(CapacityUse.JOBS in point.get("uses", {}) for point in points)

            await scene.until(trains, "its account is in its state object")
            await scene.until(seen, "the cluster's account tells of it")
            wire.crashed.set()
        await scene.release_lease()
        async with scene.operator(**both):
            for pod in await scene.pods():
                await scene.end(pod, 0)
            await scene.until_phase("succeeded")
            await scene.delete(scene.jobs, "j")
            await until_past(scene, call, lambda found: found.job.outcome == "succeeded", "its end is told")
        told, last = await call("GET", "/v1/history/cluster"), await past(call)
    assert last is not None
    ended, account = last, last.job.account
    assert sum(spent.seconds for spent in account.spent.values()) == pytest.approx(account.seconds, rel=0.001)
    assert account.of(Use.TRAINING).amounts.cores > 0
    assert account.estimated > 0, "of the time without a leader"
    assert '"kind":"TrainingJob"' in ended.manifest
    assert ended.sizes[0].before == 0
    assert ended.sizes[0].reason
    assert {event.type for event in ended.events} == {"Normal"}
    points = [msgspec.convert(point, ClusterPoint) for point in told[1]]
    cores = [sum(one.cores for one in point.uses.values()) for point in points]
    assert cores == pytest.approx([point.capacity.cores for point in points])
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=time.time) as call:
        again = await past(call)
        assert again == ended, "after a restart of everything"


async def test_how_far_all_accounts_are_known_is_kept_in_the_operators_namespace() -> None:
    async with stage() as scene, scene.operator(service=LOCAL):
        await scene.submit()
        await scene.until_phase("running")

        async def known() -> KeptCluster | None:
            found = await scene.client.list(CONFIG_MAPS, namespace=NAMESPACE)
            data = [one["data"]["cluster.json"] for one in found.items if one["metadata"]["name"] == LEDGER]
            kept = msgspec.json.decode(data[0], type=KeptCluster) if data else None
            return kept if kept is not None and CapacityUse.JOBS in kept.now.uses else None

        found: KeptCluster = await scene.until(known, "the cluster's account is kept")
        assert found.account.seconds > 0
        assert found.now.capacity.cores == 8


async def test_a_brain_that_is_away_holds_nothing_up_and_is_told_when_it_is_back(tmp_path: Path) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=time.time) as call, stage() as scene:
        away = tmp_path / "away"
        (tmp_path / "brain.db").rename(away)
        async with scene.operator(service=LOCAL, brain=BrainSettings(call.url, KEY)):
            await scene.submit()
            await scene.until_phase("running")
            await scene.delete(scene.jobs, "j")

            async def gone() -> bool:
                return await scene.get(scene.jobs, "j") is None and not await scene.pods()

            await scene.until(gone, "the job is gone")
            away.rename(tmp_path / "brain.db")
            ended = await until_past(scene, call, lambda found: found.job.outcome != "", "it is told after all")
    assert ended.job.outcome == "deleted"
    assert ended.manifest


@pytest.mark.parametrize("kind", [TRAINING_JOB, PYTORCH_JOB, EASYDL_JOB], ids=lambda kind: kind.tag)
async def test_jobs_of_every_kind_are_accounted_for_and_kept(
    tmp_path: Path, kind: JobKind, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = {TRAINING_JOB.tag: manifest(), PYTORCH_JOB.tag: elastic(), EASYDL_JOB.tag: easydl_job()}
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=time.time) as call, stage() as scene:
        scene.jobs = resource_of(kind)
        async with scene.operator(service=LOCAL, brain=BrainSettings(call.url, KEY)):
            await scene.make(bodies[kind.tag])
            if kind is EASYDL_JOB:
                wanted = easydl_plan(worker=easydl_role(2), parameter_server=easydl_role(1))
                await scene.client.create(JOB_RESOURCES, wanted, namespace="default")

            def runs(found: JobPast) -> bool:
                return found.job.size == 2 and found.job.account.of(Use.TRAINING).amounts.instances > 0

            told = await until_past(scene, call, runs, "it is told that it trains")
            await scene.delete(scene.jobs, "j")
            ended = await until_past(scene, call, lambda found: found.job.outcome == "deleted", "and that it is gone")
    assert told.job.kind == kind.crd_name
    assert f'"kind":"{kind.name}"' in told.manifest
    assert told.sizes
    account = ended.job.account
    assert sum(spent.seconds for spent in account.spent.values()) == pytest.approx(account.seconds, rel=0.001)
    assert "cannot be accounted for" not in caplog.text


async def test_a_pod_that_somebody_else_made_with_a_jobs_labels_is_not_booked_to_it(tmp_path: Path) -> None:
    def trained(found: JobPast) -> bool:
        return found.job.account.of(Use.TRAINING).seconds > 0.5

    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=time.time) as call, stage() as scene:
        settings = BrainSettings(call.url, KEY)
        async with scene.operator(service=LOCAL, brain=settings):
            made = await scene.submit()
            labels = {LABEL_JOB: "j", LABEL_UID: made["metadata"]["uid"], LABEL_ROLE: "trainer"}
            labels[LABEL_KIND] = TRAINING_JOB.crd_name
            container = {"name": "trainer", "image": "x", "resources": {"requests": {"cpu": "2"}}}
            thief = {"metadata": {"name": "thief", "labels": labels}, "spec": {"containers": [container]}}
            await scene.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **thief}, namespace="default")
            await until_past(scene, call, trained, "it has trained for a while")
            pod = await scene.get(PODS, "thief")
            assert pod is not None
            assert pod["status"]["phase"] == "Running", "beside it"
            await scene.delete(scene.jobs, "j")
            ended = await until_past(scene, call, lambda found: found.job.outcome == "deleted", "it is gone")
    spent = ended.job.account.of(Use.TRAINING)
    assert spent.amounts.instances == pytest.approx(2 * spent.seconds, rel=0.01), "it has two trainers"


async def test_without_a_brain_and_without_a_job_service_jobs_run_as_ever() -> None:
    async with stage() as scene, scene.operator() as wire:
        await scene.submit()
        await scene.until_phase("running")
        await wire.quiet(0.5)
        assert not any("configmaps" in write for write in wire.writes)
