"""The trainer's loop without processes: where it leads a job, what it does when things fail, killed at every step."""

import logging
from typing import Any

import msgspec
import pytest

from edl.brain.client import BrainDownError, BrainRefusalError
from edl.brain.messages import Answer, Ask, Beginning, Ending, Report
from edl.brain.policy.facts import Features, Plan, PodUse
from edl.brain.policy.judge import Judgement
from edl.brain.policy.units import Resource, RolePlan
from edl.runtime.master.board import Board
from edl.runtime.master.progress import Progress
from edl.runtime.service import StaleEpochError
from edl.runtime.trainer.advisor import Advisor
from edl.runtime.trainer.planner import Planner
from edl.runtime.trainer.pods import Pods
from edl.runtime.trainer.spec import UnreasonableError, check, spec_of
from edl.runtime.trainer.state import decode
from edl.runtime.trainer.training import BoardTraining
from tests.runtime.trainer.grounds import FakeGround, FakeTraining, KilledError, period, planner


def law(workers: int) -> float:
    return 10.0 * min(workers, 6)


def sizes(ground: FakeGround) -> list[int]:
    return [spec["worker"]["replicas"] for spec in ground.posted]


def run(ground: FakeGround, training: FakeTraining, advisor: Advisor | None = None, periods: int = 16) -> Planner:
    made = planner(ground, training, advisor)
    made.begin()
    for _ in range(periods):
        period(made, ground, training)
        ground.kill_for_memory()
    return made


def test_a_trainer_without_a_brain_leads_its_job_by_local_rules_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ground = FakeGround()
    made = run(ground, FakeTraining(ground, law))
    assert sizes(ground) == [2, 4, 8, 6]
    assert "plans are made by local rules" in caplog.text
    assert {record.source for record in made.state.plans} == {"local"}
    assert made.state.features == Features(
        program="python train.py --batch_size", image="ctr:1", namespace="ns", batch=32, records=5000
    )
    assert made.reason


def test_a_worker_killed_for_want_of_memory_is_looked_at_at_once_and_gets_more() -> None:
    ground = FakeGround()
    ground.mine = 6000
    training = FakeTraining(ground, lambda workers: law(workers) if ground.enough else 0.0)
    made = planner(ground, training)
    made.begin()
    ground.kill_for_memory()
    before = training.now
    period(made, ground, training)
    assert training.now - before < 3, "it did not wait for its period"
    for _ in range(6):
        ground.kill_for_memory()
        period(made, ground, training)
    memories = [spec["worker"]["resource"]["memory"] for spec in ground.posted]
    assert memories[0] == 2048
    assert memories[-1] == 8192
    assert len(ground.killed_pods) == 2


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
    ground = FakeGround()
    training = FakeTraining(ground, law)
    ground.kill_at = f"{step} {when}"
    made, killed = planner(ground, training), 0
    alive = False
    for _ in range(17):
        try:
            if not alive:
                made.begin()
                alive = True
            period(made, ground, training)
        except KilledError:
            killed += 1
            ground.epoch += 1
            made, alive = planner(ground, training), False
    assert killed == 1
    assert sizes(ground) == [2, 4, 8, 6], "no plan is lost, none is made twice"
    numbers = [record.number for record in made.state.plans]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_trainer_that_was_replaced_ends_at_its_next_write() -> None:
    ground = FakeGround()
    training = FakeTraining(ground, law)
    old = planner(ground, training)
    old.begin()
    ground.epoch += 1
    new = planner(ground, training)
    new.begin()
    period(new, ground, training)
    training.advance(30.0)
    with pytest.raises(StaleEpochError):
        old.look()


def test_the_service_away_for_a_while_loses_nothing() -> None:
    ground = FakeGround()
    training = FakeTraining(ground, law)
    made = run(ground, training, periods=3)
    ground.down = True
    for _ in range(4):
        training.advance(30.0)
        made.look_safely()
    ground.down = False
    for _ in range(20):
        period(made, ground, training)
    assert sizes(ground)[-1] == 6


def test_nothing_new_is_asked_while_a_plan_is_being_carried_out() -> None:
    ground = FakeGround()
    training = FakeTraining(ground, law)
    ground.settled = False
    made = run(ground, training, periods=5)
    assert sizes(ground) == [2]
    assert "is being carried out" in made.reason
    ground.mine = 4000
    ground.kill_for_memory()
    period(made, ground, training)
    assert len(ground.posted) == 2, "but for want of memory at once"
    ground.settled = True
    for _ in range(20):
        period(made, ground, training)
    assert sizes(ground)[-1] == 6


def test_a_plan_that_is_granted_in_part_is_lived_with() -> None:
    ground = FakeGround()
    ground.grant = lambda wanted: min(wanted, 3)
    made = run(ground, FakeTraining(ground, law), periods=12)
    assert max(sizes(ground)) <= 4
    assert "grants 3" in made.reason


