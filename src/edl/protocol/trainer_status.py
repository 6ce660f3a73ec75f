"""Progress as Hugging Face's Trainer posts it by itself where a server for it is named in its environment.

The body is `{"trainerStatus": {"progressPercentage", "estimatedRemainingSeconds", "metrics": [{"name", "value"}]}}`,
values are text. What a script logs beside the known names is ignored.
"""

import math

import msgspec

from edl.protocol.progress import ProgressReport

_LARGEST = 2.0**53


class Metric(msgspec.Struct, frozen=True):
    name: str = ""
    value: str | float | None = None


class TrainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    progress_percentage: float | None = None
    estimated_remaining_seconds: float | None = None
    metrics: list[Metric] = []


class TrainerStatusUpdate(msgspec.Struct, frozen=True, rename="camel"):
    """The body of POST /trainer-status."""

    trainer_status: TrainerStatus

    def report(self) -> ProgressReport:
        """A share of 100 % means that every step is done: the last update does not repeat the steps."""
        status = self.trainer_status
        known = {metric.name: _number(metric.value) for metric in status.metrics}
        done, total = _whole(known.get("current_step")), _whole(known.get("total_steps"))
        if total is None and status.progress_percentage is not None:
            percent = max(0.0, min(100.0, status.progress_percentage))
            done, total = (int(percent), 100) if done is None else (done, None)
        return ProgressReport(
            throughput=known.get("train_samples_per_second"),
            loss=known.get("loss", known.get("train_loss")),
            done=done,
            total=total,
            epoch=known.get("current_epoch", known.get("epoch")),
            left=_number(status.estimated_remaining_seconds),
        )


def _number(value: str | float | None) -> float | None:
    try:
        number = float(value if value is not None else "nan")
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) <= _LARGEST else None


def _whole(value: float | None) -> int | None:
    return None if value is None or value < 0 else int(value)
