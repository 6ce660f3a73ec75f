"""Tenants of one Brain: nothing that one namespace's tokens can send shapes another's plans, names its jobs to others,
or fills the store."""

from pathlib import Path
from typing import Any

import pytest

from edl.brain.quotas import Quota
from edl.brain.sqlite import SqliteDatabase
from edl.brain.tokens import mint
from edl.protocol.brain import Ask, Beginning, Ending, Report
from edl.protocol.job_facts import Capacity, Features, Incident, Limits, PlanRecord, PodUsage, ResourcePlan, Sample
from edl.protocol.resources import Resource, RolePlan
from tests.brain.serving import KEY, Caller, brain
from tests.brain.simulated import roles
from tests.brain.test_server import Clock, call, clock, lead

pytestmark = pytest.mark.case("attack-6")

__all__ = ["call", "clock"]  # fixtures

CTR = Features(program="python ctr.py", records=1e5, batch=64)
HUGE = {
    "worker": RolePlan(60, Resource(cpu=32.0, memory=65536)),
    "ps": RolePlan(15, Resource(cpu=32.0, memory=65536)),
}
SMALL = Quota(jobs=20, mebibytes=1, calls=1000.0)


async def teach(call: Caller, clock: Clock, job: str, planned: dict[str, RolePlan] = HUGE) -> None:
    """A job that began, did well with this plan, and ended: what the next one like it learns from."""
    path, plan = f"/v1/jobs/{job}", ResourcePlan("start-cold", "invented", planned)
    assert (await call("POST", path, Beginning(CTR)))[0] == 200
    sample = Sample(clock.now, 29.0, planned["worker"].replicas, 1e6, planned["ps"].replicas)
    report = Report(samples=(sample,), plans=(PlanRecord(1, clock.now - 60, plan),))
    assert (await call("POST", f"{path}/reports", report))[0] == 200
    assert (await call("POST", f"{path}/outcome", Ending("succeeded")))[0] == 200


def workers(answer: Any) -> int:
    return int(answer["plan"]["roles"]["worker"]["replicas"])


# A token speaks for its own job.


@pytest.mark.parametrize(
    ("subject", "status"),
    [
        ("ns/first/u1", 200),
        ("ns/first/u2", 403),
        ("ns/other/u1", 403),
        ("elsewhere/first/u1", 403),
        ("ns/first", 200),  # what operators gave to trainers until now, for a day
        ("ns/*", 200),
        ("*", 200),
    ],
)
async def test_a_token_speaks_for_its_own_uid_alone(call: Caller, subject: str, status: int) -> None:
    assert (await call("POST", "/v1/jobs/ns/first/u1", Beginning(CTR)))[0] == 200
    own = call.as_(mint(KEY, subject))
    for path, body in (("", Beginning(CTR)), ("/plan", Ask(present=roles(2))), ("/outcome", Ending("failed"))):
        found, answer = await own("POST", f"/v1/jobs/ns/first/u1{path}", body)
        assert found == status, answer


async def test_a_job_that_is_named_without_its_uid_is_the_tokens_own(call: Caller, clock: Clock) -> None:
    for uid in ("u1", "u2"):
        clock.now += 1
        await call("POST", f"/v1/jobs/ns/first/{uid}", Beginning(CTR))
    own = call.as_(mint(KEY, "ns/first/u1"))
    assert (await own("GET", "/v1/jobs/ns/first"))[1]["job"]["job"] == "ns/first/u1"
    assert [line["job"] for line in (await own("GET", "/v1/jobs"))[1]] == ["ns/first/u1"]


async def test_what_others_list_is_not_crowded_out(call: Caller, clock: Clock) -> None:
    await call("POST", "/v1/jobs/quiet/first/u1", Beginning(CTR))
    for number in range(5):
        clock.now += 1
        await call("POST", f"/v1/jobs/loud/first/u{number}", Beginning(CTR))
    _, listed = await call.as_(mint(KEY, "quiet/*"))("GET", "/v1/jobs?limit=3")
    assert [line["job"] for line in listed] == ["quiet/first/u1"]


# History is shared within a namespace.


