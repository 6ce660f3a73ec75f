"""The manifest of design 004 with real torchrun workers that meet in a real etcd.

torchrun's backends for etcd speak the second version of its API alone, which etcd 3.5 is the last to have.
"""

from pathlib import Path

import pytest
import yaml

from tests.stories.backend import embedded
from tests.stories.story import Story
from tests.stories.test_pytorch_design import EXAMPLE, serve_etcd
from tests.tier_frameworks.torchrun.training import ROOT, Training
from tests.tier_kube.cluster.build import BuildError, binary, build

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]
NAME = "classy-vision-job"
STEPS = 200


@pytest.fixture(scope="session")
def etcd() -> Path:
    try:
        build("etcd-v2")
    except BuildError as error:
        pytest.skip(str(error))
    return binary("etcd-v2")


@pytest.mark.may_skip("etcd is built with Go, which may be missing")
async def test_workers_meet_in_etcd_and_train_to_the_end(tmp_path: Path, etcd: Path) -> None:
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        training = Training(await Story.begin(backend), tmp_path)
        elastic = training.elastic
        manifest = yaml.safe_load(EXAMPLE.read_text())
        manifest["spec"]["rdzvEndpoint"] = await serve_etcd(elastic, etcd, tmp_path / "etcd", "--enable-v2=true")
        manifest["spec"]["maxReplicas"] = 3
        container = manifest["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        container |= {"command": ["sh", "-c", training.script(STEPS)], "args": []}
        await elastic.create(manifest)
        await training.until_world(3)
        status = await elastic.until_phase("Succeeded", NAME)
        assert status["replicaStatuses"]["Worker"]["succeeded"] == 3
        assert training.saved == STEPS
        assert {line["world"] for line in training.steps()} == {3}
