"""The phases of a job: none -> creating -> running <-> scaling -> succeeded | failed. One pure step."""

from typing import Literal

import msgspec

Phase = Literal["", "creating", "running", "scaling", "succeeded", "failed"]
FINAL: tuple[Phase, ...] = ("succeeded", "failed")


class Facts(msgspec.Struct, frozen=True):
    """What decides about the phase.

    `held`: nothing should run (it waits for its turn, or is suspended). `at_minimum`: every minimum pod runs.
    `ready`: and is ready. `resized`: the target differs from the one before. `settled`: as many run as the target says,
    and nobody is leaving.
    """

    end: Literal["", "succeeded", "failed"] = ""
    held: bool = False
    at_minimum: bool = False
    ready: bool = True
    resized: bool = False
    settled: bool = True


def next_phase(old: str, facts: Facts) -> Phase:
    for final in FINAL:
        if old == final:
            return final
    if facts.end:
        return facts.end
    if facts.held:
        return "creating"
    if old not in ("running", "scaling") and not facts.at_minimum:
        return "creating"
    # A pod that was lost and is being replaced is no change of size: a running job keeps running.
    scaling = facts.resized or (old != "running" and not facts.settled)
    return "scaling" if scaling else "running"
