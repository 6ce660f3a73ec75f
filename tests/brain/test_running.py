"""Running plans in closed loops of virtual time: where a job is led, and by which rule at each step."""

import pytest

from edl.brain.policy.decide import decide
from edl.brain.policy.settings import Settings
from edl.brain.policy.sharing import Demand, share_capacity
from edl.protocol.job_facts import OOM, Capacity, Features, Incident, PodUsage, Roles
from edl.protocol.resources import SERVER, WORKER, Resource, RolePlan
from edl.throughput.curve import Curve
from tests.brain.simulated import PERIOD, Law, SimulatedJob, Use, amdahl, no_use, saturating


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("knee", [1, 3, 6, 13])
def test_a_job_is_led_to_where_it_saturates_within_ten_plans(knee: int, seed: int) -> None:
    job = SimulatedJob(saturating(knee), seed=seed)
    job.begin()
    sizes = job.run(30)
    assert len(sizes) <= 10, [record.plan.reason for record in job.plans]
    assert abs(sizes[-1] - knee) <= 1


def test_every_plan_says_why_and_what_it_should_bring() -> None:
    job = SimulatedJob(saturating(6), noise=0.0)
    job.begin()
    job.run(16)
    assert [record.plan.rule for record in job.plans] == [
        "start-cold",
        "workers-explore",
        "workers-curve",
        "workers-shrink",
    ]
    assert [record.plan.gain for record in job.plans] == [0.0, 1.0, 1.0, 0.0]
    assert all(record.plan.reason and 0 < record.plan.confidence <= 1 for record in job.plans)
    assert [record.verdict for record in job.plans] == ["safety", "paid", "paid", "safety"]
    assert job.plans[2].obtained == pytest.approx(60)
    assert "would bring too little" in job.decisions[-1].reason or "no faster" in job.decisions[-1].reason


def test_a_plan_that_did_not_pay_is_taken_back_and_not_tried_again_soon() -> None:
    job = SimulatedJob(saturating(2), noise=0.0)
    job.begin()
    job.run(6)
    rules = [record.plan.rule for record in job.plans]
    assert rules[:3] == ["start-cold", "workers-explore", "take-back"]
    assert job.plans[1].verdict == "taken back"
    assert "promised +100% and brought +0%" in job.plans[2].plan.reason
    job.run(int(Settings().hold / PERIOD) - 8)
    assert all(record.plan.roles[WORKER].replicas < 4 for record in job.plans[2:])


def test_what_was_measured_before_the_last_plan_says_nothing_of_its_size() -> None:
    """A look that comes before the first sample waits: the newest one is of another size."""
    job = SimulatedJob(saturating(2), noise=0.0)
    job.begin()
    while job.plan.rule != "take-back":
        job.period()
    decision = decide(job.facts(), job.now + 1, job.settings)
    assert decision.plan is None
    assert decision.reason == "waiting for 2 samples at the present size, 0 so far"


def test_one_bad_sample_of_a_smaller_size_does_not_forbid_it() -> None:
    """Eight workers seemed slow once, for which there are ten now; when that has been looked at long enough, it goes
    back, and on to the six that do."""
    job = SimulatedJob(saturating(6), noise=0.0)
    job.begin()
    while job.workers != 8:
        job.period()
    job.law = lambda workers, roles: 52.0
    job.period()
    job.law = saturating(6)
    sizes = job.run(24)
    assert max(sizes) > 8, "it took the bad moment for the truth"
    assert sizes[-1] == 6, sizes


@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_a_slow_rise_is_followed_to_its_end_although_samples_are_noisy(noise: float) -> None:
    """Twice as many workers bring 60 % more, whatever their number; there are ten at most."""
    reached = []
    for seed in range(8):
        job = SimulatedJob(lambda workers, roles: 10 * workers**0.7, noise=noise, seed=seed)
        job.settings = Settings(max_workers=10)
        job.begin()
        reached.append(job.run(40)[-1])
    assert sorted(reached)[2:] == [10] * 6, reached


def test_a_growth_is_not_given_up_while_the_noise_allows_that_it_paid() -> None:
    job = SimulatedJob(saturating(30), noise=0.0)
    job.begin()
    job.run(2)
    assert job.workers == 4
    rates = iter([16.0, 30.0, 18.0, 40.0])  # of 20 before: nothing can be said of it
    job.law = lambda workers, roles: next(rates)
    decisions = [job.period() for _ in range(3)]
    assert [decision.plan for decision in decisions] == [None] * 3
    assert "does not tell yet" in decisions[-1].reason
    assert job.plans[-1].verdict == ""
    job.period()
    assert job.plans[1].verdict == "paid"


