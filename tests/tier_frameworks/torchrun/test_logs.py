"""Logs of real torchrun workers outlast their pods: the Brain has them when a shrink has taken rank 0."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edl.brain.keys import key_at
from edl.brain.log_store import LogStore
from edl.brain.server import Brain
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.operator.settings import BrainSettings
from tests.stories.backend import embedded
from tests.stories.story import Story
from tests.tier_frameworks.torchrun.training import ROOT, Training

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]


@asynccontextmanager
async def brain(folder: Path) -> AsyncIterator[tuple[BrainSettings, LogStore]]:
    key, database = key_at(folder / "brain.key", create=True), SqliteDatabase(str(folder / "brain.db"))
    logs = LogStore(database)
    await database.open()
    runner = await Brain(Store(database), key, logs=logs).serve("127.0.0.1", 0)
    try:
        yield BrainSettings(f"http://127.0.0.1:{runner.addresses[0][1]}", key, logs=True), logs
    finally:
        await runner.cleanup()
        await database.close()


async def test_what_workers_wrote_is_at_the_brain_when_their_pods_are_gone(tmp_path: Path) -> None:
    async with brain(tmp_path) as (settings, logs), embedded(tmp_path, working_dir=ROOT, brain=settings) as backend:
        training = Training(await Story.begin(backend), tmp_path)
        elastic = training.elastic
        await training.submit(2, 2, steps=200, pause=0.02)
        await elastic.until_phase("Succeeded")
        job = elastic.namespace, "j", training.uid
        kept = {log.pod: log for log in await logs.pods(*job)}
        (leader,) = [name for name, log in kept.items() if log.leads]
        lines = [line.partition(" ")[2] for line in (await logs.lines(job, leader)).splitlines()]
        assert [line for line in lines if line.startswith("step 200 of 200 with 2 workers: loss ")], lines[-5:]
        assert sum(line.startswith("step 5 of 200 ") for line in lines) == 1, "each line once"


async def test_the_last_words_of_a_worker_that_fails_are_there(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("print('it began')\nraise SystemExit('there is no data')\n")
    async with brain(tmp_path) as (settings, logs), embedded(tmp_path, working_dir=ROOT, brain=settings) as backend:
        training = Training(await Story.begin(backend), tmp_path)
        await training.submit(1, 1, command=f"torchrun {broken}", runPolicy={"backoffLimit": 0})
        elastic = training.elastic
        await elastic.until_phase("Failed")

        async def told() -> bool:
            lines = await logs.lines((elastic.namespace, "j", training.uid), "j-worker-0")
            return "it began" in lines and "there is no data" in lines

        async def remembered() -> bool:
            ended = (await elastic.status()).get("endedPods", ())
            return any(one["pod"] == "j-worker-0" and one["exitCode"] == 1 for one in ended)

        await elastic.until(told, "its lines at the Brain")
        await elastic.until(remembered, "its end in the status")
