"""Brain's metrics: what they count, who may see them, and that they are there when the database is not."""

from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from edl.brain.database import Row, Statement, UnavailableError
from edl.brain.metrics import METRICS as SPECS
from edl.brain.sqlite import SqliteDatabase
from edl.brain.tokens import METRICS, mint
from edl.protocol.brain import Beginning
from edl.protocol.job_facts import Features
from tests.brain.serving import KEY, Caller, brain

Samples = dict[tuple[str, ...], float]


async def page(call: Caller, subject: str = METRICS) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {mint(KEY, subject)}"}
    async with aiohttp.ClientSession() as session, session.get(f"{call.url}/metrics", headers=headers) as answer:
        return answer.status, await answer.text()


def samples(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


async def test_calls_are_counted_by_path_and_code(tmp_path: Path) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=lambda: 1e6) as call:
        await call("POST", "/v1/jobs/ns/first/u1", Beginning(Features()))
        await call("GET", "/v1/jobs/ns/nobody")
        await call("GET", "/no/such/path")
        found = samples((await page(call))[1])
    assert found["edl_brain_calls_total", "/v1/jobs/{namespace}/{name}/{uid}", "200"] == 1
    assert found["edl_brain_calls_total", "/v1/jobs/{namespace}/{name}", "404"] == 1
    assert found["edl_brain_calls_total", "404", "other"] == 1
    assert found["edl_brain_call_seconds_count", "/v1/jobs/{namespace}/{name}/{uid}"] == 1
    assert (found["edl_brain_database_up",], found["edl_brain_past_jobs",]) == (1, 0)


async def test_their_token_opens_nothing_else_and_others_do_not_open_them(tmp_path: Path) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=lambda: 1e6) as call:
        collector = call.as_(mint(KEY, METRICS))
        for method, path in (("GET", "/v1/jobs"), ("POST", "/v1/plan"), ("POST", "/v1/jobs/metrics/j/u")):
            status, _ = await collector(method, path, Beginning(Features()))
            assert status == 403, path
        assert (await page(call, "*"))[0] == 200
        assert [(await page(call, subject))[0] for subject in ("ns/j/u", "metrics/*", "ns/*")] == [403, 403, 403]
        status, _ = await call.as_("")("GET", "/metrics")
        assert status == 401


class Gone(SqliteDatabase):
    gone = False

    async def fetch(self, *queries: Statement) -> list[Sequence[Row]]:
        if self.gone:
            raise UnavailableError("it is gone")
        return await super().fetch(*queries)


async def test_they_tell_that_the_database_does_not_answer_and_that_it_does_again(tmp_path: Path) -> None:
    database = Gone(str(tmp_path / "brain.db"))
    async with brain(database, clock=lambda: 1e6) as call:
        seen = []
        for gone in (False, True, False):
            database.gone = gone
            status, text = await page(call)
            seen.append((status, samples(text)["edl_brain_database_up",]))
    assert seen == [(200, 1), (200, 0), (200, 1)]


async def test_every_metric_is_declared(tmp_path: Path) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=lambda: 1e6) as call:
        shown = {family.name for family in text_string_to_metric_families((await page(call))[1])}
    assert {name for name in shown if not name.endswith("_created")} == {spec.name for spec in SPECS}


@pytest.mark.parametrize("subject", ["/", "metrics", "@metric"])
def test_no_other_word_is_a_subject(subject: str) -> None:
    with pytest.raises(ValueError, match="it must be namespace/name/uid"):
        mint(KEY, subject)
