"""Every threshold of the policy, named once. The defaults are meant to be good; docs/brain.md says what each is for."""

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # Bounds of any plan.
    max_workers: int = 60
    max_servers: int = 15
    max_cpu: float = 32.0
    max_memory: int = 65_536
    # What a job gets of which nothing is known.
    cold_workers: int = 2
    cold_servers: int = 1
    cold_cpu: float = 1.0
    cold_memory: int = 2048
    # Similar past jobs.
    similar: float = 0.5  # least similarity that counts
    neighbours: int = 20
    # The throughput curve.
    samples: int = 2  # at the present size before anything is decided by it
    stretch: float = 2.0  # how far beyond the largest size tried the curve is believed
    marginal: float = 0.2  # a further worker must bring this share of what the others bring each
    tolerance: float = 0.03  # throughput that may be given up to free workers
    worthwhile: float = 0.04  # a gain below this share is not worth a change
    possible: float = 0.1  # nor one below this that the noise only does not exclude
    efficient: float = 0.9  # a few more are worth a try while workers bring this share of what fewer did each
    pauses: float = 10.0  # a change must have this many of its own pauses left to pay in
    # Did it pay.
    paid: float = 0.25  # of the promised gain
    patience: int = 8  # samples after which a plan that did not show its gain had none
    hold: float = 600.0  # seconds until what did not pay may be tried again; doubles each time
    # Parameter servers.
    hot: float = 0.8
    cold: float = 0.4
    memory_hot: float = 0.9
    largest_server: float = 16.0  # cores before there are rather more servers
    skew: float = 0.2
    # Memory.
    headroom: float = 1.5
    oom_factor: float = 2.0
    oom_step: int = 8192  # the most that one OOM adds
    # Giving back what is not used.
    trim_seconds: float = 3600.0


DEFAULTS = Settings()
