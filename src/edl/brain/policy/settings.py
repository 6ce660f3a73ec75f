"""Thresholds of the policy, each named once. docs/concepts/brain.md explains them."""

import msgspec

from edl.protocol.job_facts import Limits


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # Bounds of any plan.
    max_workers: int = 60
    max_servers: int = 15
    max_cpu: float = 32.0
    max_memory: int = 65_536
    # Start-up of a job without similar past jobs.
    cold_workers: int = 2
    cold_servers: int = 1
    cold_cpu: float = 1.0
    cold_memory: int = 2048
    # Similar past jobs.
    similar: float = 0.5  # least similarity that counts
    neighbours: int = 20
    # The throughput curve.
    samples: int = 2  # at the present size before a decision
    stretch: float = 2.0  # factor beyond the largest size tried up to which the curve is trusted
    marginal: float = 0.2  # least that a further worker adds, as a share of the others' mean
    tolerance: float = 0.03  # throughput that may be given up to free workers
    worthwhile: float = 0.04  # least gain worth a change
    possible: float = 0.1  # least gain worth a change if it is merely plausible
    efficient: float = 0.9  # least efficiency, against fewer workers, at which a few more are probed
    pauses: float = 10.0  # least remaining time for a change, in units of its pause
    # Evaluation of plans.
    paid: float = 0.25  # of the promised gain
    patience: int = 8  # samples after which a gain that does not show is taken for none
    hold: float = 600.0  # seconds of back-off after a plan that did not pay; doubles each time
    # Parameter servers.
    hot: float = 0.8
    cold: float = 0.4
    memory_hot: float = 0.9
    largest_server: float = 16.0  # cores of one server; beyond, servers are added
    skew: float = 0.2
    # Memory.
    headroom: float = 1.5
    oom_factor: float = 2.0
    oom_step: int = 8192  # the most that one OOM adds
    # Giving back what is not used.
    trim_seconds: float = 3600.0

    def within(self, limits: Limits) -> "Settings":
        """With the smaller of each bound: what a job's trainer allows is never exceeded, nor raised by it."""
        given = {name: most for name in limits.__struct_fields__ if (most := getattr(limits, name)) is not None}
        return msgspec.structs.replace(self, **{name: min(most, getattr(self, name)) for name, most in given.items()})

    @property
    def limits(self) -> Limits:
        return Limits(self.max_workers, self.max_servers, self.max_cpu, self.max_memory)


DEFAULTS = Settings()
