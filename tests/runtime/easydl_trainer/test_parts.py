"""The small parts of a trainer: features, the meter, pods as the service tells of them, names, usage."""

import os
import threading
from typing import Any

import pytest

from edl.protocol.job_facts import OOM, Features, PodUsage
from edl.protocol.job_state import JobView, RoleView
from edl.protocol.pods import readable
from edl.protocol.slots import Slot
from edl.runtime.easydl_trainer.features import extract
from edl.runtime.easydl_trainer.pod_report import read
from edl.runtime.easydl_trainer.renamed_service import RenamedService
from edl.runtime.easydl_trainer.throughput import Meter, TrainingSnapshot
from edl.runtime.service_client import ServiceDownError
from edl.runtime.usage import Meter as UsageMeter
from edl.runtime.usage import memory, start_reporting


def container(*command: str, **more: Any) -> dict[str, Any]:
    return {"spec": {"worker": {"template": {"spec": {"containers": [{"command": list(command), **more}]}}}}}


@pytest.mark.parametrize(
    ("reported", "features"),
    [
        ({}, Features(namespace="ns")),
        ({"spec": 3, "annotations": []}, Features(namespace="ns")),
        (
            container("python", "-m", "model_zoo.iris", "--batch_size=32", "--training_steps=1000", image="i"),
            Features(
                program="python -m model_zoo.iris --batch_size --training_steps", image="i", namespace="ns", batch=32
            ),
        ),
        (
            container("sh", "-c", "EPOCHS=3 python t.py --batch-size 64"),
            Features(program="EPOCHS python t.py --batch-size", namespace="ns", batch=64, epochs=3),
        ),
        (
            container("t", resources={"limits": {"nvidia.com/gpu": "2"}}),
            Features(program="t", namespace="ns", gpu=2),
        ),
        (
            {"spec": {"distributionStrategy": "AllreduceStrategy", "evaluator": {"restartCount": 1}}},
            Features(strategy="ring-allreduce", namespace="ns", evaluator=True),
        ),
    ],
)
def test_features_are_read_off_the_jobs_own_words(reported: dict[str, Any], features: Features) -> None:
    assert extract(reported.get("spec"), "ns") == features


def test_only_stretches_in_which_nobody_came_or_went_count() -> None:
    meter, two, three = Meter(settle=2.0, least=5.0), frozenset("ab"), frozenset("abc")
    for second in range(5):
        meter.observe(TrainingSnapshot(10.0 * second, two), float(second))
    assert meter.cut(TrainingSnapshot(40.0, two), 4.0) is None, "too short: the first seconds do not count"
    stretch = meter.cut(TrainingSnapshot(100.0, two), 10.0)
    assert stretch is not None
    assert (stretch.workers, stretch.seconds, stretch.throughput) == (2, 8.0, 10.0)
    meter.observe(TrainingSnapshot(110.0, three), 11.0)
    assert meter.cut(TrainingSnapshot(150.0, three), 15.0) is None
    meter.observe(TrainingSnapshot(150.0, three, stopped=True), 16.0)
    for second in range(17, 22):
        meter.observe(TrainingSnapshot(30.0 * second, three), float(second))
    assert meter.cut(TrainingSnapshot(900.0, three), 30.0) is not None


def test_a_stretch_of_few_reports_is_measured_longer_but_not_for_ever() -> None:
    meter, four = Meter(settle=0.0, least=2.0), frozenset("abcd")
    meter.observe(TrainingSnapshot(0.0, four), 0.0)
    meter.observe(TrainingSnapshot(0.0, four, reports=5), 1.0)
    assert meter.cut(TrainingSnapshot(190.0, four, reports=28), 3.0) is None, "whole reports are too much of it"
    stretch = meter.cut(TrainingSnapshot(240.0, four, reports=29), 5.0)
    assert stretch is not None
    assert (stretch.seconds, stretch.throughput) == (4.0, 60.0)
    assert meter.cut(TrainingSnapshot(250.0, four, reports=30), 44.0) is None
    assert meter.cut(TrainingSnapshot(260.0, four, reports=31), 45.0) is not None, "rare reports are all there is"
    assert meter.cut(TrainingSnapshot(270.0, four, reports=32), 46.0, least=1.0) is not None, (
        "the last one is what it is"
    )


def test_pods_are_read_as_far_as_they_make_sense() -> None:
    reported = [
        {"name": "j-worker-0", "role": "worker", "index": 0, "state": "running", "resources": {"cpu": 2, "memory": 512},
         "usage": {"cpu": 1.5, "memory": 300, "age": 3}},
        {"name": "j-worker-1", "role": "worker", "index": 1, "state": "running", "usage": {"cpu": 9, "age": 999}},
        {"name": "j-worker-2", "role": "worker", "index": 2, "state": "running", "leaving": True},
        {"name": "j-worker-3", "role": "worker", "index": 3, "state": "failed", "oom": True,
         "resources": {"memory": 64}},
        {"name": "j-worker-4", "role": "worker", "index": 4, "state": "lost", "reason": "NodeLost"},
        {"name": "j-worker-5", "role": "worker", "index": 5, "state": "succeeded"},
        {"name": "j-worker-6", "role": "worker", "index": 6, "state": "pending"},
        {"name": "j-trainer", "role": "trainer", "state": "running"},
        "rubbish",
    ]  # fmt: skip
    pods = read(readable(reported), 7.0)
    assert pods.running == {"worker": 2}
    assert pods.uses == {"worker-0": PodUsage(1.5, 300, 2.0, 512)}
    assert {name: (each.slot, each.reason, each.memory) for name, each in pods.failed.items()} == {
        "j-worker-3": ("worker-3", OOM, 64),
        "j-worker-4": ("worker-4", "NodeLost", 0),
    }
    assert (pods.finished, pods.alive) == (1, 4)
    assert read(readable("rubbish"), 0.0).running == {}


def test_the_master_in_a_trainer_knows_its_job_by_its_own_names() -> None:
    class Inner:
        def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot:
            return Slot(role, index or 0, 1)

        def job(self, after: str = "", wait: float = 0.0) -> JobView:
            return JobView(roles={"trainer": RoleView(1), "ps": RoleView(2), "worker": RoleView(3)})

    service = RenamedService(Inner())  # type: ignore[arg-type]
    assert service.claim("master", 0, "h").fence == "trainer/0/1"
    assert service.job() == JobView(roles={"master": RoleView(1), "pserver": RoleView(2), "worker": RoleView(3)})
    assert service.slot == Slot("trainer", 0, 1)


def test_a_process_tells_what_it_uses_until_it_is_over() -> None:
    assert 5 < memory() < 10_000
    reported: list[tuple[str, float, int]] = []
    over, heard = threading.Event(), threading.Event()

    class Ear:
        def usage(self, pod: str, cpu: float, memory: int) -> None:
            reported.append((pod, cpu, memory))
            if len(reported) >= 2:
                heard.set()
                over.set()
            else:
                raise ServiceDownError("does not matter")

    start_reporting(Ear(), "p", 0.01, over=over)
    assert heard.wait(30)
    assert {pod for pod, *_ in reported} == {"p"}
    meter, until = UsageMeter(), sum(os.times()[:2]) + 0.05
    while sum(os.times()[:2]) < until:  # something to measure
        pass
    assert meter.sample()[0] > 0
