"""How soon an edited script runs on a real cluster with containers: `edl run`, its code shipped, an image without EDL.

From the start of the command to the script's first line, by the script's own clock, and to the line on the screen. The
image is known to the nodes; what it would take to pull it is the registry's. The script starts with `python`: what an
image takes to import torch is not in it.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.tier_kube.cluster.cluster import Cluster, provide
from tests.tier_kube.cluster.kubectl import Kubectl
from tests.tier_kube.cluster.packages import require_root
from tests.tier_kube.cluster.python_image import PYTHON_IMAGE, python_image
from tests.tier_kube.image import IMAGE, project_image
from tests.tier_kube.installed import install

NODES = 2
MARK = "the first line of edit"
NAMESPACE = "first-line"


@dataclass(frozen=True)
class FirstLine:
    """Seconds from the start of `edl run`."""

    ran: float
    shown: float


def measure_first_lines(edits: int) -> list[FirstLine]:
    """Of each edit; one that is not counted goes before them, after which every node has what it keeps."""
    with _cluster() as kubectl, tempfile.TemporaryDirectory() as directory:
        kubectl("create", "namespace", NAMESPACE)
        return [_edit_and_run(kubectl, Path(directory) / "train.py", number) for number in range(edits + 1)][1:]


@contextmanager
def _cluster() -> Iterator[Kubectl]:
    require_root()
    provide(nodes=True)
    cluster = Cluster(f"bench-{os.getpid()}", nodes=NODES, images=[project_image(), python_image()])
    try:
        cluster.start()
        install(cluster.kubectl, IMAGE)
        yield cluster.kubectl
    finally:
        cluster.stop()


def _edit_and_run(kubectl: Kubectl, script: Path, number: int) -> FirstLine:
    script.write_text(f"import time\nprint('{MARK} {number} at', time.time(), flush=True)\ntime.sleep(5)\n")
    where = ("--kubeconfig", str(kubectl.kubeconfig), "-n", NAMESPACE)
    options = ("--image", PYTHON_IMAGE, "--cpu", "50m", "--plain")
    started = time.time()
    command = [sys.executable, "-m", "edl.cli.main", "run", str(script), *where, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        said: list[str] = []
        found: FirstLine | None = None
        for line in run.stdout:
            said.append(line)
            if f"{MARK} {number} at" in line and found is None:
                found = FirstLine(float(line.split(" at ")[1]) - started, time.time() - started)
    if found is None or run.returncode:
        raise RuntimeError(f"the script did not run ({run.returncode}):\n{''.join(said)}")
    return found