async def test_a_foreign_history_shapes_no_plan(call: Caller, clock: Clock) -> None:
    """The attack: a job of another namespace that claims to be of the victim's, with an invented success."""
    attacker = call.as_(mint(KEY, "evil/j/u"))
    features = Features(program="python ctr.py", records=1e5, batch=64, namespace="victim")
    plan = ResourcePlan("start-cold", "invented", HUGE)
    path = "/v1/jobs/evil/j/u"
    assert (await attacker("POST", path, Beginning(features)))[0] == 200
    report = Report(samples=(Sample(clock.now, 29.0, 60, 1e6, 15),), plans=(PlanRecord(1, clock.now - 60, plan),))
    assert (await attacker("POST", f"{path}/reports", report))[0] == 200
    assert (await attacker("POST", f"{path}/outcome", Ending("succeeded")))[0] == 200
    _, answer = await call.as_(mint(KEY, "victim/j/u"))("POST", "/v1/jobs/victim/j/u", Beginning(CTR))
    assert (answer["plan"]["rule"], workers(answer)) == ("start-cold", 2)
    assert "evil" not in answer["reason"]
    _, asked = await call.as_(mint(KEY, "victim/j/u"))(
        "POST", "/v1/plan", Beginning(Features(program="python ctr.py", namespace="evil"))
    )
    assert asked["plan"]["rule"] == "start-cold", "nor does asking in another's name read its history"


async def test_a_namespaces_own_history_does_and_names_no_uid(call: Caller, clock: Clock) -> None:
    await teach(call, clock, "ns/first/5c1f-uid")
    _, answer = await call("POST", "/v1/jobs/ns/second/u2", Beginning(CTR))
    assert workers(answer) == 60
    assert "ns/first," in answer["reason"]
    assert "5c1f-uid" not in answer["reason"]


async def test_an_administrator_may_share_history_which_still_names_nobody(tmp_path: Path, clock: Clock) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock, share_history=True) as call:
        await teach(call, clock, "one/first/u1")
        _, answer = await call("POST", "/v1/jobs/two/second/u2", Beginning(CTR))
        assert workers(answer) == 60
        assert "one" not in answer["reason"].replace("none", "")
        assert "most similar of 1 past jobs" in answer["reason"]


async def test_a_foreign_demand_takes_no_room_away(call: Caller, clock: Clock) -> None:
    """The attack: a job that claims to hold everything and to gain most from more."""

    async def ask(job: str, granted: int, rates: dict[int, float]) -> Any:
        path, plan = f"/v1/jobs/{job}", ResourcePlan("start-cold", "test", roles(8))
        await call("POST", path, Beginning(CTR))
        at = clock.now - 100
        samples = tuple(
            Sample(at + 10 * n, 9.0, size, rate) for n, (size, rate) in enumerate(sorted(2 * list(rates.items())))
        )
        await call("POST", f"{path}/reports", Report(samples=samples, plans=(PlanRecord(1, at - 50, plan),)))
        capacity = Capacity(cpu=10.0, memory=65536)
        body = Ask(present=roles(8), granted={"worker": granted}, capacity=capacity)
        return (await call("POST", f"{path}/plan", body))[1]

    await ask("evil/j/u", 10_000, {4: 1.0, 8: 80.0})
    answer = await ask("victim/j/u", 8, {4: 40.0, 8: 80.0})
    assert workers(answer) > 8


# Plans are bounded by what the job itself may have.


async def test_a_plan_keeps_the_trainers_own_limits(call: Caller, clock: Clock) -> None:
    await teach(call, clock, "ns/first/u1")
    limits = Limits(max_workers=8, max_servers=2, max_cpu=4.0, max_memory=8192)
    _, answer = await call("POST", "/v1/jobs/ns/second/u2", Beginning(CTR, limits=limits))
    for role, most in (("worker", 8), ("ps", 2)):
        assert answer["plan"]["roles"][role] == {"replicas": most, "resource": {"cpu": 4.0, "memory": 8192}}
    sizes = await lead(call, clock, "/v1/jobs/other/j/u", 60, limits=Limits(max_workers=5))
    assert max(sizes) == 5


async def test_a_pod_is_no_larger_than_all_that_the_namespace_may_have(call: Caller, clock: Clock) -> None:
    await teach(call, clock, "ns/first/u1")
    _, answer = await call("POST", "/v1/jobs/ns/second/u2", Beginning(CTR, Capacity(cpu=6.0, memory=9000)))
    for role in answer["plan"]["roles"].values():
        assert role["resource"]["cpu"] <= 6.0
        assert role["resource"]["memory"] <= 9000


# Quotas.


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


async def test_the_store_of_a_namespace_is_bounded(tmp_path: Path, clock: Clock) -> None:
    """The attack: reports as large and as many as are taken."""
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock, quota=SMALL) as call:
        pods = {f"worker-{number}": PodUsage(1.0, 1000) for number in range(300)}
        statuses = set()
        for number in range(60):
            clock.now += 1
            statuses.add((await call("POST", f"/v1/jobs/evil/j{number}/u", Beginning(CTR)))[0])
            samples = tuple(Sample(clock.now + n / 100, 1.0, 1, 1.0, 0, pods) for n in range(20))
            status, answer = await call("POST", f"/v1/jobs/evil/j{number}/u/reports", Report(samples=samples))
            statuses.add(status)
            if status == 429:
                assert answer["code"] == "quota"
                assert "namespace evil" in answer["error"]
        assert statuses == {200, 429, 404}, "404: it could not even begin"
        _, listed = await call("GET", "/v1/jobs?limit=1000")
        assert len(listed) <= SMALL.jobs
        assert (await call("POST", "/v1/jobs/other/j/u", Beginning(CTR)))[0] == 200, "others are not refused"
    assert size(tmp_path) < 8 << 20


