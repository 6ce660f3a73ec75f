"""$EDL_HOME: what an embedded cluster keeps on disk, and who may use it.

| file | what |
|---|---|
| `store.db` | everything the API server knows |
| `kubeconfig` | how to reach the cluster; `token` is its bearer token |
| `pki/` | the certificate authority |
| `pods/`, `data/` | pods' directories, jobs' data |
| `images.yaml` | what stands behind image names (yours to write) |
| `up.json`, `lock`, `up.log` | what runs, that it runs, what it says |
| `owner`, `network` | the mark of its processes, the addresses of its services |

Nobody else can read any of it. Whoever holds the lock is the cluster; it ends with the process, however that ends.
"""

import fcntl
import json
import os
import random
import secrets
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Running:
    """What `up.json` tells of a cluster that is up. `start` tells its process from a later one of the same number."""

    pid: int
    start: int
    url: str
    nodes: int
    since: str
    version: str


class HomeInUseError(Exception):
    """A cluster runs on this home already; `running` is what is known of it."""

    def __init__(self, path: Path, running: Running | None) -> None:
        super().__init__(f"a cluster is running on {path} already")
        self.running = running


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = path / "store.db"
        self.kubeconfig = path / "kubeconfig"
        self.pki = path / "pki"
        self.data = path / "data"
        self.log = path / "up.log"
        self._state = path / "up.json"

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def claim(self) -> "Claim":
        """Become the one that uses this home; HomeInUseError if somebody else does."""
        self.make()
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise HomeInUseError(self.path, self.running()) from None
        return Claim(descriptor)

    def running(self) -> Running | None:
        """What was last said to run here; it does only if the home is in use."""
        try:
            return Running(**json.loads(self._state.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def tell(self, running: Running) -> None:
        self._write(self._state, json.dumps(asdict(running), indent=1) + "\n")

    def last_port(self) -> int:
        """The port of the last time: kept if it is free, so that a copied kubeconfig stays good."""
        known = self.running()
        return int(known.url.rpartition(":")[2]) if known is not None else 0

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
