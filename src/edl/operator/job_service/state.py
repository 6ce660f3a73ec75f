"""Durable state of a job in the service: slots with epochs, a small key-value store, and the present round.

Pure: a change is a function from a state to the next one, or a `RefusedError` for the caller. Whether and when a state
is durable is no concern of this module.
"""

import re
from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec

from edl.ledger.job_use import KeptLedger
from edl.operator.job_service.refusals import RefusedError
from edl.protocol.errors import ErrorCode
from edl.protocol.rounds import Round
from edl.protocol.slots import Slot
from edl.throughput.measurements import Measurements

LIMIT = 64 * 1024  # bytes of all values of a job
SLOTS_LIMIT = 256 * 1024  # apart from the values, so that a full job can still replace its master
MAX_KEYS = 1_000
MAX_INDEX = 9_999

_KEY = re.compile(r"[A-Za-z0-9][-._A-Za-z0-9]{0,99}")
_ROLE = re.compile(r"[a-z][-a-z0-9]{0,39}")


class HeldSlot(msgspec.Struct, frozen=True, omit_defaults=True):
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
    slots: dict[str, HeldSlot] = {}
    values: dict[str, Value] = {}
    round: Round | None = None
    """The agents that train together, if the job uses the rendezvous."""
    ledger: KeptLedger | None = None
    """The job's account, as of when it was last kept. Bounded by its type, and no part of what values may have."""
    measured: Measurements | None = None
    """What the job has measured of its throughput."""


Change = Callable[[JobState], tuple[JobState, int]]


def check(state: JobState, fence: Slot) -> None:
    """Refuses a call that names an older epoch than the slot's present one."""
    slot = state.slots.get(slot_name(fence.role, fence.index))
    present = slot.epoch if slot else 0
    if fence.epoch != present:
        message = f"stale epoch: slot {fence.role}/{fence.index} is at epoch {present}, this call names {fence.epoch}"
        raise RefusedError(409, ErrorCode.STALE_EPOCH, message, epoch=present)


def claim(state: JobState, role: str, index: int, holder: str, address: str = "") -> tuple[JobState, int]:
    """The next state and the holder's epoch. The same holder keeps its epoch; another one fences it off."""
    name, old = slot_name(role, index), state.slots.get(slot_name(role, index))
    if not holder or len(holder) > 200 or len(address) > 200:
        raise RefusedError(400, ErrorCode.BAD_HOLDER, "holder must have 1 to 200 characters, address at most 200")
    same = old is not None and old.holder == holder
    epoch = old.epoch if old and same else (old.epoch + 1 if old else 1)
    slot = HeldSlot(epoch, holder, address)
    if slot == old:
        return state, epoch
    slots = {**state.slots, name: slot}
    if old is None and len(msgspec.json.encode(slots)) > SLOTS_LIMIT:
        raise RefusedError(413, ErrorCode.TOO_LARGE, f"the job has {len(state.slots)} slots, more do not fit")
    return _next(state, slots=slots), epoch


def free_index(
    slots: Mapping[int, HeldSlot], size: int, *, pod: str, wish: int | None, gone: Container[int]
) -> int | None:
    """Which slot a pod without an index of its own may take: the one it had, the one it wishes, the lowest free one."""
    mine = [index for index, slot in sorted(slots.items()) if slot.pod == pod]
    if mine:
        return mine[0]
    free = [index for index in range(size) if index not in slots or index in gone]
    return wish if wish in free else min(free, default=None)


def put(state: JobState, key: str, data: bytes, expected: int | None) -> tuple[JobState, int]:
    """The next state and the value's version. `expected` 0 means that the key must not exist, None means overwrite."""
    _expect(state, key, expected)
    if key not in state.values and len(state.values) >= MAX_KEYS:
        raise RefusedError(413, ErrorCode.TOO_LARGE, f"the job has {MAX_KEYS} keys, it may not have more")
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
        raise RefusedError(
            409, ErrorCode.ROUND, f"round {present.number} of {present.run} was formed by another leader"
        )
    return _next(state, round=formed), formed.number


def keep_ledger(state: JobState, kept: KeptLedger) -> tuple[JobState, int]:
    return msgspec.structs.replace(state, revision=state.revision + 1, ledger=kept), 0


def keep_measured(state: JobState, measured: Measurements) -> tuple[JobState, int]:
    """The next state. It has bounds of its own, so that a job whose values are full keeps its measurements, too."""
    if state.measured == measured:
        return state, 0
    return msgspec.structs.replace(state, revision=state.revision + 1, measured=measured), 0


def role_slots(state: JobState, role: str) -> dict[int, HeldSlot]:
    pairs = ((name.rpartition("/"), slot) for name, slot in state.slots.items())
    return {int(index): slot for (owner, _, index), slot in pairs if owner == role}


def slot_name(role: str, index: int) -> str:
    if not _ROLE.fullmatch(role) or not 0 <= index <= MAX_INDEX:
        raise RefusedError(400, ErrorCode.BAD_SLOT, f"no slot can be called {role}/{index}")
    return f"{role}/{index}"


def size(state: JobState) -> int:
    """Bytes that count against the limit."""
    return sum(len(key) + len(value.data) for key, value in state.values.items())


def _expect(state: JobState, key: str, expected: int | None) -> None:
    if not _KEY.fullmatch(key):
        raise RefusedError(
            400, ErrorCode.BAD_KEY, f"key {key!r} must be 1 to 100 of A-Z a-z 0-9 - _ . and start with one of the first"
        )
    present = state.values[key].version if key in state.values else 0
    if expected is not None and expected != present:
        message = f"key {key} is at version {present}, not {expected}" if present else f"key {key} does not exist"
        raise RefusedError(412, ErrorCode.VERSION, message, version=present)


def _next(state: JobState, **changes: Any) -> JobState:
    new = msgspec.structs.replace(state, revision=state.revision + 1, **changes)
    if size(new) > max(LIMIT, size(state)):
        raise RefusedError(
            413, ErrorCode.TOO_LARGE, f"the job's values would have {size(new)} bytes, the limit is {LIMIT}"
        )
    return new
