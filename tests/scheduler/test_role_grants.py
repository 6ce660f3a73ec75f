"""Pods of other roles that a running job asks for in addition: all of them or none, and what runs goes on (20)."""

from typing import Any

import pytest

from edl.scheduler.memory import Memory
from edl.scheduler.plan import Decision, Plan
from edl.scheduler.reasons.codes import Code
from tests.scheduler.makers import (
    ALL,
    NOW,
    Data,
    elastic_job,
    node,
    of,
    planned,
    pod,
    pods_of,
    reference,
    resources,
    running,
    stamp,
    targets,
    training_job,
)

pytestmark = pytest.mark.case("acceptance-7")
KINDS = ["easydl", "training"]
SERVER = {"easydl": "ps", "training": "pserver"}


class Job:
    """A job of one kind that runs `workers` and `servers` of one CPU each, and asks for `asks` servers now."""

    def __init__(
        self, kind: str, asks: int, servers: int = 2, workers: int = 3, most: int = 3, in_force: int | None = None
    ) -> None:
        self.kind, self.server = kind, SERVER[kind]
        roles = {"trainer" if kind == "easydl" else "master": 1, self.server: servers}
        scale: Data = {"target": workers, "current": workers, "minimum": 1, "roles": roles}
        if in_force is not None:
            scale["rolesInForce" if kind == "easydl" else "roles_in_force"] = roles | {self.server: in_force}
        make = self._easydl if kind == "easydl" else self._training
        self.job, *self.more = make(asks, most, scale)
        self.live = {**roles, "worker" if kind == "easydl" else "trainer": workers}

    @staticmethod
    def _easydl(asks: int, most: int, scale: Data) -> list[Data]:
        template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
        sizes = {"parameter_server": asks, "worker": most}
        roles = {name: {"replicas": count, "resource": {"cpu": 1}} for name, count in sizes.items()}
        follows = {"source": "a", "generation": 1, "roles": {"worker": roles["worker"], "ps": roles["worker"]}}
        job = {
            "apiVersion": "elastic.iml.github.io/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "a", "namespace": "default", "uid": "uid-default-a", "creationTimestamp": stamp(90)},
            "spec": {
                "parameterServer": {"template": template},
                "worker": {"template": template},
                "trainer": {"template": template},
            },
            "status": {"phase": "Running", "minimumReached": True, "scale": scale, "plan": follows},
        }
        meta = {"name": "a", "namespace": "default", "uid": "plan", "generation": 2}
        spec = {"selector": {"name": "a"}, **roles}
        return [
            job,
            {"apiVersion": "elastic.easydl.org/v1alpha1", "kind": "JobResource", "metadata": meta, "spec": spec},
        ]

    @staticmethod
    def _training(asks: int, most: int, scale: Data) -> list[Data]:
        server = {"min-instance": asks, "resources": resources()}
        return [
            training_job(
                "a", 1, most, master={}, pserver=server, status={"phase": "running", "scale_status": scale}, age=90
            )
        ]

    def objects(self, on: str = "n1", **live: int) -> list[Data]:
        """With its pods; `live`: others than were granted."""
        counts = self.live | {self.server if role == "servers" else role: count for role, count in live.items()}
        made = [self.job, *self.more]
        for role, count in counts.items():
            helper = role == "master" or (role == "trainer" and self.kind == "easydl")
            made += [self.pod(role, index, on, 0 if helper else 1) for index in range(count)]
        return made

    def pod(self, role: str, index: int, on: str, cpu: Any = 1, **more: Any) -> Data:
        one = pod(f"a-{role}-{index}", on, owner=reference(self.job), **more)
        one["metadata"]["labels"] |= {"edl.dev/job": "a", "edl.dev/role": role, "edl.dev/index": str(index)}
        one["spec"]["containers"] = [{"name": role, "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}]
        return one

    def decision(self, plan: Plan) -> Decision:
        return of(plan, "a")


@pytest.mark.parametrize("kind", KINDS)
def test_servers_beyond_the_cluster_wait_and_what_runs_goes_on(kind: str) -> None:
    job = Job(kind, asks=50)
    decision = of(planned(node("n1", cpu=8), job.objects(), **ALL), "a")
    assert (decision.target, decision.placements, decision.leavers) == (3, {}, {})
    assert decision.roles[job.server] == 2, "those that run are all that is granted"
    assert decision.code is Code.PROMISED
    assert decision.reason.startswith(f"holds 3: 48 more {job.server} wait: needs 48 ")


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_holds_no_room(kind: str) -> None:
    """Two of the three would have room: another job has it."""
    job = Job(kind, asks=5)
    plan = planned(node("n1", cpu=7), job.objects(), elastic_job("b", 2, 2), **ALL)
    assert targets(plan) == {"a": 3, "b": 2}
    assert of(plan, "a").roles[job.server] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_granted_together_once_all_have_room(kind: str) -> None:
    job = Job(kind, asks=4)
    decision = of(planned(node("n1", cpu=7), job.objects(), **ALL), "a")
    assert (decision.target, decision.roles[job.server]) == (3, 4)
    assert decision.placements == {job.server: {"n1": 2}}
    assert decision.in_force[job.server] == 2, "till they have run"
    assert (decision.code, decision.reason) == (Code.GROWN, f"holds 3: is granted 2 more {job.server}")


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_granted_is_not_taken_for_another_and_holds_once_it_ran(kind: str) -> None:
    job, other = Job(kind, asks=4, servers=4, in_force=2), elastic_job("b", 2, 2)
    plan = planned(node("n1", cpu=7), job.objects(servers=2), other, **ALL)
    assert (targets(plan), of(plan, "a").placements) == ({"a": 1, "b": 0}, {job.server: {"n1": 2}}), "workers make room"
    assert of(plan, "a").in_force[job.server] == 2
    assert of(planned(node("n1", cpu=7), job.objects(), other, **ALL), "a").in_force == {}


@pytest.mark.parametrize("kind", KINDS)
def test_servers_that_the_cluster_refuses_are_withdrawn_to_those_in_force(kind: str) -> None:
    job = Job(kind, asks=4, servers=4, in_force=2)
    refused = [job.pod(job.server, index, "", refused=16) for index in (2, 3)]
    decision = of(planned(node("n1", cpu=8), job.objects(servers=2), refused, **ALL), "a")
    assert (decision.target, decision.roles[job.server]) == (3, 2)
    assert decision.leavers == {job.server: {"": 2}}
    assert (decision.code, decision.reason) == (
        Code.BACKOFF,
        f"holds 3: 2 more {job.server} wait: the cluster refused such a {job.server} before; it is tried again in 30 s",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_server_of_those_in_force_is_waited_for_where_it_is(kind: str) -> None:
    job = Job(kind, asks=2)
    refused = [job.pod(job.server, 1, "", refused=16)]
    decision = of(planned(node("n1", cpu=4), job.objects(servers=1), refused, **ALL), "a")
    assert decision.roles[job.server] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_servers_hold_at_once(kind: str) -> None:
    job = Job(kind, asks=1)
    decision = of(planned(node("n1", cpu=8), job.objects(), **ALL), "a")
    assert (decision.roles[job.server], decision.leavers) == (1, {job.server: {"n1": 1}})


@pytest.mark.parametrize("kind", KINDS)
def test_instances_of_its_own_above_the_minimum_make_room(kind: str) -> None:
    """All servers and one worker are the minimum: a job that fills the cluster is not its own obstacle."""
    job = Job(kind, asks=4, workers=6, most=6)
    plan = planned(node("n1", cpu=8), job.objects(), **ALL)
    decision = of(plan, "a")
    assert (decision.target, decision.roles[job.server]) == (4, 2)
    assert decision.reason.startswith(f"-2: makes room for its own 2 more {job.server}; 2 more {job.server} wait: ")
    shrunk = Job(kind, asks=4, workers=4, most=6)
    after = of(planned(node("n1", cpu=8), shrunk.objects(), memory=plan.memory, now=NOW + 5, **ALL), "a")
    assert (after.target, after.roles[job.server]) == (4, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_others_above_their_minimum_make_room_for_them(kind: str) -> None:
    job, rich = Job(kind, asks=4), elastic_job("rich", 1, 20)
    plan = planned(node("n1", cpu=10), job.objects(), running(rich, {"n1": 5}), **ALL)
    assert targets(plan) == {"a": 3, "rich": 3}
    assert of(plan, "rich").reason == f"-2: makes room for the minimum of default/a (2 more {job.server})"
    assert "room is being made by default/rich" in of(plan, "a").reason


@pytest.mark.parametrize("kind", KINDS)
def test_the_job_goes_on_changing_its_size_while_servers_wait(kind: str) -> None:
    job = Job(kind, asks=50, workers=2, most=3)
    decision = of(planned(node("n1", cpu=8), job.objects(), **ALL), "a")
    assert (decision.target, decision.roles[job.server]) == (3, 2)
    assert f"; 48 more {job.server} wait: " in decision.reason
    frozen = planned(node("n1", cpu=8), job.objects(), elastic_job("b", 4, 4), **ALL)
    assert targets(frozen)["b"] == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_of_before_that_tells_nothing_is_taken_as_granted(kind: str) -> None:
    job = Job(kind, asks=4)
    del job.job["status"]["scale" if kind == "easydl" else "scale_status"]["roles"]
    decision = of(planned(node("n1", cpu=8), job.objects(), **ALL), "a")
    assert decision.roles[job.server] == 4


def test_a_minimum_and_its_servers_are_raised_together() -> None:
    """`pserver` without a number has as many as the least trainers: both wait, or both come."""
    scale = {"target": 3, "current": 3, "minimum": 3, "roles": {"master": 1, "pserver": 3}}

    def job(least: int) -> list[Data]:
        made = training_job(
            "a", least, 60, pserver={"resources": resources()}, status={"phase": "running", "scale_status": scale}
        )
        return [*running(made, {"n1": 3}), *pods_of(made, {"n1": 3}, "pserver")]

    waits = of(planned(node("n1", cpu=15), job(10), **ALL), "a")
    assert (waits.target, waits.roles["pserver"], waits.minimum, waits.placements) == (3, 3, 3, {})
    assert waits.reason.startswith("holds 3: its new minimum of 10 waits: ")
    granted = of(planned(node("n1", cpu=15), job(7), **ALL), "a")
    assert (granted.target, granted.roles["pserver"], granted.minimum) == (7, 7, 3)


def test_an_evaluator_waits_as_a_server_does() -> None:
    job = Job("easydl", asks=2)
    job.more[0]["spec"]["evaluator"] = {"replicas": 2, "resource": {"cpu": 1}}
    waits = of(planned(node("n1", cpu=6), job.objects(), **ALL), "a")
    assert (waits.target, waits.roles.get("evaluator")) == (3, 0)
    assert "2 more evaluator wait" in waits.reason
    assert of(planned(node("n1", cpu=7), job.objects(), **ALL), "a").roles["evaluator"] == 2


def test_a_paused_job_gets_none() -> None:
    job = Job("easydl", asks=4)
    job.job["metadata"]["annotations"] = {"edl.dev/pause": "true"}
    decision = of(planned(node("n1", cpu=8), job.objects(), **ALL), "a")
    assert (decision.roles["ps"], decision.code) == (2, Code.PAUSED)


def test_the_same_world_gives_the_same_plan_again() -> None:
    job, memory = Job("easydl", asks=50), Memory()
    first = planned(node("n1", cpu=8), job.objects(), memory=memory, **ALL)
    assert planned(node("n1", cpu=8), job.objects(), memory=first.memory, **ALL).jobs == first.jobs
