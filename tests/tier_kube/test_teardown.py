"""However a cluster ends, nothing of it stays: no process, namespace, mount, control group or file."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tier_kube.cluster import cgroups
from tests.tier_kube.cluster.cluster import Cluster, clear_leftovers, clusters
from tests.tier_kube.cluster.kubectl import eventually
from tests.tier_kube.manifests import pod

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("teardown")]
REPOSITORY = Path(__file__).parents[2]
START_AND_WAIT = """
import sys, time
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.manifests import pod
cluster = Cluster(sys.argv[1], nodes=int(sys.argv[2]))
cluster.start()
cluster.kubectl.apply(pod("runs"))
cluster.kubectl("wait", "pod/runs", "--for=condition=Ready", "--timeout=60s")
print("started", flush=True)
time.sleep(600)
"""
SESSION = """
import signal, time, pytest

# A shell that starts a program in the background has it ignore interrupts, and all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

def test_waits(api):
    print("started", flush=True)
    time.sleep(600)
"""

SESSION_OF_TWO = """
import os, pathlib, time, pytest

@pytest.mark.parametrize("word", [pytest.param(w, marks=pytest.mark.xdist_group(w)) for w in ("a", "b")])
def test_waits(api, word):
    pathlib.Path({directory!r}, "started-" + word).touch()
    time.sleep(600)
"""


def _traces(name: str) -> list[str]:
    """Whatever on this machine names the cluster."""
    directory = str(clusters() / name)
    found = [directory] if Path(directory).exists() else []
    found += [str(path) for path in Path("/run/netns").glob(f"edl-{name}*")]
    found += [str(path) for tree in cgroups.hierarchies() for path in tree.glob(f"edl-{name}*")]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if directory in line]
    found += [str(path) for path in Path("/var/lib/cni/results").glob(f"edl-{name}*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and directory.encode() in (process / "cmdline").read_bytes():
                found.append((process / "cmdline").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"teardown-{os.getpid()}"
    yield chosen
    clear_leftovers()
    assert _traces(chosen) == []


def _started(command: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, *command], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.strip().endswith("started"):
            return process
    raise AssertionError("it ended before it started: " + "".join(lines))


def test_a_cluster_stops_without_a_trace(own_cluster: Cluster, name: str) -> None:
    cluster = Cluster(name, nodes=1)
    cluster.start()
    cluster.kubectl.apply(pod("runs"))
    cluster.kubectl("wait", "pod/runs", "--for=condition=Ready", "--timeout=60s")
    assert _traces(name) != []
    cluster.stop()
    assert _traces(name) == []


def test_what_a_killed_owner_left_is_cleared_and_nothing_else(own_cluster: Cluster, name: str) -> None:
    owner = _started(["-c", START_AND_WAIT, name, "1"])
    owner.kill()
    owner.communicate()
    assert _traces(name) != []
    clear_leftovers()
    assert _traces(name) == []
    assert own_cluster.kubectl("get", "--raw=/readyz") == "ok"


def test_an_interrupted_session_of_several_workers_cleans_up(tmp_path: Path, own_cluster: Cluster) -> None:
    """Each has a cluster of its own."""
    (tmp_path / "test_waits.py").write_text(SESSION_OF_TWO.format(directory=str(tmp_path)))
    plugins = ["-p", "tests.tier_kube.clusters", "-p", "tests.tier_kube.workers"]
    command = [*plugins, "-c", "/dev/null", "-n", "2", "--dist", "loadgroup", str(tmp_path)]
    session = subprocess.Popen([sys.executable, "-m", "pytest", *command], cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    eventually(lambda: len(list(tmp_path.glob("started-*"))) == 2, within=90, what="both have started")
    names = [f"test-api-{child.pid}" for child in psutil.Process(session.pid).children()]
    assert all(_traces(name) for name in names)
    session.send_signal(signal.SIGTERM)
    assert session.wait(timeout=90) != 0
    assert [trace for name in names for trace in _traces(name)] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_cleans_up(number: signal.Signals, tmp_path: Path, own_cluster: Cluster) -> None:
    (tmp_path / "test_waits.py").write_text(SESSION)
    session = _started(["-m", "pytest", "-s", "-p", "tests.tier_kube.clusters", "-c", "/dev/null", str(tmp_path)])
    name = f"test-api-{session.pid}"
    assert _traces(name) != []
    session.send_signal(number)
    session.communicate(timeout=60)
    assert session.returncode != 0
    assert _traces(name) == []
