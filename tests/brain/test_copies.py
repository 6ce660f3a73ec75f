"""Copies of Brain's history: made while it serves, and put back where there was another."""

from pathlib import Path

import pytest

from edl.brain.copies import NoHistoryError, copy_of, put_back
from edl.brain.sqlite import SqliteDatabase
from edl.protocol.brain import Beginning
from edl.protocol.job_facts import Features
from tests.brain.serving import brain


async def jobs(path: Path) -> list[str]:
    async with brain(SqliteDatabase(str(path)), clock=lambda: 1e6) as call:
        return sorted(one["job"] for one in (await call("GET", "/v1/jobs"))[1])


async def test_a_copy_made_while_brain_serves_is_whole_and_comes_back(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "brain.db", tmp_path / "b" / "brain.db"
    first.parent.mkdir()
    async with brain(SqliteDatabase(str(first)), clock=lambda: 1e6) as call:
        for number in range(3):
            assert (await call("POST", f"/v1/jobs/ns/j{number}/u", Beginning(Features())))[0] == 200
        copy = copy_of(first)
        assert (await call("POST", "/v1/jobs/ns/later/u", Beginning(Features())))[0] == 200
    put_back(second, copy)
    assert await jobs(second) == ["ns/j0/u", "ns/j1/u", "ns/j2/u"]
    put_back(first, copy)
    assert await jobs(first) == ["ns/j0/u", "ns/j1/u", "ns/j2/u"]
    assert [one.name for one in first.parent.iterdir() if one.is_dir()] == []


def test_what_is_no_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoHistoryError, match="there is no history at"):
        copy_of(tmp_path / "brain.db")
    with pytest.raises(NoHistoryError, match="no copy of Brain's history"):
        put_back(tmp_path / "brain.db", b"something else")
