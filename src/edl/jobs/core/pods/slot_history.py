"""History of a pod set's slots beyond their pods. It lives in the job's status and survives every crash.

Most slots have nothing to tell (one pod, still there), so only exceptions are written, and the done ones as ranges.
"""

from collections.abc import Mapping

import msgspec

from edl.api.kubernetes import indexes
from edl.api.kubernetes.meta import EMPTY
from edl.api.status import SlotMemory

_LONGEST_RANGE = 100_000  # a status that a hand has written must not fill the memory


class SlotRecord(msgspec.Struct, frozen=True, gc=False):
    """`attempt`: the last pod it is known to have had; `ended`: the last of them whose end is accounted for (-1: none).

    A pod at or before `ended` has no future: it counted already, and if it still runs it was chosen to leave.
    """

    attempt: int = 0
    ended: int = -1
    failures: int = 0


NEVER = SlotRecord(attempt=-1)
USUAL = SlotRecord()


class SlotHistory(msgspec.Struct, frozen=True):
    """`peak`: slots below it have had a pod. `failed`: pods that failed by themselves. `seconds`: what the gone ran."""

    peak: int = 0
    slots: Mapping[int, SlotRecord] = EMPTY  # type: ignore[assignment]  # one shared empty mapping fits every key type
    done: frozenset[int] = frozenset()
    failed: int = 0
    seconds: float = 0.0

    def slot(self, index: int) -> SlotRecord:
        return self.slots.get(index) or (USUAL if index < self.peak else NEVER)


class Ledger:
    """A record in the making: one pass over a pod set writes its entries here and takes the new record at the end."""

    def __init__(self, record: SlotHistory) -> None:
        self._old = record
        self._slots = dict(record.slots)
        self._peak = record.peak
        self.done = set(record.done)
        self.failed = record.failed
        self.seconds = record.seconds

    def slot(self, index: int) -> SlotRecord:
        return self._slots.get(index) or (USUAL if index < self._peak else NEVER)

    def at_limit(self, limit: int) -> set[int]:
        return {index for index, slot in self._slots.items() if slot.failures >= limit}

    def seen(self, index: int, attempt: int) -> None:
        slot = self.slot(index)
        if attempt > slot.attempt:
            self._put(index, SlotRecord(attempt, slot.ended, slot.failures))

    def ended(self, index: int, attempt: int, ran: float, *, failures: int | None = None) -> None:
        slot = self.slot(index)
        failures = slot.failures if failures is None else failures
        self._put(index, SlotRecord(max(slot.attempt, attempt), max(slot.ended, attempt), failures))
        self.seconds += ran

    def forgive(self, index: int) -> None:
        slot = self.slot(index)
        self._put(index, SlotRecord(slot.attempt, slot.ended, 0))

    def _put(self, index: int, slot: SlotRecord) -> None:
        for between in range(self._peak, index):
            self._slots.setdefault(between, NEVER)
        self._peak = max(self._peak, index + 1)
        self._slots[index] = slot

    def record(self) -> SlotHistory:
        slots = {index: slot for index, slot in sorted(self._slots.items()) if slot != USUAL and index not in self.done}
        new = SlotHistory(self._peak, slots, frozenset(self.done), self.failed, round(self.seconds, 1))
        return self._old if new == self._old else new


def to_status(role: str, record: SlotHistory) -> SlotMemory | None:
    """As it is kept in status, None if there is nothing to keep; `failed` and `seconds` have their own places there."""
    slots = record.slots
    memory = SlotMemory(
        role=role,
        peak=record.peak,
        done=indexes.text(record.done),
        pods={str(index): slot.attempt for index, slot in slots.items() if slot.attempt} or None,
        ended={str(index): slot.ended for index, slot in slots.items() if slot.ended >= 0} or None,
        failures={str(index): slot.failures for index, slot in slots.items() if slot.failures} or None,
    )
    return None if memory == SlotMemory(role=role) else memory


def from_status(memory: SlotMemory | None, *, failed: int = 0, seconds: float = 0.0) -> SlotHistory:
    if memory is None:
        return SlotHistory(failed=failed, seconds=seconds)
    pods, ended, failures = memory.pods or {}, memory.ended or {}, memory.failures or {}
    slots = {
        int(index): SlotRecord(pods.get(index, 0), ended.get(index, -1), failures.get(index, 0))
        for index in sorted({*pods, *ended, *failures}, key=_order)
        if index.isdigit()
    }
    return SlotHistory(memory.peak, slots, indexes.parse(memory.done, longest=_LONGEST_RANGE), failed, seconds)


def _order(index: str) -> tuple[int, str]:
    return len(index), index
