"""The examples on a real cluster, as the documentation says to apply them: unchanged, in the image that ships."""

import re

import pytest

from tests.tier_kube.cluster.kubectl import Kubectl, eventually
from tests.tier_kube.image import REPOSITORY
from tests.tier_kube.installed import Installation

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
APPLIED = re.compile(r"^kubectl apply -f (examples/\S+)", re.MULTILINE)
# EDL's image has numpy and no framework: these are all that it can run.
EASYDL = "elasticjobs.elastic.iml.github.io"
OWN_RUNTIME = {
    "examples/fit_a_line/job.yaml": "trainingjobs",
    "examples/easydl/job.yaml": EASYDL,
    "examples/easydl/ctr.yaml": EASYDL,
}


def applied() -> set[str]:
    """What readers are told to apply."""
    return {path for page in PAGES for path in APPLIED.findall(page.read_text())}


def test_readers_are_told_to_apply_only_what_runs() -> None:
    assert applied()
    assert applied() <= OWN_RUNTIME.keys()


@pytest.mark.case("acceptance-25")
@pytest.mark.parametrize("path", sorted(OWN_RUNTIME))
def test_an_example_trains_to_the_end(path: str, installation: Installation, namespace: Kubectl) -> None:
    installation.present("--no-brain")
    namespace("apply", "-f", str(REPOSITORY / path))

    def phase() -> str:
        [job] = namespace.get(OWN_RUNTIME[path])["items"]
        found: str = (job.get("status") or {}).get("phase", "")
        assert found.lower() != "failed", job["status"]
        return found.lower()

    eventually(lambda: phase() == "succeeded", within=240, what=f"{path} succeeded")
