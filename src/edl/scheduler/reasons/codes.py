"""Reason codes, stable for programs. `explain` makes the sentences with numbers for people."""

from enum import StrEnum

import msgspec


class Code(StrEnum):
    # it got instances
    STARTED = "Started"
    GROWN = "Grown"
    SCALED = "Scaled"
    GRANTED = "Granted"
    OPTIMISTIC = "StartedOptimistically"
    # it gave instances up
    MADE_ROOM = "MadeRoom"
    EVENED = "EvenedOut"
    YIELDED = "Yielded"
    FASTER = "FasterSmaller"
    GATHERED = "Gathered"
    ABOVE_MAXIMUM = "AboveMaximum"
    WITHDRAWN = "Withdrawn"
    UNPLACEABLE = "Unplaceable"
    # it keeps its size, or waits, because
    AT_MAXIMUM = "AtMaximum"
    FIXED = "NotElastic"
    PINNED = "Pinned"
    PAUSED = "Paused"
    FROZEN = "Frozen"
    FINISHING = "Finishing"
    NO_ROOM = "NoRoom"
    PROMISED = "LimitsPromised"
    LOAD = "LoadCap"
    QUOTA = "QuotaReached"
    REFUSED = "PodRefused"
    BACKOFF = "BackingOff"
    OVERTAKEN = "BehindOldest"
    ROOM_COMING = "RoomComing"
    NOT_WORTHWHILE = "NotWorthwhile"
    MOVED = "JustMoved"
    STARTING = "JustStarted"
    # it takes no part
    SUSPENDED = "Suspended"
    FINISHED = "Finished"
    DELETING = "Deleting"
    INVALID = "Invalid"


class Blocker(msgspec.Struct, frozen=True, gc=False):
    """What keeps a unit from growing or starting: the code, and where to look for its numbers."""

    code: Code
    role: int = 0
    placed: int = 0
    needed: int = 1
    axis: int = 0
    """Of available limits (PROMISED): 0 for CPU, 1 for memory."""
    quota_line: int = -1
    detail: str = ""
    seconds: float = 0.0
    message: str = ""
    """The finished message, where it is made at once because its numbers change within the cycle."""


AT_MAXIMUM = Blocker(Code.AT_MAXIMUM)
