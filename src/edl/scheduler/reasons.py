"""The vocabulary of reasons: stable codes for programs. The words with their numbers are made in `explain`."""

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
    NO_NODE = "NoNode"
    PROMISED = "LimitsPromised"
    LOAD = "LoadCap"
    QUOTA = "QuotaReached"
    REFUSED = "PodRefused"
    BACKOFF = "BackingOff"
    OVERTAKEN = "BehindOldest"
    ROOM_COMING = "RoomComing"
    NOT_WORTHWHILE = "NotWorthwhile"
    MOVED = "JustMoved"
    # it takes no part
    SUSPENDED = "Suspended"
    FINISHED = "Finished"
    DELETING = "Deleting"
    INVALID = "Invalid"


class Lack(msgspec.Struct, frozen=True, gc=False):
    """What stood in the way of more: the code, and where to look for its numbers."""

    code: Code
    role: int = 0
    placed: int = 0
    needed: int = 1
    account: int = -1
    other: str = ""
    seconds: float = 0.0
    words: str = ""
    """What was missing, if it had to be said at once because the numbers change within the cycle."""


AT_MAXIMUM = Lack(Code.AT_MAXIMUM)
