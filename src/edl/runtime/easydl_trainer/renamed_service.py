"""The job service under the role names that a master knows.

In an EasyDL job the pod that gives out tasks is called trainer and parameter servers ps; to the master in it they are
`master` and `pserver`, as in a TrainingJob. This is the only place where the two vocabularies meet.
"""

from collections.abc import Callable

import msgspec

from edl.protocol.job_state import JobView
from edl.protocol.progress import ProgressReport
from edl.protocol.slots import Slot
from edl.runtime.service_client import ServiceClient

JOB_NAMES = {"master": "trainer", "pserver": "ps"}
MASTER_NAMES = {ours: theirs for theirs, ours in JOB_NAMES.items()}


class RenamedService:
    """A job service for `Master`."""

    def __init__(self, service: ServiceClient) -> None:
        self._service = service
        self.slot: Slot | None = None  # that the master took

    def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot:
        slot = self._service.claim(JOB_NAMES.get(role, role), index, holder, address)
        if role == "master":
            self.slot = slot
        return slot

    def get(self, key: str) -> tuple[bytes, int] | None:
        return self._service.get(key)

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int:
        return self._service.put(key, data, version=version, slot=slot, stop=stop)

    def job(self, after: str = "", wait: float = 0.0) -> JobView | None:
        found = self._service.job(after, wait)
        if found is None:
            return None
        roles = {MASTER_NAMES.get(role, role): view for role, view in found.roles.items()}
        return msgspec.structs.replace(found, roles=roles)

    def progress(self, report: ProgressReport) -> None:
        self._service.progress(report)

    def close(self) -> None:
        self._service.close()
