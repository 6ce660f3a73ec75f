"""The commands of the operator's guide, run on a cluster in an order in which an administrator might need them.

Every block that needs a cluster is either run here or excused with its reason, so that a new one is noticed.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from edl.certificates import Authority
from tests.docs.test_commands import COMMAND_BLOCKS, NOT_HERE, Block
from tests.tier_kube.cluster.build import binary, build
from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, eventually
from tests.tier_kube.image import REPOSITORY
from tests.tier_kube.installed import Installation, leader

pytestmark = [pytest.mark.kube, pytest.mark.timeout(600), pytest.mark.xdist_group("cluster")]
GUIDE = "docs/operate/"
Place = tuple[str, int]
"""A page of the guide, and which of its blocks that need a cluster, from 1."""
STORY: list[Place] = [
    ("install.md", 1),
    ("install.md", 2),
    ("upgrade.md", 3),
    ("upgrade.md", 1),
    ("air-gap.md", 2),
    ("accounting.md", 1),
    ("operations.md", 1),
    ("backup.md", 1),
    ("backup.md", 2),
    ("rotation.md", 1),
    ("install.md", 5),
    ("install.md", 3),
    ("install.md", 4),
    ("upgrade.md", 2),
    ("values.md", 1),
    ("upgrade.md", 4),
]
EXCUSED: dict[Place, str] = {
    ("install.md", 6): "needs cert-manager",
    ("brain.md", 1): "needs a PostgreSQL",
    ("brain.md", 2): "needs a job whose logs Brain keeps, which test_install_brain has",
    ("web.md", 1): "opens a connection that stays, and needs an account",
    ("air-gap.md", 1): "needs a registry, which alone knows a digest",
}
VALUES = {"lease": 6, "brainStorage": ""}
# `edl` and `docker` as they are here: our cluster knows one image, has no registry, no class for a claim of Brain. What
# the doctor finds is not the question: a job that waits for room is no fault of a command.
EDL = """#!/bin/sh
case "$1" in
  install) shift; exec {python} -m edl.cli.main install --image {image} --brain-storage '' "$@" --image {image} ;;
  doctor) {python} -m edl.cli.main "$@"; code=$?; [ $code -le 1 ] ;;
  *) exec {python} -m edl.cli.main "$@" ;;
esac
"""


def of_the_guide() -> dict[Place, Block]:
    found: dict[Place, Block] = {}
    for block in COMMAND_BLOCKS:
        if block.page.startswith(GUIDE) and block.needs in NOT_HERE:
            page = block.page.removeprefix(GUIDE)
            found[page, 1 + sum(one[0] == page for one in found)] = block
    return found


@pytest.fixture
def desk(cluster: Kubectl, image: str, installation: Installation, tmp_path: Path) -> Iterator[Path]:
    """A directory that looks like a clone, with the tools of an administrator on the path."""
    installation.absent()
    build("helm")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, content in (
        ("edl", EDL.format(python=sys.executable, image=image)),
        ("docker", "#!/bin/sh\nexit 0\n"),
    ):
        (tools / name).write_text(content)
        (tools / name).chmod(0o755)
    (tools / "kubectl").symlink_to(shutil.which(cluster.program) or cluster.program)
    (tools / "helm").symlink_to(binary("helm"))
    for name in ("examples", "charts"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({**VALUES, "image": image}))
    authority = Authority.create("corporate CA").pair
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    (tmp_path / "ca.key").write_bytes(authority.key)
    try:
        yield tmp_path
    finally:
        cluster("delete", "secret", "-l", "owner=helm,name=edl", "--ignore-not-found")
        with contextlib.suppress(KubectlError):  # the story ends with the removal of the kinds
            cluster("delete", "trainingjobs", "--all", "--ignore-not-found", "--wait=false")
        cluster.within("edl-system")("delete", "secret", "edl-authority", "--ignore-not-found")
        installation.absent()
        cluster("delete", "namespace", "edl-system", "team-a", "team-b", "--ignore-not-found")


def test_every_block_is_run_or_excused() -> None:
    assert {*STORY, *EXCUSED} == set(of_the_guide())
    assert not set(STORY) & set(EXCUSED)


@pytest.mark.case("acceptance-25")
def test_the_commands_of_the_guide_run(cluster: Kubectl, desk: Path) -> None:
    blocks = of_the_guide()
    for place in STORY:
        if place == ("backup.md", 2):
            lose_jobs(cluster)
        run(blocks[place], cluster, desk)
        if place != STORY[-1]:
            for name in ("edl-operator", "edl-brain"):
                inside = cluster.within("edl-system")
                inside("rollout", "status", f"deployment/{name}", "--timeout=120s", timeout=130)
            eventually(lambda: leader(cluster), within=60, what="an operator leads")


def lose_jobs(cluster: Kubectl) -> None:
    """As if the cluster were a new one."""
    cluster("delete", "trainingjobs", "--all", "--ignore-not-found")

    def states() -> list[str]:
        found = cluster.get("configmaps", labels="edl.dev/job-uid")["items"]
        return [one["metadata"]["name"] for one in found]

    eventually(lambda: not states(), within=60, what="what jobs kept goes with them")


def run(block: Block, cluster: Kubectl, desk: Path) -> None:
    home = {name: str(desk / "home") for name in ("HOME", "EDL_HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME")}
    environment = {
        **os.environ,
        **home,
        "HELM_DATA_HOME": str(desk / "home"),
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{desk / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY / "src"),
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=desk,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{block.name}\n{done.stdout}\n{done.stderr}"
