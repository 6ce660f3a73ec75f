"""What a job keeps in the service beyond the life of any pod: slots with epochs, and a small key-value store.

Pure: a change is a function from a state to the next one, or a `RefusedError` that the caller is told. Whether and
when a state is durable is no concern of this module.
"""

import re
from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec

from edl.runtime.rendezvous.rounds import Round

LIMIT = 64 * 1024  # bytes of all values of a job
SLOTS_LIMIT = 256 * 1024  # apart from the values, so that a full job can still replace its master
MAX_INDEX = 9_999

_KEY = re.compile(r"[A-Za-z0-9][-._A-Za-z0-9]{0,99}")
_ROLE = re.compile(r"[a-z][-a-z0-9]{0,39}")


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """`holder` is POD/PROCESS: a new process in the same pod is another holder. `address` is where it listens."""

    epoch: int
    holder: str
    address: str = ""

    @property
    def pod(self) -> str:
        return self.holder.partition("/")[0]


class Value(msgspec.Struct, frozen=True):
    version: int
    data: bytes


class JobState(msgspec.Struct, frozen=True):
    """`revision` counts changes and `writer` names who made the last one: together they tell two states apart."""

    revision: int = 0
    writer: str = ""
    slots: dict[str, Slot] = {}
    values: dict[str, Value] = {}
    round: Round | None = None
    """Who trains together, if the job's agents meet here."""


class Fence(msgspec.Struct, frozen=True):
    """Who a call comes from. A call of an older epoch than the slot's present one is refused."""

    role: str
    index: int
    epoch: int

    @classmethod
    def parse(cls, text: str) -> "Fence":
        try:
            role, index, epoch = text.split("/")
            return cls(role, int(index), int(epoch))
        except ValueError:
            raise RefusedError(400, "bad-slot", f"EDL-Slot is {text!r}, it must be role/index/epoch") from None


class RefusedError(Exception):
    """An answer that is no success: HTTP status, stable code, words, and further fields of the body."""

    def __init__(self, status: int, code: str, words: str, **detail: Any) -> None:
        super().__init__(words)
        self.status, self.code, self.words, self.detail = status, code, words, detail


class NotLeadingError(RefusedError):
    """Another replica leads, or will: ask again."""

    def __init__(self, words: str) -> None:
        super().__init__(503, "not-leading", words, retry_after=1)


Change = Callable[[JobState], tuple[JobState, int]]


def check(state: JobState, fence: Fence | None) -> None:
    if fence is None:
        return
    slot = state.slots.get(slot_name(fence.role, fence.index))
    present = slot.epoch if slot else 0
    if fence.epoch != present:
        words = f"stale epoch: slot {fence.role}/{fence.index} is at epoch {present}, this call names {fence.epoch}"
        raise RefusedError(409, "stale-epoch", words, epoch=present)


def claim(state: JobState, role: str, index: int, holder: str, address: str = "") -> tuple[JobState, int]:
    """The next state and the holder's epoch. The same holder keeps its epoch; another one fences it off."""
    name, old = slot_name(role, index), state.slots.get(slot_name(role, index))
    if not holder or len(holder) > 200 or len(address) > 200:
        raise RefusedError(400, "bad-holder", "holder must have 1 to 200 characters, address at most 200")
    same = old is not None and old.holder == holder
    epoch = old.epoch if old and same else (old.epoch + 1 if old else 1)
    slot = Slot(epoch, holder, address)
    if slot == old:
        return state, epoch
    slots = {**state.slots, name: slot}
    if old is None and len(msgspec.json.encode(slots)) > SLOTS_LIMIT:
        raise RefusedError(413, "too-large", f"the job has {len(state.slots)} slots, more do not fit")
    return _next(state, slots=slots), epoch


def free_index(slots: Mapping[int, Slot], size: int, *, pod: str, wish: int | None, gone: Container[int]) -> int | None:
    """Which slot a pod without an index of its own may take: the one it had, the one it wishes, the lowest free one."""
    mine = [index for index, slot in sorted(slots.items()) if slot.pod == pod]
    if mine:
        return mine[0]
    free = [index for index in range(size) if index not in slots or index in gone]
    return wish if wish in free else min(free, default=None)


def put(state: JobState, key: str, data: bytes, expected: int | None) -> tuple[JobState, int]:
    """The next state and the value's version. `expected` 0 means that the key must not exist, None means overwrite."""
    _expect(state, key, expected)
    version = state.revision + 1
    return _next(state, values={**state.values, key: Value(version, data)}), version


def delete(state: JobState, key: str, expected: int | None) -> tuple[JobState, int]:
    _expect(state, key, expected)
    if key not in state.values:
        return state, 0
    return _next(state, values={name: value for name, value in state.values.items() if name != key}), 0


def form(state: JobState, formed: Round) -> tuple[JobState, int]:
    """The next state. A round is never formed twice, and never goes back."""
    present = state.round
    if present and present.run == formed.run and (formed.number, formed.over) <= (present.number, present.over):
        raise RefusedError(409, "round", f"round {present.number} of {present.run} was formed by another leader")
    return _next(state, round=formed), formed.number


def role_slots(state: JobState, role: str) -> dict[int, Slot]:
    pairs = ((name.rpartition("/"), slot) for name, slot in state.slots.items())
    return {int(index): slot for (owner, _, index), slot in pairs if owner == role}


def slot_name(role: str, index: int) -> str:
    if not _ROLE.fullmatch(role) or not 0 <= index <= MAX_INDEX:
        raise RefusedError(400, "bad-slot", f"no slot can be called {role}/{index}")
    return f"{role}/{index}"


def size(state: JobState) -> int:
    """Bytes that count against the limit."""
    return sum(len(key) + len(value.data) for key, value in state.values.items())


def _expect(state: JobState, key: str, expected: int | None) -> None:
    if not _KEY.fullmatch(key):
        raise RefusedError(
            400, "bad-key", f"key {key!r} must be 1 to 100 of A-Z a-z 0-9 - _ . and start with one of the first"
        )
    present = state.values[key].version if key in state.values else 0
    if expected is not None and expected != present:
        words = f"key {key} is at version {present}, not {expected}" if present else f"key {key} does not exist"
        raise RefusedError(412, "version", words, version=present)


def _next(state: JobState, **changes: Any) -> JobState:
    new = msgspec.structs.replace(state, revision=state.revision + 1, **changes)
    if size(new) > max(LIMIT, size(state)):
        raise RefusedError(413, "too-large", f"the job's values would have {size(new)} bytes, the limit is {LIMIT}")
    return new
