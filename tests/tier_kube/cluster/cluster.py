"""A cluster from first process to last: the one thing that tests and the command line use.

A cluster belongs to the process that started it, or, kept, to nobody. Starting one first clears away those whose owner
is gone.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.tier_kube.cluster import control_plane, dns, node
from tests.tier_kube.cluster.build import build
from tests.tier_kube.cluster.cache import cache_root, locked
from tests.tier_kube.cluster.control_plane import ControlPlane
from tests.tier_kube.cluster.credentials import Credentials
from tests.tier_kube.cluster.disk import disk_with
from tests.tier_kube.cluster.dns import Dns
from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, Manifest
from tests.tier_kube.cluster.network import Network
from tests.tier_kube.cluster.node import Node
from tests.tier_kube.cluster.packages import install_packages, require_root
from tests.tier_kube.cluster.processes import Identity, Processes, StartError
from tests.tier_kube.cluster.teardown import remember_tunables, teardown
from tests.tier_kube.cluster.tiny_image import tiny_image

_READY_TIMEOUT = 60.0
_KEPT_LOGS = 8
_MORE_NODES = 8  # that may join later; the API server reads who they are when it starts


def clusters() -> Path:
    """The directory that holds one directory per running cluster."""
    return cache_root() / "clusters"


def provide(*, nodes: bool) -> None:
    """Build and install all that a cluster needs; quick when it is there already."""
    if nodes:
        install_packages()
    build(*control_plane.BINARIES, *(node.BINARIES + dns.BINARIES if nodes else ()))


class Cluster:
    """A running Kubernetes with `nodes` container nodes; with none, an API on loopback that needs no root."""

    def __init__(
        self,
        name: str,
        *,
        nodes: int,
        controllers: bool = True,
        more_flags: Mapping[str, tuple[str, ...]] | None = None,
        watched: Sequence[str] = (),
        images: Sequence[Path] = (),
    ) -> None:
        """`images`: docker archives that every node of `nodes` knows, beside the tiny one."""
        self.name = name
        self._images = images
        self.directory = clusters() / name
        self.processes = Processes(records=self.directory / "processes", logs=self.directory / "logs")
        self.network = Network(name)
        self.control_plane = ControlPlane(
            self.directory,
            Credentials(self.directory / "pki"),
            self.processes,
            namespace=self.network.control if nodes else None,
            controllers=controllers or nodes > 0,
            more_flags=more_flags or {},
            watched=watched,
        )
        self.nodes = [self._node(index) for index in range(1, nodes + 1)]

    def _node(self, index: int) -> Node:
        place = self.network.node(index)
        return Node(
            self.directory / "nodes" / place.name, self.name, self.network, place, self.control_plane, self.processes
        )

    @property
    def kubeconfig(self) -> Path:
        return self.control_plane.kubeconfig

    @property
    def kubectl(self) -> Kubectl:
        return self.control_plane.kubectl

    def start(self, *, keep: bool = False) -> None:
        """Start everything and return when pods can run. Whatever fails, nothing is left behind."""
        if self.nodes:
            require_root()
        self._claim(keep=keep)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _claim(self, *, keep: bool) -> None:
        """Take the name; locked, lest another start clears away what has no owner yet."""
        with locked(cache_root() / "clusters.lock"):
            _clear_leftovers()
            try:
                self.directory.mkdir(parents=True)
            except FileExistsError:
                command = f"python -m tests.tier_kube.cluster down --name {self.name}"
                raise StartError(f"the cluster {self.name} runs already; `{command}` removes it") from None
            owner = None if keep else Identity.of(os.getpid())
            (self.directory / "owner.json").write_text(json.dumps(owner and asdict(owner)))

    def _start(self) -> None:
        more = range(len(self.nodes) + 1, len(self.nodes) + 1 + _MORE_NODES)
        self.control_plane.create_credentials(
            [each.name for each in self.nodes] + [self.network.node(index).name for index in more]
        )
        if not self.nodes:
            self.control_plane.start()
            return
        remember_tunables(self.directory)
        self.network.create(len(self.nodes))
        disk = disk_with([tiny_image(), *self._images])
        with ThreadPoolExecutor() as pool:
            preparing = [pool.submit(each.prepare, disk) for each in self.nodes]
            self.control_plane.start()
            for prepared in preparing:
                prepared.result()
        for each in self.nodes:
            each.runtime.wait()
            each.join()
        self._wait_nodes()

    def _wait_nodes(self) -> None:
        service = Dns(self.control_plane, self.processes)
        service.start(self.network.control)
        for each in self.nodes:
            self._wait_node(each)
        self._until("namespace default has no service account", "kube-controller-manager", self._has_account)
        service.wait(self.network.control)

    def _wait_node(self, each: Node) -> None:
        ready = partial(self._is_ready, each)
        self._until(f"node {each.name} is not ready", f"{each.name}-kubelet", ready)

    def add_node(self) -> Node:
        """Another machine joins, with no image but the tiny one; it is not among `nodes`, which are there for all."""
        index = 1 + len(list((self.directory / "nodes").iterdir()))
        each = self._node(index)
        self.network.add(each.place, [self.network.node(other) for other in range(1, index)])
        each.prepare(disk_with([tiny_image()]))
        each.runtime.wait()
        each.join()
        self._wait_node(each)
        return each

    def _until(self, complaint: str, process: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT
        while not holds():
            if time.monotonic() > deadline or not self.processes.alive(process):
                raise StartError(f"{complaint}\n{self.processes.tail(process)}")
            time.sleep(0.1)

    def _is_ready(self, each: Node) -> bool:
        found = self._find("nodes", each.name)
        conditions = found["status"].get("conditions", []) if found else []
        return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)

    def _has_account(self) -> bool:
        return self._find("serviceaccounts", "default") is not None

    def _find(self, resource: str, name: str) -> Manifest | None:
        try:
            return self.kubectl.find(resource, name)
        except KubectlError:
            return None

    def stop(self) -> None:
        """Remove everything, uninterrupted, but for the logs of the last few clusters."""
        held = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.control_plane.ports.release()
            self._keep_logs()
            if self.directory.exists():
                self.processes.kill(*self.processes.names())
                teardown(self.name, self.directory)
        finally:
            for number, handler in held.items():
                signal.signal(number, handler)

    def _keep_logs(self) -> None:
        kept = cache_root() / "last-logs"
        if (self.directory / "logs").exists():
            shutil.copytree(self.directory / "logs", kept / self.name, dirs_exist_ok=True)
            os.utime(kept / self.name)  # when it ended: copied with the directory was when its first part started
            for old in sorted(kept.iterdir(), key=lambda path: -path.lstat().st_mtime)[_KEPT_LOGS:]:
                shutil.rmtree(old, ignore_errors=True)


def clear_leftovers() -> None:
    """Tear down clusters whose owner is gone: it was killed before it could."""
    with locked(cache_root() / "clusters.lock"):
        _clear_leftovers()


def _clear_leftovers() -> None:
    for directory in sorted(clusters().glob("*")):
        try:
            owner = json.loads((directory / "owner.json").read_text())
        except (FileNotFoundError, ValueError):
            owner = {"pid": 0, "started": 0, "boot": ""}
        if owner is not None and not Identity(**owner).alive():
            print(f"clearing away {directory.name}, whose owner is gone", flush=True)
            teardown(directory.name, directory)
