"""The job as GET /job shows it: sizes, slots with their holders, the present round, and the last progress."""

import msgspec
from msgspec import UNSET, UnsetType

from edl.protocol.progress import LastProgress


class SlotView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`holder` is POD/PROCESS, `address` where it said it listens; `gone`: its pod certainly is."""

    epoch: int
    holder: str
    address: str = ""
    gone: bool

    @property
    def pod(self) -> str:
        return self.holder.partition("/")[0]


class RoleView(msgspec.Struct, frozen=True):
    """`addresses` are the stable names of the role's slots; `slots` those that were ever claimed, by index."""

    replicas: int = 0
    addresses: list[str] = []
    slots: dict[int, SlotView] = {}


class RoundView(msgspec.Struct, frozen=True):
    number: int
    pods: list[str]
    over: bool


class JobSnapshot(msgspec.Struct, frozen=True):
    """The part that a revision is the digest of."""

    phase: str = ""
    size: int | None = None
    target: int = 0
    roles: dict[str, RoleView] = {}
    leaving: list[str] = []
    round: RoundView | UnsetType = UNSET


class JobView(JobSnapshot, frozen=True):
    """The answer. Progress is no part of the revision: nobody who waits for a change waits for it."""

    revision: str = ""
    progress: LastProgress | UnsetType = UNSET

    def slot(self, role: str, index: int) -> SlotView | None:
        found = self.roles.get(role)
        return found.slots.get(index) if found else None
