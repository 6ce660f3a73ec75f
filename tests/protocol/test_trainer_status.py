"""Updates of Hugging Face's Trainer, as transformers posts them, become reports of progress."""

from typing import Any

import msgspec
import pytest

from edl.protocol.progress import ProgressReport
from edl.protocol.trainer_status import TrainerStatusUpdate


def report(**status: Any) -> ProgressReport:
    metrics = [{"name": name, "value": value} for name, value in status.pop("metrics", {}).items()]
    body = {"trainerStatus": {"lastUpdatedTime": "2026-11-17T00:00:00+00:00", "metrics": metrics, **status}}
    return msgspec.json.decode(msgspec.json.encode(body), type=TrainerStatusUpdate).report()


def test_the_first_update_tells_the_total() -> None:
    assert report(progressPercentage=0, metrics={"total_steps": "40"}) == ProgressReport(total=40)


def test_an_update_on_the_way_tells_steps_loss_epoch_and_time_left() -> None:
    metrics = {"loss": "0.31", "learning_rate": "5e-05", "current_step": "12", "total_steps": "40"}
    got = report(progressPercentage=30, estimatedRemainingSeconds=61, metrics=metrics | {"current_epoch": "0.5"})
    assert got == ProgressReport(loss=0.31, done=12, total=40, epoch=0.5, left=61.0)


def test_the_last_update_has_no_steps_but_all_of_them_done() -> None:
    metrics = {"train_loss": "0.2", "train_samples_per_second": "99.5", "epoch": "3.0"}
    got = report(progressPercentage=100, estimatedRemainingSeconds=0, metrics=metrics)
    assert got == ProgressReport(throughput=99.5, loss=0.2, done=100, total=100, epoch=3.0, left=0.0)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "much", "", "1e400", "1e300", None])
def test_what_is_no_number_is_left_out(value: str | None) -> None:
    assert report(metrics={"loss": value, "current_step": value, "total_steps": "40"}) == ProgressReport(total=40)


def test_steps_below_zero_are_left_out() -> None:
    assert report(metrics={"current_step": "-3", "total_steps": "-1"}) == ProgressReport()


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"trainerStatus": 3}', b'{"trainerStatus": {"metrics": "x"}}', b"\xff"]
)
def test_a_body_of_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(body, type=TrainerStatusUpdate)
