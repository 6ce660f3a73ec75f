"""What scripts of other frameworks say of their pace."""

import threading

import pytest

from edl.progress import Progress
from tests.runtime.harness import Service, until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_pace_since_the_last_report_is_told_now_and_then() -> None:
    told: list[dict[str, float]] = []
    clock = Clock()
    progress = Progress({}, every=5.0, tell=told.append, clock=clock)
    for step in range(1, 13):
        clock.now = float(step)
        progress.add(samples=20.0, loss=1.0 / step)
        until(lambda: not progress._busy() or None, "it is told")
    assert told == [{"throughput": 20.0, "loss": pytest.approx(0.2)}, {"throughput": 20.0, "loss": pytest.approx(0.1)}]


def test_under_torchrun_the_number_of_pods_that_train_is_told_too() -> None:
    told: list[dict[str, float]] = []
    progress = Progress({"GROUP_WORLD_SIZE": "3"}, every=0.0, tell=told.append, clock=iter((0.0, 2.0)).__next__)
    progress.add(samples=20.0)
    until(lambda: told or None, "it is told")
    assert told == [{"throughput": 10.0, "workers": 3}]


def test_a_slow_service_holds_nobody_up_and_loses_no_sample() -> None:
    told: list[dict[str, float]] = []
    answered, clock = threading.Event(), Clock()

    def slow(report: dict[str, float]) -> None:
        answered.wait(30)
        told.append(report)

    progress = Progress({}, every=1.0, tell=slow, clock=clock)
    for step in range(1, 5):
        clock.now = float(step)
        progress.add(samples=10.0)
    answered.set()
    until(lambda: not progress._busy() or None, "the first is told")
    clock.now = 5.0
    progress.add(samples=10.0)
    until(lambda: len(told) == 2 or None, "the second is told")
    assert told == [{"throughput": 10.0}, {"throughput": 10.0}]


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
