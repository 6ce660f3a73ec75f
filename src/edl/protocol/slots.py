"""Slots of a job: claiming one, and the epoch that fences its former holders."""

import msgspec

FENCE_HEADER = "EDL-Slot"


class Slot(msgspec.Struct, frozen=True):
    """A slot as its holder names it; `fence` goes with every call that only the present holder may make."""

    role: str
    index: int
    epoch: int

    @property
    def fence(self) -> str:
        return f"{self.role}/{self.index}/{self.epoch}"

    @classmethod
    def parse(cls, fence: str) -> "Slot":
        """Raises ValueError unless it is role/index/epoch."""
        role, index, epoch = fence.split("/")
        return cls(role, int(index), int(epoch))


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """`holder` is POD/PROCESS, `address` where it listens, `wish` the index it would like if it may take any."""

    holder: str
    address: str = ""
    wish: int | None = None


class Claimed(msgspec.Struct, frozen=True):
    index: int
    epoch: int
