"""The trainer's loop without processes: where it leads a job, what it does when things fail, killed at every step."""

import itertools
import logging
from typing import Any

import msgspec
import pytest

from edl.brain.client import BrainDownError, BrainRefusalError
from edl.brain.policy.settings import DEFAULTS
from edl.protocol.brain import Answer, Ask, Beginning, Ending, Report
from edl.protocol.job_facts import Features, PlanEvaluation, PodUsage, ResourcePlan
from edl.protocol.plans import ClusterCapacity, JobSpec
from edl.protocol.pods import PodReport, ReportedUsage
from edl.protocol.progress import LastProgress
from edl.protocol.resources import Resource, RolePlan
from edl.runtime.easydl_trainer.advisor import Advisor
from edl.runtime.easydl_trainer.plan_spec import InvalidPlanError, check, spec_of
from edl.runtime.easydl_trainer.planner import Planner
from edl.runtime.easydl_trainer.pod_report import PodSummary
from edl.runtime.easydl_trainer.state import decode
from edl.runtime.easydl_trainer.training_progress import TrainingProgress
from edl.runtime.service_client import StaleEpochError
from edl.runtime.tasks.progress import Progress
from edl.runtime.tasks.shared_state import SharedState
from tests.runtime.easydl_trainer.fake_service import FakeService, FakeTraining, KilledError, period, planner


def law(workers: int) -> float:
    return 10.0 * min(workers, 6)


def sizes(service: FakeService) -> list[int]:
    return [spec["worker"]["replicas"] for spec in service.posted]


def run(service: FakeService, training: FakeTraining, advisor: Advisor | None = None, periods: int = 16) -> Planner:
    made = planner(service, training, advisor)
    made.begin()
    for _ in range(periods):
        period(made, service, training)
        service.kill_for_memory()
    return made


def test_a_trainer_without_a_brain_leads_its_job_by_local_rules_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    service = FakeService()
    made = run(service, FakeTraining(service, law))
    assert sizes(service) == [2, 4, 8, 6]
    assert "plans are made by local rules" in caplog.text
    assert {record.source for record in made.state.plans} == {"local"}
    assert made.state.features == Features(
        program="python train.py --batch_size", image="ctr:1", namespace="ns", batch=32, records=5000
    )
    assert made.reason


def test_a_worker_killed_for_want_of_memory_is_looked_at_at_once_and_gets_more() -> None:
    service = FakeService()
    service.mine = 6000
    training = FakeTraining(service, lambda workers: law(workers) if service.enough else 0.0)
    made = planner(service, training)
    made.begin()
    service.kill_for_memory()
    before = training.now
    period(made, service, training)
    assert training.now - before < 3, "it did not wait for its period"
    for _ in range(6):
        service.kill_for_memory()
        period(made, service, training)
    memories = [spec["worker"]["resource"]["memory"] for spec in service.posted]
    assert memories[0] == 2048
    assert memories[-1] == 8192
    assert len(service.killed_pods) == 2
    larger = [after > before for before, after in itertools.pairwise(memories)]
    assert service.urgent == [False, *larger], "an answer to a lack of memory waits for no freezing window"


