"""What time and capacity are used for: the columns of the ledger. An instance is in one of them at every moment."""

from enum import StrEnum


class Use(StrEnum):
    """What an instance of a job does with its time."""

    WAITING = "waiting"
    """It was asked for and holds nothing: its job is in the queue, or its pod has no node."""
    STARTING = "starting"
    """It has its node, and its job has not trained with it yet."""
    TRAINING = "training"
    CHANGING = "changing"
    """Its job regroups after a change of members, or moves its state to those who joined."""
    RECOMPUTING = "recomputing"
    """Its job repeats steps that it had done before and lost."""
    IDLE = "idle"
    """It holds its node, and its job makes no progress, or has ended."""
    FAILED = "failed"
    """Its container has ended badly; its node is held until it is started again."""


HELD = tuple(use for use in Use if use is not Use.WAITING)
"""Those that occupy capacity."""


class CapacityUse(StrEnum):
    """What capacity of usable nodes is used for. The last four are free, and wanted by jobs that may not have them."""

    JOBS = "jobs"
    OTHERS = "others"
    FREE = "free"
    """And nobody whom EDL knows wants it."""
    FRAGMENTATION = "fragmentation"
    """Spread over nodes so that no wanted pod fits on one, or excluded by its own rules."""
    QUOTA = "quota"
    """A ResourceQuota, or the limits promised to pods, forbids it."""
    LOAD_CAP = "load_cap"
    """Kept free by the load cap of the scheduler."""
    FREEZING = "freezing"
    """Jobs that want it were resized a moment ago, or were held by the scheduler for another reason of time."""


UNUSABLE = (CapacityUse.FRAGMENTATION, CapacityUse.QUOTA, CapacityUse.LOAD_CAP, CapacityUse.FREEZING)
