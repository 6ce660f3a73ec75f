"""Progress that scripts of other frameworks report."""

import sys
import threading
import types
from typing import Any

import pytest

from edl.progress import Progress, Report, lightning_callback
from tests.runtime.harness import Service, until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_pace_since_the_last_report_is_told_now_and_then() -> None:
    reported: list[Report] = []
    clock = Clock()
    progress = Progress({}, every=5.0, send=reported.append, clock=clock)
    for step in range(1, 13):
        clock.now = float(step)
        progress.add(samples=20.0, loss=1.0 / step)
        until(lambda: not progress._busy() or None, "it is told")
    assert [report.throughput for report in reported] == [20.0, 20.0]
    assert [report.loss for report in reported] == [pytest.approx(0.2), pytest.approx(0.1)]


def test_under_torchrun_the_number_of_pods_that_train_is_told_too() -> None:
    reported: list[Report] = []
    progress = Progress({"GROUP_WORLD_SIZE": "3"}, every=0.0, send=reported.append, clock=iter((0.0, 2.0)).__next__)
    progress.add(samples=20.0)
    until(lambda: reported or None, "it is told")
    assert reported == [Report(throughput=10.0, span=2.0, workers=3)]


def test_a_slow_service_holds_nobody_up_and_loses_no_sample() -> None:
    reported: list[Report] = []
    answered, clock = threading.Event(), Clock()

    def slow(report: Report) -> None:
        answered.wait(30)
        reported.append(report)

    progress = Progress({}, every=1.0, send=slow, clock=clock)
    for step in range(1, 5):
        clock.now = float(step)
        progress.add(samples=10.0)
    answered.set()
    until(lambda: not progress._busy() or None, "the first is told")
    clock.now = 5.0
    progress.add(samples=10.0)
    until(lambda: len(reported) == 2 or None, "the second is told")
    assert reported == [Report(throughput=10.0, span=1.0), Report(throughput=10.0, span=4.0)]


def test_in_a_pod_the_job_service_knows_and_one_that_is_away_costs_nothing() -> None:
    service = Service()
    try:
        env = {"EDL_JOB_NAMESPACE": "ns", "EDL_JOB_NAME": "j", "EDL_JOB_TOKEN": "secret"}
        progress = Progress(env | {"EDL_SERVICE_URL": f"http://127.0.0.1:{service.port}"}, every=0.0)
        progress.add(samples=10.0, loss=0.5)
        found, _ = until(service.progress, "a report")
        assert found.loss == 0.5
        service.down()
        until(lambda: not progress._busy() or None, "it is told")
        progress.add(samples=10.0)
        until(lambda: not progress._busy() or None, "nobody answers")
        service.up()
    finally:
        service.close()
    Progress({}, every=0.0).add(samples=1.0)  # outside of a pod: nobody is told


def test_steps_are_counted_from_the_checkpoint_on_and_told_soon() -> None:
    reported: list[Report] = []
    clock = Clock()
    progress = Progress({}, total=100, done=40, every=5.0, send=reported.append, clock=clock)
    for second in (0.5, 1.0, 2.0):
        clock.now = second
        progress.add(samples=8.0, loss=0.5, epoch=1.5)
        until(lambda: not progress._busy() or None, "it is told")
    assert reported == [Report(loss=0.5, done=42, total=100, epoch=1.5)]


def test_the_last_figures_are_told_at_the_end() -> None:
    reported: list[Report] = []
    clock = Clock()
    progress = Progress({}, total=3, every=60.0, send=reported.append, clock=clock)
    for second in (0.1, 0.2, 0.4):
        clock.now = second
        progress.add(samples=2.0, loss=second)
    progress.close()
    assert reported == [Report(throughput=15.0, span=0.4, loss=0.4, done=3, total=3)]


class Tensor:
    """Reading a tensor waits for the device."""

    read = 0

    def __float__(self) -> float:
        Tensor.read += 1
        return 0.5


def test_a_loss_is_read_only_when_it_is_told() -> None:
    reported: list[Report] = []
    clock = Clock()
    progress = Progress({}, total=1000, every=5.0, send=reported.append, clock=clock)
    for step in range(100):
        clock.now = step * 0.04
        progress.add(loss=Tensor())
    until(lambda: reported or None, "it is told")
    assert (Tensor.read, reported[0].loss) == (1, 0.5)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_not_told(loss: float) -> None:
    reported: list[Report] = []
    progress = Progress({}, total=2, every=0.0, send=reported.append)
    progress.add(loss=loss)
    progress.close()
    assert reported[-1].loss is None


class Callback:
    """As Lightning's: methods that its trainer calls."""

    def on_train_batch_end(self, *details: Any) -> None: ...

    def on_train_end(self, *details: Any) -> None: ...


class LightningTrainer:
    is_global_zero, estimated_stepping_batches, global_step, current_epoch = True, 10, 3, 1


def test_a_callback_reports_for_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = types.ModuleType("lightning.pytorch")
    monkeypatch.setattr(lightning, "Callback", Callback, raising=False)
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", lightning)
    reported: list[Report] = []
    callback = lightning_callback(Progress({}, total=10, done=2, every=60.0, send=reported.append))
    assert isinstance(callback, Callback)
    callback.on_train_batch_end(LightningTrainer(), None, {"loss": 0.25}, None, 2)
    callback.on_train_end(LightningTrainer(), None)
    assert reported == [Report(loss=0.25, done=3, total=10, epoch=1.0)]
