"""Controllers, pod scheduler and process nodes are ordinary API clients: their tests pass on a real API server too.

A Kubernetes API server with neither controllers nor scheduler of its own is started, and the very tests that run on the
embedded one in the default tier run on it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.tier_kube.cluster.cluster import Cluster, provide

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]

PARTS = [
    "tests/embedded/controllers",
    "tests/embedded/podscheduler",
    "tests/embedded/node/test_node.py",
    "tests/embedded/node/test_containers.py",
    "tests/embedded/node/test_files.py",
]


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[str]:
    provide(nodes=False)
    cluster = Cluster(f"parts-{os.getpid()}", nodes=0, controllers=False)
    cluster.start()
    try:
        yield str(cluster.kubeconfig)
    finally:
        cluster.stop()


@pytest.mark.parametrize("part", PARTS)
def test_the_parts_work_on_a_real_api_server(kubeconfig: str, part: str) -> None:
    command = [sys.executable, "-m", "pytest", part, "-n0", "-q", "--no-header"]
    env = {**os.environ, "EDL_TEST_KUBECONFIG": kubeconfig}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stdout[-8000:]
