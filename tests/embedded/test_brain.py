"""Brain beside the embedded cluster: found by `edl brain`, and by trainers through the job service."""

import argparse
import asyncio
from pathlib import Path

import pytest

from edl.brain.client import BrainClient, BrainRefusalError
from edl.brain.messages import Beginning
from edl.brain.policy.facts import Features
from edl.cli.operator import arguments, settings_of
from edl.embedded.brain import brain
from edl.operator.desk import OperatorDesk


async def test_a_trainers_token_opens_its_own_job(tmp_path: Path) -> None:
    async with brain(tmp_path) as settings:
        assert (tmp_path / "brain.url").read_text() == settings.url
        desk = OperatorDesk(None, _NoCaches(), None, gpu="g", brain=settings)  # type: ignore[arg-type]
        found = desk.brain("ns", "j")
        assert found is not None
        assert desk.capacity() is None
        desk.planned({"cpu": 7500, "memory": 16 << 30, "g": 2})
        assert desk.capacity() == {"cpu": 7.5, "memory": 16384, "gpu": 2}
        client = BrainClient(found["url"], found["token"], timeout=30)
        answer = await asyncio.to_thread(lambda: client.begin("ns/j/u", Beginning(Features(program="p"))))
        assert answer.plan is not None
        with pytest.raises(BrainRefusalError, match="403 foreign"):
            await asyncio.to_thread(lambda: client.begin("ns/other/u", Beginning(Features())))
    assert not (tmp_path / "brain.url").exists()
    assert OperatorDesk(None, _NoCaches(), None, gpu="g").brain("ns", "j") is None  # type: ignore[arg-type]


class _NoCaches:
    plans = None


def test_an_operator_is_told_of_its_brain(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a key for tests only")
    parser = argparse.ArgumentParser()
    arguments(parser)
    words = ["--service-address", "10.0.0.1", "--brain-url", "https://brain:8500"]
    told = settings_of(parser.parse_args([*words, "--brain-key", str(tmp_path / "key")])).brain
    assert told is not None
    assert (told.url, told.key) == ("https://brain:8500", b"a key for tests only")
    with pytest.raises(ValueError, match="--brain-url needs --brain-key"):
        settings_of(parser.parse_args(words))
    with pytest.raises(ValueError, match="cannot be read"):
        settings_of(parser.parse_args([*words, "--brain-key", str(tmp_path / "absent")]))
