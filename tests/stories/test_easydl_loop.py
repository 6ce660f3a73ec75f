"""The closed loop, with everything as `edl up` has it: a job that says nothing of sizes is led to the best one, and the
next job like it starts there."""

import asyncio
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from edl.brain.client import BrainClient
from edl.brain.keys import key_at
from edl.brain.tokens import mint
from edl.cli.main import main
from edl.kube.rest.client import Client
from edl.operator.resources import JOB_RESOURCES
from edl.protocol.brain import JobDetail
from edl.protocol.job_facts import PlanRecord
from tests.stories.easydl import JOBS
from tests.stories.easydl_planned import Ledger, known, planned_job
from tests.stories.machine import Machine, machine, reach
from tests.stories.test_kills import until

pytestmark = pytest.mark.timeout(400)
UP = ["up", "--foreground", "--nodes", "2", "--cpu", "8", "--memory", "32Gi"]
RECORDS = 50_000  # in shards of 10, of which six workers or more train 20 a second
PATIENCE = 240.0  # until it rests: on an idle machine a minute or two
Data = dict[str, Any]


def workers(record: PlanRecord) -> int:
    return record.plan.roles["worker"].replicas


def throughputs(reported: JobDetail, size: int) -> list[float]:
    return [sample.throughput for sample in reported.samples if sample.workers == size]


def rests_at_best(reported: JobDetail) -> bool:
    """So many samples were taken since the last plan without another one, and it is six workers or nearly."""
    since = [sample for sample in reported.samples if sample.time > reported.plans[-1].time]
    if len(reported.plans) < 3 or len(since) < 4:
        return False
    size = workers(reported.plans[-1])
    return 5 <= size <= 7 or six_were_slower(reported, size)


def six_were_slower(reported: JobDetail, size: int) -> bool:
    """On a machine that is too busy, six do not get through 20 shards a second; then more are right, if it shows."""
    six = [rate for number in (5, 6, 7) for rate in throughputs(reported, number)]
    more = throughputs(reported, size) if 7 < size <= 12 else []
    return bool(six and more) and median(six) < 0.97 * median(more)


class Loop:
    def __init__(self, client: Client, brain: BrainClient) -> None:
        self.client, self.brain = client, brain

    @classmethod
    async def at(cls, client: Client, home: Path) -> "Loop":
        """As soon as Brain, which starts beside the nodes, has told where it is."""

        async def reported() -> str:
            address = home / "brain.url"
            return address.read_text() if address.exists() else ""

        url = await until(reported, "Brain serves")
        return cls(client, BrainClient(url, mint(key_at(home / "brain.key"), "*"), timeout=30))

    async def submit(self, name: str, folder: Path) -> None:
        job = planned_job(folder, name, RECORDS=str(RECORDS), EDL_TASK_LEASE="2")  # workers report twice a second
        await until(lambda: self.client.create(JOBS, job, namespace="default"), "the kind is served")

    async def until_told(self, job: str, what: str, holds: Any) -> JobDetail:
        """Brain knows this of the job, and of its first plan at least."""

        async def look() -> JobDetail | None:
            reported = await asyncio.to_thread(known, self.brain, f"default/{job}")
            return reported if reported is not None and reported.plans and holds(reported) else None

        found: JobDetail = await until(look, f"{job}: {what}", PATIENCE)
        return found

    async def until_over(self, job: str) -> None:
        async def over() -> bool:
            status: Data = (await self.client.get(JOBS, job, namespace="default")).get("status") or {}
            assert status.get("phase") != "Failed", status
            return status.get("phase") == "Succeeded"

        await until(over, f"{job} succeeds")


async def said(made: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command of ours prints to a user of this cluster."""
    monkeypatch.setenv("EDL_HOME", str(made.home))
    capsys.readouterr()
    assert await asyncio.to_thread(main, words) == 0
    return capsys.readouterr().out


async def test_a_job_that_saturates_at_six_is_led_there_and_the_next_one_starts_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine(tmp_path, [("up", UP)], nodes=2) as made:
        client = await reach(made, 2)
        try:
            loop = await Loop.at(client, made.home)
            best = await first_job(loop, made_folder(tmp_path / "first"))
            for words in (["describe", "first"], ["brain", "show", "default/first"]):
                assert "throughput by plan" in await said(made, monkeypatch, capsys, *words)
            assert "succeeded" in await said(made, monkeypatch, capsys, "brain", "jobs")
            await second_job(loop, made_folder(tmp_path / "second"), best)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{made.logs()}") from None
        finally:
            await client.close()


def made_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def first_job(loop: Loop, folder: Path) -> float:
    """From a cold start; returns the best throughput that it ever had."""
    await loop.submit("first", folder)
    cold = await until(lambda: loop.client.get(JOB_RESOURCES, "first", namespace="default"), "the trainer's first plan")
    assert cold["spec"]["worker"]["replicas"] == 2
    assert "no similar job" in cold["metadata"]["annotations"]["edl.dev/plan-reason"]
    assert cold["metadata"]["ownerReferences"][0]["name"] == "first"
    reported = await loop.until_told("first", "it rests with about six workers", rests_at_best)
    assert len(reported.plans) <= 10
    assert {record.source for record in reported.plans} == {"brain"}
    verdicts = [record.verdict for record in reported.plans]
    assert (verdicts[0], "paid" in verdicts) == ("safety", True)
    best = max(median(throughputs(reported, size)) for size in {sample.workers for sample in reported.samples})
    (folder / "release").touch()
    await loop.until_over("first")
    trained = {line["shard"] for line in Ledger(folder).lines("trained") if not line["void"]}
    assert trained == set(range(RECORDS // 10))
    return best


async def second_job(loop: Loop, folder: Path, best: float) -> None:
    """From what the first one left alone: nothing was measured of this one when it began."""
    await loop.submit("second", folder)

    def measured(reported: JobDetail) -> bool:
        return len(throughputs(reported, workers(reported.plans[0]))) >= 2

    reported = await loop.until_told("second", "it is measured at the size that it began with", measured)
    began = reported.plans[0]
    assert (began.plan.rule, began.source) == ("start-similar", "brain")
    there = throughputs(reported, workers(began))
    assert max(there) >= 0.8 * best, f"{there} with {workers(began)} workers; the best is {best}"