def test_nobody_asks_for_more_than_the_cluster_has() -> None:
    ground = FakeGround()
    ground.capacity = {"cpu": 5.5, "memory": 100_000, "gpu": 0}
    made = run(ground, FakeTraining(ground, law), periods=12)
    assert sizes(ground) == [2, 4], "a core is the parameter server's"
    assert "room for 0 more" in made.reason


def test_a_job_ruled_by_hand_is_only_watched(caplog: pytest.LogCaptureFixture) -> None:
    ground = FakeGround()
    training = FakeTraining(ground, law)
    made = run(ground, training, periods=1)
    ground.ruled = "JobResource by-hand"
    for _ in range(8):
        period(made, ground, training)
    assert "this trainer only watches" in caplog.text
    assert made.state.samples, "it goes on measuring"


def test_a_jobresource_that_somebody_deleted_is_posted_again() -> None:
    ground = FakeGround()
    training = FakeTraining(ground, law)
    made = run(ground, training, periods=1)
    ground.posted.clear()
    period(made, ground, training)
    assert sizes(ground) == [2]


# The Brain.


class FakeBrain:
    """Answers as it is told; `calls` are what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, list[tuple[str, Any]]()
        self.known = True

    def begin(self, job: str, beginning: Beginning) -> Answer:
        self.calls.append(("begin", beginning))
        self.known = True
        return self._say(Plan("start-similar", "as another", {"worker": RolePlan(5, BIG), "ps": RolePlan(1, BIG)}))

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

    def _say(self, plan: Plan | None) -> Answer:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, Answer) else Answer("fine", plan)


BIG = Resource(cpu=1.0, memory=4096)
TROUBLES = [
    pytest.param(BrainDownError("TimeoutError: timed out"), id="slow or absent"),
    pytest.param(BrainDownError("the Brain at http://b answers what makes no sense: ..."), id="garbage"),
    pytest.param(BrainRefusalError(401, "unauthorized", "the token has expired"), id="expired token"),
    pytest.param(BrainRefusalError(403, "foreign", "this token is for a/b"), id="foreign token"),
    pytest.param(Answer("?", Plan("x", "y", {})), id="no roles"),
    pytest.param(Answer("?", Plan("x", "y", {"worker": RolePlan(0), "ps": RolePlan(1)})), id="no workers"),
    pytest.param(Answer("?", Plan("x", "y", {"worker": RolePlan(10**5), "ps": RolePlan(1)})), id="absurdly many"),
    pytest.param(
        Answer("?", Plan("x", "y", {"worker": RolePlan(2, Resource(cpu=0.0)), "ps": RolePlan(1)})), id="no cpu"
    ),
    pytest.param(
        Answer("?", Plan("x", "y", {"worker": RolePlan(2), "ps": RolePlan(1)}, {"cat": Resource()})), id="cat"
    ),
]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_brain_that_is_absent_or_wrong_is_not_followed(trouble: Any, caplog: pytest.LogCaptureFixture) -> None:
    ground, brain = FakeGround(), FakeBrain(trouble)
    made = run(ground, FakeTraining(ground, law), Advisor(lambda: brain, "ns/j/u"), 12)  # type: ignore[arg-type,return-value]
    assert sizes(ground) == [2, 4, 8, 6]
    assert "the Brain is not followed" in caplog.text
    assert {record.source for record in made.state.plans} == {"local"}


def test_a_brain_is_followed_told_everything_once_and_again_after_it_was_away() -> None:
    ground, brain = FakeGround(), FakeBrain(None)
    training = FakeTraining(ground, law)
    made = run(ground, training, Advisor(lambda: brain, "ns/j/u"), 3)  # type: ignore[arg-type,return-value]
    assert sizes(ground) == [5]
    assert [record.source for record in made.state.plans] == ["brain"]
    told = [sample.time for kind, ask in brain.calls if kind == "plan" for sample in ask.samples]
    assert told == sorted(set(told)), "each sample once"
    brain.answer = BrainDownError("gone for a while")
    for _ in range(3):
        period(made, ground, training)
    brain.answer, brain.known = None, False  # it is back, with nothing
    brain.calls.clear()
    period(made, ground, training)
    assert [kind for kind, _ in brain.calls] == ["plan", "begin", "plan"]
    assert len(brain.calls[-1][1].samples) == len(made.state.samples), "it is told all that is known"
    assert brain.calls[-1][1].plans == made.state.plans[: len(brain.calls[-1][1].plans)]


def test_a_token_that_has_expired_is_asked_for_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ground = FakeGround()
    expired, fresh = FakeBrain(BrainRefusalError(401, "unauthorized", "the token has expired")), FakeBrain(None)
    found = [expired, fresh]
    training = FakeTraining(ground, law)
    made = run(ground, training, Advisor(lambda: found.pop(0), "ns/j/u"), 1)  # type: ignore[arg-type,return-value]
    assert "the Brain is not followed (401 unauthorized: the token has expired)" in caplog.text
    assert "the Brain answers again" in caplog.text
    assert [kind for kind, _ in fresh.calls] == ["plan"]
    assert made.state.plans[0].source == "local"


def test_a_judgement_is_kept_with_its_plan() -> None:
    ground, brain = FakeGround(), FakeBrain(Answer("fine", None, Judgement(1, 42.0, "paid")))
    training = FakeTraining(ground, law)
    made = run(ground, training, Advisor(lambda: None, "ns/j/u"), 0)
    made.advisor = Advisor(lambda: brain, "ns/j/u")  # type: ignore[arg-type,return-value]
    period(made, ground, training)
    assert (made.state.plans[0].obtained, made.state.plans[0].verdict) == (42.0, "paid")
    assert decode(ground.values["trainer"][0]) == made.state


def test_also_a_job_that_was_too_short_for_a_look_teaches_the_next_one() -> None:
    ground, brain = FakeGround(), FakeBrain(None)
    training = FakeTraining(ground, law)
    made = run(ground, training, Advisor(lambda: brain, "ns/j/u"), 0)  # type: ignore[arg-type,return-value]
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
    plan = Plan(
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
    plan = Plan("r", "w", {"worker": RolePlan(3, Resource(memory=512)), "ps": RolePlan(1)})
    check(plan, Features(), {"worker-0": PodUse(1.0, 500)})
    with pytest.raises(UnreasonableError, match=r"roles.worker.memory is 512 MiB, 600 are in use"):
        check(plan, Features(), {"worker-0": PodUse(1.0, 600)})


def test_the_state_stays_small() -> None:
    ground = FakeGround()
    training = FakeTraining(ground, lambda workers: 10.0 * workers)
    made = planner(ground, training)
    made.begin()
    for _ in range(100):
        period(made, ground, training)
    assert ground.posted[-1]["worker"]["replicas"] == 60
    assert len(ground.values["trainer"][0]) < 32 * 1024
    assert msgspec.json.decode(ground.values["trainer"][0])["plans"][0]["number"] == 1


def test_a_hot_server_or_a_lost_worker_is_looked_at_at_once_but_only_once() -> None:
    ground = FakeGround()
    made = run(ground, FakeTraining(ground, law), periods=0)
    told = (ground.pods() or {})["pods"]
    made.see(told)
    assert not made.tick()
    hot = [{**pod, "usage": {"cpu": 0.95, "memory": 1, "age": 0}} if pod["role"] == "ps" else pod for pod in told]
    made.see(hot)
    assert made.tick()
    made.look_safely()
    assert not made.tick(), "it is known now"
    made.see([*hot, {"name": "j-worker-7", "role": "worker", "index": 7, "state": "lost", "reason": "NodeLost"}])
    assert made.tick()
    made.look_safely()
    assert not made.tick()


# Other frameworks.


def test_an_allreduce_job_is_planned_without_servers_by_what_it_reports() -> None:
    board = Board(Progress(), epoch=1, term=1.0)
    now, pods = [0.0], Pods(running={"worker": 3})
    training = BoardTraining(board, lambda: pods, clock=lambda: now[0])
    assert training.look().stopped, "nothing was reported yet"
    training.reported({"throughput": 20.0})
    now[0] = 10.0
    look = training.look()
    assert (look.total, len(look.members), look.stopped) == (200.0, 3, False)
    training.reported("rubbish")
    assert training.look().stopped
    pods = Pods(running={"worker": 4})
    training.look()
    now[0] = 15.0
    training.reported({"throughput": 20.0, "age": 6.0})
    assert training.look().stopped, "that was said of three workers"
    training.reported({"throughput": 26.0, "age": 1.0})
    now[0] = 16.0
    assert (training.look().total, training.look().stopped) == (226.0, False)
    training.reported({"throughput": 20.0, "age": 0.0, "workers": 3})
    assert training.look().stopped, "the fourth runs, but does not train yet"
    training.reported({"throughput": 26.0, "age": 0.0, "workers": 4})
    assert not training.look().stopped
    training.reported({"throughput": 26.0, "age": 61.0})
    assert training.look().stopped, "that was said long ago"
    assert (training.remaining(), training.records(), training.pause()) == (0.0, 0, 0.0)
    ground = FakeGround()
    ground.told = {"spec": {"distributionStrategy": "ring-allreduce"}}
    made = planner(ground, training)
    made.begin()
    assert set(ground.posted[-1]) == {"worker"}
    assert made.state.features.strategy == "ring-allreduce"
