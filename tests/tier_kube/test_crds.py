"""A real API server takes our kinds and examples, explains and scales them, and refuses what their schemas forbid."""

from pathlib import Path

import pytest
import yaml

from edl.jobs.crds import crds
from tests.api.samples import PYTORCH_JOB, TRAINING_JOB, Data, varied
from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError

pytestmark = pytest.mark.kube
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def served(api: Kubectl) -> None:
    """The API server knows our kinds."""
    api.apply(*crds())
    names = [f"crd/{each['metadata']['name']}" for each in crds()]
    api("wait", *names, "--for=condition=Established", "--timeout=30s")


@pytest.fixture
def kinds(served: None, api_namespace: Kubectl) -> Kubectl:
    """kubectl in a fresh namespace of an API server that knows our kinds."""
    return api_namespace


def _placed(manifest: Data, kubectl: Kubectl) -> Data:
    return varied(manifest, **{"metadata.namespace": kubectl.namespace})


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_applies(kinds: Kubectl, file: Path) -> None:
    for manifest in yaml.safe_load_all(file.read_text()):
        kinds.apply(_placed(manifest, kinds))
        name, group = manifest["metadata"]["name"], manifest["apiVersion"].split("/")[0]
        assert kinds.get(f"{manifest['kind']}.{group}".lower(), name)["spec"] == manifest["spec"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("tj.spec.trainer.min-instance", "fewest trainers"),
        ("ptej.spec.minReplicas", "fewest workers"),
        ("edlej.spec.worker", "worker"),
        ("jr.spec.resource_updation", "replace"),
    ],
)
def test_kubectl_explains_a_field(kinds: Kubectl, path: str, words: str) -> None:
    assert words in kinds("explain", path)


def test_kubectl_scales_within_the_schema(kinds: Kubectl) -> None:
    kinds.apply(_placed(TRAINING_JOB, kinds), _placed(PYTORCH_JOB, kinds))
    kinds("scale", "tj/paddlejob", "--replicas=4")
    kinds("scale", "ptej/classy-vision-job", "--replicas=5")
    assert kinds.get("tj", "paddlejob")["spec"]["trainer"]["replicas"] == 4
    assert kinds.get("ptej", "classy-vision-job")["spec"]["replicaSpecs"]["Worker"]["replicas"] == 5


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"spec.trainer.min-instance": 7}, "max-instance"),
        ({"spec.trainer.min-instance": 0}, "greater than or equal to 1"),
        ({"spec.trainer.min_instance": 2}, "min_instance"),
    ],
    ids=["min above max", "no trainer", "unknown field"],
)
def test_what_the_schema_forbids_is_refused(kinds: Kubectl, change: Data, complaint: str) -> None:
    with pytest.raises(KubectlError, match=complaint):
        kinds.apply(_placed(varied(TRAINING_JOB, **change), kinds))


def test_the_bare_name_of_an_elasticjob_is_the_pytorch_one(kinds: Kubectl) -> None:
    kinds.apply(_placed(PYTORCH_JOB, kinds))
    assert "elastic.pytorch.org/v1alpha1" in kinds("describe", "elasticjob", "classy-vision-job")
