"""Start-up plans: from similar past jobs, and safely without any."""

from typing import Any

import msgspec
import pytest

from edl.brain.policy.past_jobs import JobSummary, PastJobs, PeakUsage
from edl.brain.policy.settings import DEFAULTS
from edl.brain.policy.startup import startup_plan
from edl.protocol.job_facts import Capacity, Features
from edl.protocol.resources import EVALUATOR, SERVER, WORKER, Resource
from tests.brain.simulated import Law, SimulatedJob, amdahl, roles, saturating

CTR = Features(program="python train_ctr.py", image="ctr:1", namespace="ads", records=1e6, batch=128, parameters=1e6)


def summary(job: str, features: Features, workers: int, *, time: float = 1.0, **more: Any) -> JobSummary:
    return JobSummary(job, time, features, roles(workers, 1), 100.0, **more)


def test_a_job_of_which_nothing_is_known_starts_small() -> None:
    plan = startup_plan(CTR, [], None, DEFAULTS)
    assert (plan.rule, plan.roles[WORKER].replicas, plan.roles[SERVER].replicas) == ("start-cold", 2, 1)
    assert plan.confidence == pytest.approx(0.1)
    assert EVALUATOR not in plan.roles


def test_a_large_model_gets_servers_that_can_hold_it() -> None:
    plan = startup_plan(Features(parameters=1e9), [], None, DEFAULTS)
    assert (plan.roles[SERVER].resource.memory or 0) > 1e9 * 12 / 2**20


@pytest.mark.parametrize("law", [saturating(6), saturating(11), amdahl(0.1, 0.02)], ids=["6", "11", "amdahl"])
def test_a_second_similar_job_starts_near_its_best_from_history_alone(law: Law) -> None:
    first = SimulatedJob(law, features=CTR)
    first.begin()
    first.run(40)
    past = PastJobs([first.summary("ads/first")])
    again = msgspec.structs.replace(CTR, image="ctr:2", records=1.5e6)
    second = SimulatedJob(law, features=again, seed=9)
    plan = second.begin(past.similar(again, DEFAULTS))
    started = law(second.workers, plan.roles)
    second.run(40)
    assert plan.rule == "start-similar"
    assert started >= 0.8 * max(law(record.plan.roles[WORKER].replicas, plan.roles) for record in second.plans)
    assert plan.confidence > 0.3


def test_what_is_not_alike_is_not_followed() -> None:
    past = PastJobs(
        [
            summary("a", Features(program="python resnet.py", image="vision", parameters=2.5e7, gpu=8), 32),
            summary("b", Features(strategy="ring-allreduce", program=CTR.program, image="ctr:1", namespace="ads"), 32),
        ]
    )
    assert past.similar(CTR, DEFAULTS) == []


def test_the_most_similar_goes_before_the_newest_and_failed_ones_teach_memory_only() -> None:
    near = summary("near", CTR, 6, time=1.0)
    far = summary("far", Features(program=CTR.program, records=1e8, batch=1024, parameters=1e6), 20, time=99.0)
    failed = summary("failed", CTR, 40, time=50.0, outcome="failed", peaks={WORKER: PeakUsage(1.0, 3000, 4096)})
    killed = summary("killed", CTR, 6, peaks={WORKER: PeakUsage(0.7, 3500, 4096)})
    past = PastJobs([far, failed, near, killed])
    found = past.similar(CTR, DEFAULTS)
    assert {each.job for _, each in found} >= {"near", "failed", "killed"}
    plan = startup_plan(CTR, found, None, DEFAULTS)
    assert plan.roles[WORKER].replicas == 6
    assert (plan.roles[WORKER].resource.memory or 0) > 4096, "one was killed with 4096"
    assert past.similar(CTR, DEFAULTS, excluding="near")[0][1].job != "near"


def test_a_later_lesson_of_a_job_replaces_the_earlier() -> None:
    past = PastJobs([summary("a", CTR, 4)])
    past.similar(CTR, DEFAULTS)
    past.add(summary("a", CTR, 9))
    assert len(past) == 1
    assert startup_plan(CTR, past.similar(CTR, DEFAULTS), None, DEFAULTS).roles[WORKER].replicas == 9


@pytest.mark.parametrize(
    ("capacity", "workers"),
    [(Capacity(cpu=4.0, memory=65536), 3), (Capacity(cpu=64.0, memory=8192), 3), (Capacity(), 1)],
    ids=["cores", "memory", "nothing"],
)
def test_a_start_fits_the_cluster(capacity: Capacity, workers: int) -> None:
    past = PastJobs([summary("a", CTR, 12)])
    plan = startup_plan(CTR, past.similar(CTR, DEFAULTS), capacity, DEFAULTS)
    assert plan.roles[WORKER].replicas == workers
    assert f"room for {workers} of 12 workers" in plan.reason


def test_devices_come_from_the_job_and_sizes_from_its_like() -> None:
    features = Features(strategy="ring-allreduce", program="torchrun train.py", gpu=2, evaluator=True)
    past = JobSummary("a", 1.0, features, roles(8), 10.0)
    plan = startup_plan(features, [(1.0, past)], None, DEFAULTS)
    assert plan.roles[WORKER].replicas == 8
    assert plan.roles[WORKER].resource == Resource(cpu=1.0, memory=2048, gpu=2)
    assert plan.roles[EVALUATOR].replicas == 1
    assert SERVER not in plan.roles
