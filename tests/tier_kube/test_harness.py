"""Safety of the harness on a developer's machine, checked without a cluster: it touches only what it made."""

import os
import signal
import socket
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from edl.api.kubernetes.version import NEWEST
from tests.tier_kube.cluster import packages, tiny_image
from tests.tier_kube.cluster.build import BINARIES, TOOLS, BuildError, binary
from tests.tier_kube.cluster.cache import cache_root, fingerprint, locked
from tests.tier_kube.cluster.credentials import Credentials
from tests.tier_kube.cluster.kubectl import eventually
from tests.tier_kube.cluster.network import NodeNetwork
from tests.tier_kube.cluster.ports import Ports
from tests.tier_kube.cluster.processes import Identity, Processes

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(records=tmp_path / "records", logs=tmp_path / "logs")


def test_a_later_run_stops_what_a_killed_one_left(processes: Processes, tmp_path: Path) -> None:
    processes.start("sleeper", SLEEPER)
    later = Processes(records=tmp_path / "records", logs=tmp_path / "logs")
    assert later.alive("sleeper")
    later.kill(*later.names())
    assert not processes.alive("sleeper")
    assert later.names() == []
    processes.kill("sleeper")


def test_what_ended_by_itself_is_started_again(processes: Processes) -> None:
    processes.start("sleeper", SLEEPER)
    processes.start("short", [sys.executable, "-c", ""])
    processes.start("killed", SLEEPER)
    processes.kill("killed")
    eventually(lambda: processes.restart_ended() == ["short"], within=20, what="it is started again")
    processes.kill("sleeper", "short")
    assert processes.restart_ended() == []


def test_all_who_want_the_image_at_once_get_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine whose cache is empty, where the nodes of all workers start together."""
    (tmp_path / "busybox").write_bytes(b"x" * 2_000_000)
    monkeypatch.setenv("EDL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tiny_image, "program", lambda name: str(tmp_path / name))
    with ThreadPoolExecutor(8) as pool:
        (archive,) = {each.result() for each in [pool.submit(tiny_image.tiny_image) for _ in range(8)]}
    with tarfile.open(archive) as tar:
        assert sorted(tar.getnames()) == ["config.json", "layer.tar", "manifest.json"]


def test_a_pid_that_was_used_again_is_not_signalled() -> None:
    with subprocess.Popen(SLEEPER) as stranger:
        identity = Identity.of(stranger.pid)
        assert identity is not None
        for other in (replace(identity, started=identity.started + 1), replace(identity, boot="another")):
            other.signal(signal.SIGKILL)
            assert not other.alive()
        assert stranger.poll() is None
        identity.signal(signal.SIGKILL)
        assert stranger.wait(10) == -signal.SIGKILL
    identity.signal(signal.SIGKILL)


def test_a_zombie_counts_as_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Identity.of(child.pid) is None
    child.stdout.close()
    child.wait()


def test_a_failure_shows_the_end_of_the_log(processes: Processes) -> None:
    processes.start("speaker", [sys.executable, "-c", "for i in range(50): print('line', i)"])
    eventually(lambda: not processes.alive("speaker"), within=30, what="the end of the speaker", pause=0.01)
    assert processes.tail("speaker", lines=2).splitlines()[1:] == ["line 48", "line 49"]
    processes.kill("speaker")


def test_the_cache_is_outside_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EDL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "edl"
    monkeypatch.setenv("EDL_CACHE", str(tmp_path / "chosen"))
    assert cache_root() == tmp_path / "chosen"


def test_the_cache_lock_excludes_other_processes(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    imports = "from pathlib import Path; from tests.tier_kube.cluster.cache import locked"
    code = f"{imports}\nwith locked(Path({str(lock)!r})): print('mine')"
    with locked(lock):
        waiter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert waiter.stdout is not None
        assert waiter.stdout.readline().startswith("waiting")
    assert waiter.communicate(timeout=60)[0] == "mine\n"


def test_a_fingerprint_follows_every_byte_and_name(tmp_path: Path) -> None:
    file = tmp_path / "tree" / "file"
    file.parent.mkdir()
    file.write_text("one")
    before = fingerprint(tmp_path / "tree", "flags")
    assert before == fingerprint(tmp_path / "tree", "flags")
    assert before != fingerprint(tmp_path / "tree", "other flags")
    (file.parent / "__pycache__").mkdir()
    (file.parent / "__pycache__" / "file.pyc").write_text("bytecode")
    assert before == fingerprint(tmp_path / "tree", "flags")
    file.write_text("two")
    changed = fingerprint(tmp_path / "tree", "flags")
    file.rename(file.with_name("renamed"))
    assert len({before, changed, fingerprint(tmp_path / "tree", "flags")}) == 3


def test_every_build_is_pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDL_CACHE", str(tmp_path))
    assert {tool.name: tool.version for tool in TOOLS} == {
        "etcd": "v3.6.8",
        "etcd-v2": "v3.5.35",
        "kubernetes": NEWEST,
        "coredns": "v1.14.7",
        "helm": "v3.21.4",
        "kwok": "v0.8.0",
        "promtool": "v0.315.0",
        "training-operator": "v1.9.3",
    }
    assert len({tool.output for tool in TOOLS}) == len(TOOLS)
    for name in BINARIES:
        with pytest.raises(BuildError, match=f"{name} is not built yet"):
            binary(name)


def test_a_reserved_port_is_nobody_elses(tmp_path: Path) -> None:
    ports = Ports()
    port = ports.reserve()
    with socket.socket() as stranger, pytest.raises(OSError):
        stranger.bind(("127.0.0.1", port))
    with socket.socket() as owner:
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        owner.bind(("127.0.0.1", port))
    ports.release()


def test_credentials_are_private_and_name_the_server(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "pki")
    credentials.create(server_names=["kubernetes.default.svc", "127.0.0.1"], nodes=["node-1"])
    assert all(file.stat().st_mode & 0o077 == 0 for file in [credentials.directory, *tmp_path.glob("pki/*.key")])
    certificate = x509.load_pem_x509_certificate(Path(credentials.pair("apiserver")[0]).read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(credentials.authority.read_bytes()))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kubernetes.default.svc"]
    file = credentials.kubeconfig(tmp_path / "kubeconfig", user="system:node:node-1", server="https://127.0.0.1:1")
    token = yaml.safe_load(file.read_text())["users"][0]["user"]["token"]
    assert f'{token},system:node:node-1,system:node:node-1,"system:nodes"' in credentials.tokens.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_nodes_share_no_addresses() -> None:
    nodes = [NodeNetwork(f"node-{index}", index, Path("/nowhere")) for index in (1, 2, 3)]
    assert len({node.address for node in nodes}) == 3
    assert not any(a.pods.overlaps(b.pods) for a in nodes for b in nodes if a is not b)


def test_without_root_the_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(packages.MissingError, match=r"needs root: .*sudo make test-kube.*KUBECONFIG"):
        packages.require_root()
