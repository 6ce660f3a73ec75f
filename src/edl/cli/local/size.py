"""The size of this machine's cluster: what it was started with, and with which it comes back unless told otherwise."""

from pathlib import Path
from typing import Any

import msgspec

FILE = "size.json"


class ClusterSize(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nodes, and what each of them offers; what is empty is its share of the machine."""

    nodes: int = 1
    cpu: str = ""
    memory: str = ""
    disk: str = ""
    gpu: int = 0
    resources: dict[str, str] = msgspec.field(default_factory=dict)

    def __str__(self) -> str:
        offered = {
            "CPU": self.cpu,
            "memory": self.memory,
            "disk": self.disk,
            "GPU": str(self.gpu or ""),
        } | self.resources
        parts = [f"{amount} {name}" for name, amount in offered.items() if amount]
        each = f" of {', '.join(parts)}" if parts else ""
        return f"{self.nodes} node{'s' if self.nodes != 1 else ''}{each}"


def last_size(home: Path) -> ClusterSize:
    """Of the cluster that runs there, or ran last; a file that makes no sense is none."""
    try:
        return msgspec.json.decode((home / FILE).read_bytes(), type=ClusterSize)
    except (OSError, msgspec.DecodeError):
        return ClusterSize()


def save_size(home: Path, size: ClusterSize) -> None:
    unfinished = home / f".{FILE}"
    unfinished.write_bytes(msgspec.json.encode(size))
    unfinished.chmod(0o600)
    unfinished.replace(home / FILE)


def resized(size: ClusterSize, wanted: dict[str, Any]) -> ClusterSize:
    """With what is wanted instead; None and what is empty leaves things as they are."""
    return msgspec.structs.replace(
        size, **{name: value for name, value in wanted.items() if value not in (None, "", {})}
    )