STEPS = [
    "get 1",
    "spec 1",
    "plan 1",
    "put 1",
    "post 1",
    "put 2",
    "put 3",
    "put 4",
    "plan 4",
    "post 2",
    "post 3",
    "put 8",
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_trainer_killed_at_any_step_is_followed_by_one_that_does_the_same(step: str, when: str) -> None:
    if when == "after" and not step.startswith(("put", "post")):
        when = "before"  # a question has no effect that could be lost
    service = FakeService()
    training = FakeTraining(service, law)
    service.kill_at = f"{step} {when}"
    made, killed = planner(service, training), 0
    alive = False
    for _ in range(17):
        try:
            if not alive:
                made.begin()
                alive = True
            period(made, service, training)
        except KilledError:
            killed += 1
            service.epoch += 1
            made, alive = planner(service, training), False
    assert killed == 1
    assert sizes(service) == [2, 4, 8, 6], "no plan is lost, none is made twice"
    numbers = [record.number for record in made.state.plans]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_trainer_that_was_replaced_ends_at_its_next_write() -> None:
    service = FakeService()
    training = FakeTraining(service, law)
    old = planner(service, training)
    old.begin()
    service.epoch += 1
    new = planner(service, training)
    new.begin()
    period(new, service, training)
    training.advance(30.0)
    with pytest.raises(StaleEpochError):
        old.update()


def test_the_service_away_for_a_while_loses_nothing() -> None:
    service = FakeService()
    training = FakeTraining(service, law)
    made = run(service, training, periods=3)
    service.down = True
    for _ in range(4):
        training.advance(30.0)
        made.update_safely()
    service.down = False
    for _ in range(20):
        period(made, service, training)
    assert sizes(service)[-1] == 6


def test_nothing_new_is_asked_while_a_plan_is_being_carried_out() -> None:
    service = FakeService()
    training = FakeTraining(service, law)
    service.settled = False
    made = run(service, training, periods=5)
    assert sizes(service) == [2]
    assert "is being carried out" in made.reason
    service.mine = 4000
    service.kill_for_memory()
    period(made, service, training)
    assert len(service.posted) == 2, "but for want of memory at once"
    service.settled = True
    for _ in range(20):
        period(made, service, training)
    assert sizes(service)[-1] == 6


def test_a_plan_that_is_granted_in_part_is_lived_with() -> None:
    service = FakeService()
    service.grant = lambda wanted: min(wanted, 3)
    made = run(service, FakeTraining(service, law), periods=12)
    assert max(sizes(service)) <= 4
    assert "grants 3" in made.reason


def test_nobody_asks_for_more_than_the_cluster_has() -> None:
    service = FakeService()
    service.capacity = ClusterCapacity(cpu=5.5, memory=100_000, gpu=0)
    made = run(service, FakeTraining(service, law), periods=12)
    assert sizes(service) == [2, 4], "a core is the parameter server's"
    assert "room for 0 more" in made.reason


def test_a_job_ruled_by_hand_is_only_watched(caplog: pytest.LogCaptureFixture) -> None:
    service = FakeService()
    training = FakeTraining(service, law)
    made = run(service, training, periods=1)
    service.ruled = "JobResource by-hand"
    for _ in range(8):
        period(made, service, training)
    assert "this trainer only watches" in caplog.text
    assert made.state.samples, "it goes on measuring"


def test_a_jobresource_that_somebody_deleted_is_posted_again() -> None:
    service = FakeService()
    training = FakeTraining(service, law)
    made = run(service, training, periods=1)
    service.posted.clear()
    period(made, service, training)
    assert sizes(service) == [2]


# The Brain.


class FakeBrain:
    """Answers as it is told; `calls` are what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, list[tuple[str, Any]]()
        self.known = True

    def begin(self, job: str, beginning: Beginning) -> Answer:
        self.calls.append(("begin", beginning))
        self.known = True
        return self._say(
            ResourcePlan("start-similar", "as another", {"worker": RolePlan(5, BIG), "ps": RolePlan(1, BIG)})
        )

    def plan(self, job: str, ask: Ask) -> Answer:
        self.calls.append(("plan", ask))
        if not self.known:
            raise BrainRefusalError(404, "no-such-job", "no such job")
        return self._say(None)

    def report(self, job: str, report: Report) -> None:
        self.calls.append(("report", report))
        self._say(None)

    def end(self, job: str, ending: Ending) -> None:
        self.calls.append(("end", ending))

    def _say(self, plan: ResourcePlan | None) -> Answer:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, Answer) else Answer("fine", plan)


BIG = Resource(cpu=1.0, memory=4096)
TROUBLES = [
    pytest.param(BrainDownError("TimeoutError: timed out"), id="slow or absent"),
    pytest.param(BrainDownError("the Brain at http://b answers what makes no sense: ..."), id="garbage"),
    pytest.param(BrainRefusalError(401, "unauthorized", "the token has expired"), id="expired token"),
    pytest.param(BrainRefusalError(403, "foreign", "this token is for a/b"), id="foreign token"),
    pytest.param(Answer("?", ResourcePlan("x", "y", {})), id="no roles"),
    pytest.param(Answer("?", ResourcePlan("x", "y", {"worker": RolePlan(0), "ps": RolePlan(1)})), id="no workers"),
    pytest.param(
        Answer("?", ResourcePlan("x", "y", {"worker": RolePlan(10**5), "ps": RolePlan(1)})), id="absurdly many"
    ),
    pytest.param(
        Answer("?", ResourcePlan("x", "y", {"worker": RolePlan(2, Resource(cpu=0.0)), "ps": RolePlan(1)})), id="no cpu"
    ),
    pytest.param(
        Answer("?", ResourcePlan("x", "y", {"worker": RolePlan(2), "ps": RolePlan(1)}, {"cat": Resource()})), id="cat"
    ),
]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_brain_that_is_absent_or_wrong_is_not_followed(trouble: Any, caplog: pytest.LogCaptureFixture) -> None:
    service, brain = FakeService(), FakeBrain(trouble)
    made = run(service, FakeTraining(service, law), Advisor(lambda: brain, "ns/j/u"), 12)  # type: ignore[arg-type,return-value]
    assert sizes(service) == [2, 4, 8, 6]
    assert "the Brain is not followed" in caplog.text
    assert {record.source for record in made.state.plans} == {"local"}


def test_a_brain_is_followed_told_everything_once_and_again_after_it_was_away() -> None:
    service, brain = FakeService(), FakeBrain(None)
    training = FakeTraining(service, law)
    made = run(service, training, Advisor(lambda: brain, "ns/j/u"), 3)  # type: ignore[arg-type,return-value]
    assert sizes(service) == [5]
    assert [record.source for record in made.state.plans] == ["brain"]
    told = [sample.time for kind, ask in brain.calls if kind == "plan" for sample in ask.samples]
    assert told == sorted(set(told)), "each sample once"
    brain.answer = BrainDownError("gone for a while")
    for _ in range(3):
        period(made, service, training)
    brain.answer, brain.known = None, False  # it is back, with nothing
    brain.calls.clear()
    period(made, service, training)
    assert [kind for kind, _ in brain.calls] == ["plan", "begin", "plan"]
    assert len(brain.calls[-1][1].samples) == len(made.state.samples), "it is told all that is known"
    assert brain.calls[-1][1].plans == made.state.plans[: len(brain.calls[-1][1].plans)]


def test_a_token_that_has_expired_is_asked_for_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    service = FakeService()
    expired, fresh = FakeBrain(BrainRefusalError(401, "unauthorized", "the token has expired")), FakeBrain(None)
    found = [expired, fresh]
    training = FakeTraining(service, law)
    made = run(service, training, Advisor(lambda: found.pop(0), "ns/j/u"), 1)  # type: ignore[arg-type,return-value]
    assert "the Brain is not followed (401 unauthorized: the token has expired)" in caplog.text
    assert "the Brain answers again" in caplog.text
    assert [kind for kind, _ in fresh.calls] == ["plan"]
    assert made.state.plans[0].source == "local"


def test_an_evaluation_is_kept_with_its_plan() -> None:
    service, brain = FakeService(), FakeBrain(Answer("fine", None, PlanEvaluation(1, 42.0, "paid")))
    training = FakeTraining(service, law)
    made = run(service, training, Advisor(lambda: None, "ns/j/u"), 0)
    made.advisor = Advisor(lambda: brain, "ns/j/u")  # type: ignore[arg-type,return-value]
    period(made, service, training)
    assert (made.state.plans[0].obtained, made.state.plans[0].verdict) == (42.0, "paid")
    assert decode(service.values["trainer"][0]) == made.state


def test_also_a_job_that_was_too_short_for_a_look_teaches_the_next_one() -> None:
    service, brain = FakeService(), FakeBrain(None)
    training = FakeTraining(service, law)
    made = run(service, training, Advisor(lambda: brain, "ns/j/u"), 0)  # type: ignore[arg-type,return-value]
    for _ in range(10):
        training.advance(1.0)
        made.tick()
    brain.calls.clear()
    made.conclude("succeeded")
    (_, report), (_, ending) = brain.calls
    assert [sample.throughput for sample in report.samples] == [pytest.approx(50.0)]
    assert [record.number for record in report.plans] == [1]
    assert ending == Ending("succeeded")
    brain.answer = BrainDownError("gone")
    made.conclude("succeeded")  # nobody to tell: no harm


# Plans on their way.


def test_a_plan_as_the_job_service_takes_it() -> None:
    plan = ResourcePlan(
        "r",
        "w",
        {"worker": RolePlan(3, Resource(cpu=1.5, memory=512)), "ps": RolePlan(2), "evaluator": RolePlan(1)},
        {"ps-1": Resource(memory=4096)},
    )
    assert spec_of(plan, "j") == {
        "worker": {"replicas": 3, "resource": {"cpu": 1.5, "memory": 512}},
        "parameter_server": {"replicas": 2, "resource": {}},
        "evaluator": {"replicas": 1, "resource": {}},
        "resource_updation": [{"name": "j-ps-1", "resource": {"memory": 4096}}],
    }


def test_memory_is_never_taken_from_under_a_pod() -> None:
    plan = ResourcePlan("r", "w", {"worker": RolePlan(3, Resource(memory=512)), "ps": RolePlan(1)})
    check(plan, Features(), {"worker-0": PodUsage(1.0, 500)})
    with pytest.raises(InvalidPlanError, match=r"roles.worker.memory is 512 MiB, 600 are in use"):
        check(plan, Features(), {"worker-0": PodUsage(1.0, 600)})


def test_the_state_stays_small() -> None:
    service = FakeService()
    training = FakeTraining(service, lambda workers: 10.0 * workers)
    made = planner(service, training)
    made.begin()
    for _ in range(100):
        period(made, service, training)
    assert service.posted[-1]["worker"]["replicas"] == 60
    assert len(service.values["trainer"][0]) < 32 * 1024
    assert msgspec.json.decode(service.values["trainer"][0])["plans"][0]["number"] == 1


def test_a_hot_server_or_a_lost_worker_is_looked_at_at_once_but_only_once() -> None:
    service = FakeService()
    made = run(service, FakeTraining(service, law), periods=0)
    told = service.pods().pods
    made.observe_pods(told)
    assert not made.tick()
    busy = ReportedUsage(cpu=0.95, memory=1, age=0)
    hot = [msgspec.structs.replace(pod, usage=busy) if pod.role == "ps" else pod for pod in told]
    made.observe_pods(hot)
    assert made.tick()
    made.update_safely()
    assert not made.tick(), "it is known now"
    made.observe_pods([*hot, PodReport(name="j-worker-7", role="worker", index=7, state="lost", reason="NodeLost")])
    assert made.tick()
    made.update_safely()
    assert not made.tick()


# Other frameworks.


def test_an_allreduce_job_is_planned_without_servers_by_what_it_reports() -> None:
    shared = SharedState(Progress(), epoch=1, term=1.0)
    now, pods = [0.0], PodSummary(running={"worker": 3})
    training = TrainingProgress(shared, lambda: pods, clock=lambda: now[0])
    assert training.snapshot().stopped, "nothing was reported yet"
    training.reported(LastProgress(throughput=20.0))
    now[0] = 10.0
    look = training.snapshot()
    assert (look.total, len(look.members), look.stopped) == (200.0, 3, False)
    training.reported(LastProgress())
    assert training.snapshot().stopped
    pods = PodSummary(running={"worker": 4})
    training.snapshot()
    now[0] = 15.0
    training.reported(LastProgress(throughput=20.0, age=6.0))
    assert training.snapshot().stopped, "that was said of three workers"
    training.reported(LastProgress(throughput=26.0, age=1.0))
    now[0] = 16.0
    assert (training.snapshot().total, training.snapshot().stopped) == (226.0, False)
    training.reported(LastProgress(throughput=20.0, age=0.0, workers=3))
    assert training.snapshot().stopped, "the fourth runs, but does not train yet"
    training.reported(LastProgress(throughput=26.0, age=0.0, workers=4))
    assert not training.snapshot().stopped
    training.reported(LastProgress(throughput=26.0, age=61.0))
    assert training.snapshot().stopped, "that was said long ago"
    assert (training.remaining(), training.records(), training.pause()) == (0.0, 0, 0.0)
    service = FakeService()
    service.reported = JobSpec({"distributionStrategy": "ring-allreduce"})
    made = planner(service, training)
    made.begin()
    assert set(service.posted[-1]) == {"worker"}
    assert made.state.features.strategy == "ring-allreduce"


def test_a_plan_of_the_brain_keeps_the_trainers_own_limits() -> None:
    """Also one of an older Brain, which does not know them."""
    service, brain = FakeService(), FakeBrain(None)
    own = msgspec.structs.replace(DEFAULTS, max_workers=3, max_cpu=0.5)
    run(service, FakeTraining(service, law), Advisor(lambda: brain, "ns/j/u", own), 2)  # type: ignore[arg-type,return-value]
    assert service.posted[0]["worker"] == {"replicas": 3, "resource": {"cpu": 0.5, "memory": 4096}}
    assert brain.calls[0][1].limits.max_workers == 3
    assert brain.calls[1][1].limits.max_workers == 3
