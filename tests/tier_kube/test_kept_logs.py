"""`edl logs` and `job.logs()` of a pod that is gone: through a real API server's proxy to the page, and so to Brain."""

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl import client
from edl.install.options import WEB
from edl.operator.settings import BRAIN, NAMESPACE
from tests.tier_kube.cluster.kubectl import Kubectl, eventually
from tests.tier_kube.test_install_brain import brain, write_log
from tests.tier_kube.test_install_web import PATIENCE, _with_web, account, may_pass, page

__all__ = ["_with_web", "brain", "page"]  # fixtures
pytestmark = [pytest.mark.kube, pytest.mark.timeout(240), pytest.mark.xdist_group("cluster")]


@pytest.fixture
def gone(brain: Kubectl, page: Kubectl, namespace: Kubectl, image: str, tmp_path: Path) -> Iterator[str]:
    """A job that has ended and whose pod is gone. Brain has its log."""
    brain("rollout", "status", f"deployment/{BRAIN}", "--timeout=90s", timeout=100)
    name = write_log(namespace, image, tmp_path)
    namespace("delete", "pod", f"{name}-worker-0")
    page("create", "rolebinding", "readers", f"--role={WEB}", f"--group=system:serviceaccounts:{namespace.namespace}")
    yield name
    page("delete", "rolebinding", "readers")


def edl_logs(job: str, namespace: str, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edl.cli.main", "logs", job, "-n", namespace, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.may_skip("a cluster of the user's may have no default StorageClass")
def test_who_may_read_logs_reads_those_of_a_pod_that_is_gone_and_nobody_else(
    gone: str, namespace: Kubectl, tmp_path: Path
) -> None:
    where = namespace.namespace
    rita, blind = account(namespace, "rita", tmp_path), account(namespace, "blind", tmp_path, role=_sees(namespace))
    for one in (rita, blind):
        eventually(functools.partial(may_pass, one), within=PATIENCE, what="the way to the page is open")
    read = edl_logs(gone, where, rita)
    assert (read.returncode, read.stdout, read.stderr) == (0, "a line of a pod\n", "")
    assert list(client.get(gone, namespace=where, kubeconfig=str(rita)).logs()) == ["a line of a pod"]
    refused = edl_logs(gone, where, blind)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "the page of the cluster refuses: you may not read logs in this namespace (get pods/log)" in refused.stderr
    assert f"kubectl -n {NAMESPACE} exec deploy/edl-brain -- edl brain logs {where}/{gone}" in refused.stderr


def _sees(namespace: Kubectl) -> str:
    """A role that sees jobs and pods, and no logs."""
    kinds = "trainingjobs.paddlepaddle.org,elasticjobs.elastic.pytorch.org,elasticjobs.elastic.iml.github.io,pods"
    namespace("create", "role", "sees", "--verb=get,list", f"--resource={kinds}")
    return "sees"
