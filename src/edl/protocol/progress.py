"""Progress of a job's training, as its pods report it and as the job service shows the last report."""

import msgspec

LOG = "log"
"""The source of a report that somebody read out of log lines: it counts as long as nobody who knows has reported."""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """Any subset; what was never reported is None."""

    throughput: float | None = None
    """Samples per second."""
    workers: int | None = None
    """How many train at this pace together."""
    loss: float | None = None
    pass_index: int | None = msgspec.field(name="pass", default=None)
    passes: int | None = None
    done: int | None = None
    """Steps, or tasks of the queue, that are done."""
    total: int | None = None
    """Of all passes together."""
    pause: float | None = None
    """Seconds that the last change of size stopped training."""
    epoch: float | None = None
    left: float | None = None
    """Seconds to the end."""
    span: float | None = None
    """Seconds that `throughput` is the mean of, up to now. Who names `workers` beside it means that there were so many
    all the while."""
    nodes: int | None = None
    """On how many nodes the workers are, where the reporter knows better than the operator."""
    batch: int | None = None
    """Samples of one step, of all workers and passes of accumulation together."""
    tuned_batch: int | None = None
    """The batch that the script was tuned for; samples of larger ones are worth less (`noise`)."""
    noise: float | None = None
    """The gradient noise scale: the batch, in samples, at which noise and gradient weigh the same."""

    @property
    def said(self) -> bool:
        """Whether it has any figure in it; a bare sign of life has none."""
        return any(getattr(self, field) is not None for field in Progress.__struct_fields__)

    @property
    def percent(self) -> int | None:
        if self.done is None or not self.total or self.total < 0:
            return None
        return max(0, min(100, 100 * self.done // self.total))

    def updated(self, newer: "Progress") -> "Progress":
        news = {field: value for field in Progress.__struct_fields__ if (value := getattr(newer, field)) is not None}
        return msgspec.structs.replace(self, **news)


class ProgressReport(Progress, frozen=True, omit_defaults=True):
    """The body of POST /progress. `pod` is who reports; one that names itself must not fall silent."""

    pod: str = ""
    source: str = ""


class LastProgress(Progress, frozen=True, omit_defaults=True):
    """Everything reported so far; `age` is how many seconds ago the last report came."""

    age: float = msgspec.field(default_factory=float)  # a factory's value is encoded even where it is the default
    rate: float | None = None
    """Steps or tasks per second of late."""
    mean: float | None = None
    """Samples per second from the first report to the last."""
    seconds: float | None = None
    """From the first report to the last."""
    idle: float | None = None
    """Seconds since the reports last showed that anything was done."""
