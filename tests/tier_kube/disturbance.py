"""Faults of a process in a pod: killed, stopped for a while, cut off the network."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tier_kube.cluster import cgroups
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.cluster.kubectl import Manifest
from tests.tier_kube.cluster.node import Node
from tests.tier_kube.cluster.packages import program
from tests.tier_kube.cluster.processes import Identity, kill


def node_of(cluster: Cluster, pod: Manifest) -> Node:
    return next(node for node in cluster.nodes if node.name == pod["spec"]["nodeName"])


def process_in(cluster: Cluster, pod: Manifest, words: str) -> Identity:
    """The one process of the pod whose command line holds these words."""
    uid = pod["metadata"]["uid"]
    found = [one for one in cgroups.members(node_of(cluster, pod).cgroup) if _is_of(one.pid, uid, words)]
    assert len(found) == 1, f"{len(found)} processes of pod {pod['metadata']['name']} run {words!r}"
    return found[0]


def _is_of(pid: int, uid: str, words: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return f"pod{uid}" in _groups(pid) and words in command


def kill_container(cluster: Cluster, pod: Manifest) -> None:
    """kill -9 of the first process in the pod's first container, from outside: it cannot do that itself. The others go
    with it."""
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    group = node_of(cluster, pod).cgroup
    inside = [one for one in cgroups.members(group) if container in _groups(one.pid)]
    assert inside, f"nothing runs in container {container} of pod {pod['metadata']['name']}"
    kill([min(inside, key=lambda one: (one.started, one.pid))])


def _groups(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def stopped(process: Identity) -> Iterator[None]:
    """As a machine that swaps, or a debugger: it does nothing, and then goes on as if nothing had been."""
    process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)


@contextmanager
def cut_off(cluster: Cluster, pod: Manifest) -> Iterator[None]:
    """The pod's cable is unplugged at the node's end: no packet in, no packet out, no connection closed."""
    namespace = node_of(cluster, pod).place.namespace.name
    (route,) = json.loads(_ip("-j", "-n", namespace, "route", "get", pod["status"]["podIP"]))
    _ip("-n", namespace, "link", "set", route["dev"], "down")
    try:
        yield
    finally:
        _ip("-n", namespace, "link", "set", route["dev"], "up")
        # The kernel forgets the route to a link that is down.
        _ip("-n", namespace, "route", "replace", pod["status"]["podIP"], "dev", route["dev"], "src", route["prefsrc"])


def _ip(*arguments: str) -> str:
    return subprocess.run([program("ip"), *arguments], capture_output=True, text=True, check=True).stdout
