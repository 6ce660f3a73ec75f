"""Brain beside the embedded cluster: found by `edl brain`, and by trainers through the job service."""

import argparse
import asyncio
from pathlib import Path
from typing import ClassVar

import pytest

from edl.api.kubernetes.cluster import ResourceQuota, ResourceQuotaSpec
from edl.brain.client import BrainClient, BrainRefusalError
from edl.cli.commands.services.operator import arguments, settings_of
from edl.cli.local.brain import brain
from edl.jobs.registry import JOB_RESOURCE
from edl.operator.job_service.record import JobRecord
from edl.operator.trainer_requests import TrainerRequestHandler
from edl.protocol.brain import Beginning
from edl.protocol.job_facts import Features
from edl.protocol.plans import ClusterCapacity


async def test_a_trainers_token_opens_its_own_job(tmp_path: Path) -> None:
    async with brain(tmp_path) as settings:
        assert (tmp_path / "brain.url").read_text() == settings.url
        requests = TrainerRequestHandler(None, _NoCaches(), None, gpu="g", brain=settings)  # type: ignore[arg-type]
        found = requests.brain("ns", "j", _RECORD)
        assert found is not None
        assert requests.capacity("ns") is None
        requests.planned({"cpu": 7500, "memory": 16 << 30, "g": 2})
        assert requests.capacity("ns") == ClusterCapacity(cpu=7.5, memory=16384, gpu=2)
        assert requests.capacity("small") == ClusterCapacity(cpu=1.5, memory=1024, gpu=1), "its quota"
        client = BrainClient(found.url, found.token, timeout=30)
        answer = await asyncio.to_thread(lambda: client.begin("ns/j/u", Beginning(Features(program="p"))))
        assert answer.plan is not None
        for foreign in ("ns/other/u", "ns/j/u2", "small/j/u"):
            with pytest.raises(BrainRefusalError, match="403 foreign"):
                await asyncio.to_thread(lambda foreign=foreign: client.begin(foreign, Beginning(Features())))  # type: ignore[misc]
    assert not (tmp_path / "brain.url").exists()
    assert TrainerRequestHandler(None, _NoCaches(), None, gpu="g").brain("ns", "j", _RECORD) is None  # type: ignore[arg-type]


_RECORD = JobRecord(uid="u", token="t", tag="ej")


class _NoCaches:
    companions: ClassVar = {JOB_RESOURCE.crd_name: None}

    @staticmethod
    def quotas_of(namespace: str) -> list[ResourceQuota]:
        if namespace != "small":
            return []
        hard = [{"requests.cpu": "2", "limits.memory": "1Gi", "pods": "9"}, {"cpu": "1500m", "requests.g": "1"}]
        narrow = ResourceQuotaSpec(hard={"cpu": "1m"}, scopes=("BestEffort",))
        return [ResourceQuota(spec=spec) for spec in (narrow, *(ResourceQuotaSpec(hard=each) for each in hard))]


def test_an_operator_is_told_of_its_brain(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a key for tests only")
    parser = argparse.ArgumentParser()
    arguments(parser)
    words = ["--service-address", "10.0.0.1", "--brain-url", "https://brain:8500"]
    reported = settings_of(parser.parse_args([*words, "--brain-key", str(tmp_path / "key")])).brain
    assert reported is not None
    assert (reported.url, reported.key) == ("https://brain:8500", b"a key for tests only")
    with pytest.raises(ValueError, match="--brain-url needs --brain-key"):
        settings_of(parser.parse_args(words))
    with pytest.raises(ValueError, match="cannot be read"):
        settings_of(parser.parse_args([*words, "--brain-key", str(tmp_path / "absent")]))