def test_synchronous_workers_that_get_slower_together_are_few() -> None:
    """An allreduce job: throughput falls beyond about seven workers."""
    for seed in range(10):
        job = SimulatedJob(amdahl(0.1, 0.0, 0.002), seed=seed)
        job.features = Features(strategy="ring-allreduce", gpu=1)
        job.begin()
        sizes = job.run(40)
        assert SERVER not in job.plan.roles
        assert job.plan.roles[WORKER].resource.gpu == 1
        assert 3 <= sizes[-1] <= 8, sizes


@pytest.mark.parametrize(
    ("change", "most", "words"),
    [
        ({"cap": 3}, 4, "grants 3 of"),
        ({"capacity": Capacity(cpu=1.0, memory=65536)}, 3, "room for"),
        ({"capacity": Capacity(cpu=64.0, memory=2048)}, 3, "room for"),
        ({"settings": Settings(max_workers=5)}, 5, "the most that a plan may have"),
        ({"remaining": 100.0}, 2, "too soon"),
    ],
)
def test_growth_ends_where_it_may_not_go_on(change: dict[str, object], most: int, words: str) -> None:
    job = SimulatedJob(saturating(30), noise=0.0)
    if "settings" in change:
        job.settings = Settings(max_workers=5)
    job.begin()
    for name, value in change.items():
        setattr(job, name, value)
    for _ in range(12):
        if "capacity" in change and job.workers > 2:
            job.capacity = Capacity()  # it took what was free
        job.period()
    assert max(record.plan.roles[WORKER].replicas for record in job.plans) <= most
    assert words in job.decisions[-1].reason


# Parameter servers.


def served(cores_help: bool) -> tuple[Law, Use]:
    """Each worker needs a quarter of a core of the servers. A server uses one core, or as many as it has."""

    def power(roles: Roles) -> float:
        servers = roles[SERVER]
        return servers.replicas * ((servers.resource.cpu or 1.0) if cores_help else 1.0)

    def law(workers: int, roles: Roles) -> float:
        return 10 * min(workers, 4 * power(roles))

    def use(workers: int, roles: Roles) -> dict[str, PodUsage]:
        servers = roles[SERVER]
        limit = servers.resource.cpu or 1.0
        each = min(workers / 4, power(roles)) / servers.replicas
        busy = limit * each / (limit if cores_help else 1.0)  # what waits for its one core keeps the others spinning
        return {f"ps-{index}": PodUsage(min(busy, limit), 500, limit, 2048) for index in range(servers.replicas)}

    return law, use


def test_servers_that_hold_workers_up_get_more_cores_and_workers_follow() -> None:
    law, use = served(cores_help=True)
    job = SimulatedJob(law, use, noise=0.0, settings=Settings(max_workers=16))
    job.begin()
    job.run(60)
    assert job.plan.roles[WORKER].replicas >= 8
    assert (job.plan.roles[SERVER].resource.cpu or 0) > 1
    assert any(record.plan.rule == "servers-cpu" and record.verdict == "paid" for record in job.plans)


def test_servers_that_cores_do_not_help_become_more() -> None:
    """The first attempt does not pay and is taken back; the next one asks for servers instead."""
    law, use = served(cores_help=False)
    job = SimulatedJob(law, use, noise=0.0, settings=Settings(max_workers=16))
    job.begin()
    job.run(80)
    tried = [(record.plan.rule, record.verdict) for record in job.plans]
    assert ("servers-cpu", "taken back") in tried
    assert ("servers-count", "paid") in tried
    assert job.plan.roles[SERVER].replicas >= 2


def test_one_hot_server_alone_gets_more() -> None:
    def use(workers: int, roles: Roles) -> dict[str, PodUsage]:
        return {"ps-0": PodUsage(0.95, 100, 1.0, 2048), "ps-1": PodUsage(0.3, 100, 1.0, 2048)}

    job = SimulatedJob(saturating(2), use, noise=0.0, settings=Settings(cold_servers=2))
    job.begin()
    job.run(3)
    assert job.plan.rule == "server-hot"
    assert set(job.plan.slots) == {"ps-0"}
    assert (job.plan.slots["ps-0"].cpu or 0) > 1
    assert job.plan.roles == job.plans[0].plan.roles


def test_cores_that_servers_never_use_are_given_back_in_a_long_job() -> None:
    def use(workers: int, roles: Roles) -> dict[str, PodUsage]:
        return {"ps-0": PodUsage(0.4, 100, roles[SERVER].resource.cpu or 0.0, 2048)}

    job = SimulatedJob(saturating(2), use, noise=0.0, settings=Settings(cold_cpu=8.0, max_workers=2))
    job.begin()
    job.run(10)
    assert [record.plan.rule for record in job.plans] == ["start-cold", "servers-trim"]
    assert job.plan.roles[SERVER].resource.cpu == pytest.approx(0.6)
    short = SimulatedJob(saturating(2), use, noise=0.0, settings=Settings(cold_cpu=8.0, max_workers=2), remaining=100.0)
    short.begin()
    short.run(10)
    assert len(short.plans) == 1


