"""Rounds in which everybody fails alike: the lobby waits for all of them, counts, and forms no third round."""

from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.rendezvous.lobby import HOPELESS, Lobby
from edl.operator.job_service.rendezvous.members import Pods
from edl.operator.job_service.rendezvous.session import pods_of
from edl.protocol.rendezvous import Failed, Hello, Waiting

NO_MODULE = "ModuleNotFoundError: No module named 'nope'"


class Stage:
    """Agents of pods a, b... and a lobby that makes its rounds durable at once."""

    def __init__(self, *pods: str, fail_fast: bool = True) -> None:
        self.now = 100.0
        self.lobby = Lobby("run", 0.0)
        self.lobby.observe(Pods(frozenset(pods), target=len(pods), fail_fast=fail_fast))
        self.agents = [f"{pod}/1" for pod in pods]
        for agent in self.agents:
            self.lobby.hello(Hello(agent=agent, run="run", minimum=1, maximum=len(pods)), self.now)
        self.wait()

    @property
    def number(self) -> int:
        return self.lobby.round.number if self.lobby.round else 0

    def decide(self) -> None:
        decision = self.lobby.decide(self.now)
        if decision.round is not None:
            self.lobby.adopt(decision.round, self.now)

    def wait(self, *agents: str) -> None:
        for agent in agents or self.agents:
            self.lobby.report(agent, Waiting(self.number, "x:1"), self.now)
        self.decide()

    def fail(self, *pods: str, code: int = 1, message: str = NO_MODULE, after: float = 3.0) -> None:
        self.now += after
        for pod in pods:
            self.lobby.report(f"{pod}/1", Failed(self.number, code > 127, code, message), self.now)
        self.decide()


def test_two_rounds_alike_and_no_third() -> None:
    stage = Stage("a", "b")
    for number in (1, 2):
        assert stage.number == number
        stage.fail("a", "b")
        assert (stage.lobby.repeated.cause is not None) is (number == 2)
        stage.wait()
    assert stage.number == 2, "no third"
    cause = stage.lobby.repeated.cause
    assert cause is not None
    assert (cause.pod, cause.exit_code, cause.message) == ("a", 1, NO_MODULE)
    stage.now += HOPELESS
    stage.decide()
    assert stage.number == 3, "unless the operator lets the job live"


def test_others_are_left_to_fail_while_the_first_waits_for_its_verdict() -> None:
    stage = Stage("a", "b")
    stage.fail("a")
    assert stage.lobby.stale == ""
    stage.fail("b", after=1.0)
    assert stage.lobby.stale != ""


def test_nobody_hears_a_verdict_while_others_may_still_fail_alike() -> None:
    """In the second round, too: who hears it waits for the next round, and the others would never get to fail."""
    stage = Stage("a", "b")
    for number in (1, 2):
        stage.fail("a")
        assert stage.lobby.messages(["a/1"], stage.now) == {}
        stage.fail("b", after=0.5)
        assert stage.lobby.messages(["a/1"], stage.now) != {}
        assert (stage.lobby.repeated.cause is not None) is (number == 2)
        stage.wait()


def test_whoever_does_not_fail_ends_the_wait() -> None:
    stage = Stage("a", "b")
    for _ in range(3):
        stage.fail("a")
        stage.now += 2.1
        stage.decide()
        assert stage.lobby.stale != ""
        stage.wait()
    assert stage.lobby.repeated.cause is None


def test_other_words_another_code_or_a_signal_begin_anew() -> None:
    stage = Stage("a")
    for code, message in ((1, NO_MODULE), (1, "ValueError"), (2, "ValueError"), (139, ""), (1, NO_MODULE)):
        stage.fail("a", code=code, message=message)
        stage.wait()
    assert stage.lobby.repeated.cause is None


def test_a_round_that_got_somewhere_does_not_count() -> None:
    stage = Stage("a")
    for _ in range(3):
        stage.fail("a", after=61.0)
        stage.wait()
    assert stage.lobby.repeated.cause is None


def test_agents_of_before_and_patient_jobs_are_tried_again() -> None:
    for stage, code in ((Stage("a"), 0), (Stage("a", fail_fast=False), 1)):
        for _ in range(4):
            stage.fail("a", code=code)
            stage.wait()
        assert stage.lobby.repeated.cause is None
        assert stage.number == 5


def test_the_lobby_knows_whether_the_job_is_patient() -> None:
    for fail_fast in (True, False):
        assert pods_of(JobRecord("uid", "token", fail_fast=fail_fast)).fail_fast is fail_fast