async def test_the_oldest_that_ended_make_room(tmp_path: Path, clock: Clock) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock, quota=SMALL) as call:
        for number in range(SMALL.jobs + 5):
            clock.now += 1
            await teach(call, clock, f"ns/j{number:02}/u", roles(4 if number < SMALL.jobs else 6, 1))
        _, listed = await call("GET", "/v1/jobs?limit=1000")
        assert len(listed) <= SMALL.jobs
        assert {"ns/j00/u", "ns/j01/u"}.isdisjoint(line["job"] for line in listed)
        _, answer = await call("POST", "/v1/jobs/ns/next/u", Beginning(CTR))
        assert workers(answer) == 6


async def test_a_job_that_runs_is_not_forgotten_for_one_that_comes(tmp_path: Path, clock: Clock) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock, quota=SMALL) as call:
        for number in range(SMALL.jobs):
            assert (await call("POST", f"/v1/jobs/ns/j{number}/u", Beginning(CTR)))[0] == 200
        status, answer = await call("POST", "/v1/jobs/ns/late/u", Beginning(CTR))
        assert (status, answer["code"]) == (429, "quota")
        clock.now += 2 * 86_400
        assert (await call("POST", "/v1/jobs/ns/late/u", Beginning(CTR)))[0] == 200, "who is silent for a day is gone"


@pytest.mark.parametrize("counted", [False, True], ids=["first of its namespace", "beside one that reports"])
async def test_a_report_of_a_job_that_never_began_is_not_kept(call: Caller, *, counted: bool) -> None:
    if counted:
        assert (await call("POST", "/v1/jobs/ns/other/u", Beginning(CTR)))[0] == 200
        assert (await call("POST", "/v1/jobs/ns/other/u/reports", Report(samples=(Sample(1.0, 1.0, 1, 1.0),))))[
            0
        ] == 200
    plan = PlanRecord(1, 0.0, ResourcePlan("start-cold", "invented", roles(4, 1)))
    report = Report(samples=(Sample(1.0, 1.0, 1, 1.0),), plans=(plan,), incidents=(Incident("worker-0", "OOM"),))
    status, answer = await call("POST", "/v1/jobs/ns/j/u/reports", report)
    assert (status, answer["code"]) == (404, "no-such-job")
    assert (await call("POST", "/v1/jobs/ns/j/u", Beginning(CTR)))[0] == 200
    kept = (await call("GET", "/v1/jobs/ns/j/u"))[1]
    assert {"samples", "plans", "incidents"}.isdisjoint(kept), kept


async def test_the_calls_of_a_namespace_are_bounded_and_others_are_served(tmp_path: Path, clock: Clock) -> None:
    quota = Quota(calls=2.0)
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock, quota=quota) as call:
        evil = call.as_(mint(KEY, "evil/j/u"))
        found = [await evil("POST", "/v1/plan", Beginning(CTR)) for _ in range(30)]
        assert [status for status, _ in found].count(200) == 10
        assert found[-1][1]["code"] == "too-many-calls"
        victim = call.as_(mint(KEY, "victim/j/u"))
        assert (await victim("POST", "/v1/jobs/victim/j/u", Beginning(CTR)))[0] == 200
        clock.now += 1
        assert [(await evil("POST", "/v1/plan", Beginning(CTR)))[0] for _ in range(4)] == [200, 200, 429, 429]


async def test_a_large_body_counts_as_many_calls(tmp_path: Path, clock: Clock) -> None:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock, quota=Quota(calls=10.0)) as call:
        assert (await call("POST", "/v1/jobs/ns/j/u", Beginning(CTR)))[0] == 200
        pods = {f"worker-{number}": PodUsage(1.0, 1000) for number in range(1000)}
        report = Report(samples=tuple(Sample(1.0 + n, 1.0, 1, 1.0, 0, pods) for n in range(60)))
        answers = [(await call("POST", "/v1/jobs/ns/j/u/reports", report))[0] for _ in range(5)]
        assert answers.count(429) >= 2


async def test_a_number_that_no_column_holds_is_refused(call: Caller) -> None:
    await call("POST", "/v1/jobs/ns/j/u", Beginning(CTR))
    plan = {"number": 2**70, "time": 1, "plan": {"rule": "x", "reason": "y"}}
    status, answer = await call("POST", "/v1/jobs/ns/j/u/reports", {"plans": [plan]})
    assert (status, "number" in answer["error"]) == (400, True), answer