# Memory.


def test_a_worker_killed_for_want_of_memory_gets_more_until_it_is_enough() -> None:
    job = SimulatedJob(saturating(2), noise=0.0)
    job.begin()
    for _ in range(3):
        had = job.plan.roles[WORKER].resource.memory or 0
        if had < 10_000:
            job.incidents.append(Incident("worker-1", OOM, job.now + 1, had))
        job.period()
    assert [record.plan.roles[WORKER].resource.memory for record in job.plans if record.plan.rule == "oom"] == [
        4096,
        8192,
        16384,
    ]
    assert "was killed for want of memory with 8192 MiB" in job.plan.reason


def test_memory_has_a_limit_and_says_so() -> None:
    job = SimulatedJob(saturating(2), noise=0.0, settings=Settings(max_memory=4096, cold_memory=4096))
    job.begin()
    job.incidents.append(Incident("worker-0", OOM, job.now + 1, 4096))
    decision = job.period()
    assert decision.plan is None
    assert "the most that a plan may give" in decision.reason


@pytest.mark.parametrize(
    ("memory", "rule"), [((2000, 1990), "count"), ((2000, 300), "slot")], ids=["all alike", "one alone"]
)
def test_servers_out_of_memory_become_more_or_larger(memory: tuple[int, int], rule: str) -> None:
    def use(workers: int, roles: Roles) -> dict[str, PodUsage]:
        return {f"ps-{index}": PodUsage(0.1, used, 1.0, 0) for index, used in enumerate(memory)}

    job = SimulatedJob(saturating(2), use, noise=0.0, settings=Settings(cold_servers=2))
    job.begin()
    job.incidents.append(Incident("ps-0", OOM, job.now + 1, 2048))
    job.period()
    assert job.plan.rule == "oom"
    assert job.plan.roles[SERVER].replicas == (4 if rule == "count" else 2)
    assert job.plan.slots == ({} if rule == "count" else {"ps-0": Resource(memory=4096)})


def test_memory_that_fills_up_is_raised_before_anybody_is_killed() -> None:
    def use(workers: int, roles: Roles) -> dict[str, PodUsage]:
        limit = roles[WORKER].resource.memory or 0
        return {"worker-0": PodUsage(0.5, 1950, 1.0, limit), "ps-0": PodUsage(0.1, 1900, 1.0, 2048)}

    job = SimulatedJob(saturating(2), use, noise=0.0, settings=Settings(max_workers=2))
    job.begin()
    job.run(4)
    rules = [record.plan.rule for record in job.plans]
    assert rules[1] == "memory"
    assert job.plan.roles[WORKER].resource.memory == 2944
    assert job.plan.slots["ps-0"].memory == 2880


def test_a_slot_that_is_gone_gets_nothing() -> None:
    """An allreduce job, of which somebody says that it has a full and busy parameter server."""

    def use(workers: int, roles: Roles) -> dict[str, PodUsage]:
        return {"ps-0": PodUsage(1.0, 2000, 1.0, 2048)}

    job = SimulatedJob(saturating(2), use, noise=0.0, features=Features(strategy="ring-allreduce"))
    job.begin()
    job.run(6)
    assert all(not record.plan.slots and set(record.plan.roles) == {WORKER} for record in job.plans)


# Other jobs.


def test_free_cores_go_where_a_further_worker_brings_most() -> None:
    steep, flat = Curve("knee", (10.0, 1e9), 0.0, 3, 8), Curve("knee", (10.0, 40.0), 0.0, 3, 8)
    each = Resource(cpu=1.0)
    given = share_capacity([Demand("a", steep, 4, each), Demand("b", flat, 4, each)], Capacity(cpu=3.0), Settings())
    assert given == {"a": 7, "b": 4}
    even = share_capacity([Demand("a", steep, 4, each), Demand("b", steep, 4, each)], Capacity(cpu=4.0), Settings())
    assert even == {"a": 6, "b": 6}
    small = share_capacity(
        [Demand("a", steep, 4, Resource(cpu=2.0)), Demand("b", steep, 4, each)], Capacity(cpu=2.0), Settings()
    )
    assert small == {"a": 4, "b": 6}, "per core the small worker brings more"


def test_an_evaluator_has_the_workers_memory() -> None:
    job = SimulatedJob(saturating(2), no_use, noise=0.0)
    job.features = Features(evaluator=True)
    job.begin()
    assert job.plan.roles["evaluator"] == RolePlan(1, job.plan.roles[WORKER].resource)
