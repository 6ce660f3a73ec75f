"""Real torchrun workers that meet where the user says, in a c10d store or in etcd: one is killed, joins, leaves."""

from pathlib import Path

import pytest
from torch.distributed import TCPStore

from tests.stories.backend import embedded
from tests.stories.story import Story
from tests.stories.test_pytorch_design import serve_etcd
from tests.tier_frameworks.torchrun.test_etcd import etcd
from tests.tier_frameworks.torchrun.training import ROOT, Training

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]
PINNED = {"edl.dev/pin": "true"}
__all__ = ["etcd"]


@pytest.mark.case("acceptance-3")
async def test_with_a_c10d_store(tmp_path: Path) -> None:
    """The store is nobody's worker, as the docs ask for."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        training = Training(await Story.begin(backend), tmp_path)
        await _kill_join_leave(training, f"127.0.0.1:{store.port}")


@pytest.mark.case("acceptance-3")
@pytest.mark.may_skip("etcd is built with Go, which may be missing")
async def test_with_etcd(tmp_path: Path, etcd: Path) -> None:
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        training = Training(await Story.begin(backend), tmp_path)
        endpoint = await serve_etcd(training.elastic, etcd, tmp_path / "etcd", "--enable-v2=true")
        await _kill_join_leave(training, endpoint)


async def _kill_join_leave(training: Training, endpoint: str) -> None:
    elastic = training.elastic
    await training.submit(2, 3, notes=PINNED, rdzvEndpoint=endpoint)
    await training.until_world(2)
    await elastic.until(training.has_saved, "a checkpoint")
    await elastic.story.kill("j-worker-1")
    await training.until_world(2)
    await elastic.scale(3)
    await training.until_world(3)
    await elastic.scale(2)
    await training.until_world(2)
    assert await training.failed() == 1, "the one that was killed"
