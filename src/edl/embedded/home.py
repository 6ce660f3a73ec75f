"""$EDL_HOME: files of an embedded cluster, and the lock that lets one process use them.

| file | content |
|---|---|
| `store.db` | everything the API server knows |
| `kubeconfig` | how to reach the cluster; `token` is its bearer token |
| `pki/` | the certificate authority |
| `pods/`, `data/` | pods' directories, jobs' data |
| `images.yaml` | definitions of image names (yours to write) |
| `up.json`, `lock`, `up.log` | the running cluster, its lock, its log |
| `last.json` | the cluster before it |
| `owner`, `network` | the mark of its processes, the addresses of its services |

Nobody else can read any of it. Whoever holds the lock is the cluster; it ends with the process, however that ends.
"""

import contextlib
import fcntl
import json
import os
import random
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec


class RunningCluster(msgspec.Struct, frozen=True):
    """Content of `up.json`. `start` distinguishes the process from a later one with the same pid."""

    pid: int
    start: int
    url: str
    nodes: int
    since: str
    version: str


class HomeInUseError(Exception):
    """A cluster runs on this home already; `running` if it has recorded itself."""

    def __init__(self, path: Path, running: RunningCluster | None) -> None:
        super().__init__(f"a cluster is running on {path} already")
        self.running = running


class PortTakenError(Exception):
    """Somebody else listens on the port that the API server was told to use."""


class HomeUnusableError(Exception):
    """The home cannot be written: a read-only file system, somebody else's directory, a file in its place."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be used: {error.strerror}; EDL_HOME names another place")


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = path / "store.db"
        self.kubeconfig = path / "kubeconfig"
        self.pki = path / "pki"
        self.data = path / "data"
        self.logs = path / "logs"
        """Of pods that are gone."""
        self.log = path / "up.log"
        self._state = path / "up.json"
        self._last = path / "last.json"

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def claim(self) -> "Claim":
        """Lock this home for the caller; HomeInUseError if somebody else has, HomeUnusableError if nobody can.

        What an earlier cluster recorded of itself is set aside: while the home is in use, `up.json` is the user's."""
        try:
            self.make()
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise HomeUnusableError(self.path, error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                self._state.replace(self._last)
        except BlockingIOError:
            os.close(descriptor)
            raise HomeInUseError(self.path, self.running()) from None
        except OSError as error:
            os.close(descriptor)
            raise HomeUnusableError(self.path, error) from None
        return Claim(descriptor)

    def running(self) -> RunningCluster | None:
        """The cluster that uses this home, once it is up; only if the home is in use."""
        return _recorded(self._state)

    def save_running(self, running: RunningCluster) -> None:
        self._write(self._state, json.dumps(msgspec.structs.asdict(running), indent=1) + "\n")

    def last_port(self) -> int:
        """The port of the last time: kept if it is free, so that a copied kubeconfig stays good."""
        known = _recorded(self._state) or _recorded(self._last)
        port = known.url.rpartition(":")[2] if known is not None else ""
        return int(port) if port.isdecimal() and int(port) < 65_536 else 0

    @property
    def token(self) -> str:
        return self._once("token", lambda: secrets.token_urlsafe(32))

    @property
    def owner(self) -> str:
        return self._once("owner", lambda: f"edl-{secrets.token_hex(8)}")

    @property
    def network(self) -> str:
        return self._once("network", _free_network)

    def _once(self, name: str, make: Callable[[], str]) -> str:
        path = self.path / name
        if not path.exists():
            self._write(path, make())
        return path.read_text().strip()

    def _write(self, path: Path, text: str) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.replace(path)


def _recorded(path: Path) -> RunningCluster | None:
    """None if there is nothing, or nothing that makes sense."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningCluster)
    except (OSError, ValueError):
        return None


class Claim:
    """Held until closed, or until the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def reserve_network(network: str) -> socket.socket | None:
    """Claim the addresses of our services against other clusters on this machine; None if somebody else has."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0edl-services-{network}")
    except OSError:
        claim.close()
        return None
    return claim


def _free_network() -> str:
    for _ in range(1000):
        network = f"127.{random.randint(112, 254)}.{random.randrange(0, 256, 16)}.0/20"
        claim = reserve_network(network)
        if claim is not None:
            claim.close()
            return network
    return "127.96.0.0/12"
