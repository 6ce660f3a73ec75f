"""Plan and apply, again and again, on virtual time: it comes to rest, wastes nothing, is fair, and everyone runs in
the end.
"""

from typing import Any

import pytest

from edl.api.job_view import JobView, replicas_at
from edl.api.kubernetes.core import PodSpec, convert
from edl.scheduler.placement.resources import PODS, Amounts, pod_requests
from edl.scheduler.policies.registry import POLICIES
from edl.scheduler.settings import Settings
from tests.scheduler.makers import NOW, Data, elastic_job, node, resources, training_job
from tests.scheduler.random_worlds import chance_of
from tests.scheduler.virtual import VirtualCluster

AT_REST = 4  # rounds without any change
ROUNDS = 30
STEP = 45.0  # longer than any freezing window here


def cluster(seed: int, policy: Any) -> VirtualCluster:
    chance = chance_of(seed)
    nodes = [
        node(f"n{number}", cpu=chance.choice((2, 4, 8, 16)), gpu=chance.choice((0, 0, 2, 4)))
        for number in range(chance.randint(1, 5))
    ]
    grace = chance.choice((0.0, 3.0, 20.0))
    made = VirtualCluster(nodes, now=NOW, grace=grace, settings=Settings(policy=policy, max_load="1"))
    for number in range(chance.randint(1, 6)):
        made.submit(job(chance, number))
        for _ in range(chance.randint(0, 3)):
            made.cycle()
            made.advance(chance.choice((5, 5, 40)))
    return made


def job(chance: Any, number: int) -> Data:
    least = chance.randint(1, 3)
    most = least + chance.choice((0, 1, 4, 12))
    more: dict[str, Any] = {"cpu": chance.choice((1, 1, 2, 3)), "gpu": chance.choice((0, 0, 0, 1, 2))}
    more["annotations"] = {"edl.dev/priority": chance.choice(("Normal", "Normal", "Offline", "Production"))}
    if chance.random() < 0.5:
        return elastic_job(f"e{number}", least, most, **more)
    if chance.random() < 0.5:
        servers = {"min-instance": 1, "max-instance": chance.choice((1, 3)), "resources": resources(1)}
        more["pserver"] = servers
    return training_job(f"t{number}", least, most, **more)


def come_to_rest(made: VirtualCluster) -> int:
    """How many rounds it took until nothing changed any more."""
    last, same = None, 0
    for round_number in range(ROUNDS):
        made.cycle()
        state = made.targets(), sorted((pod.name, pod.node) for pod in made.pods.values())
        same = same + 1 if state == last else 0
        last = state
        if same == AT_REST:
            return round_number
        made.advance(STEP)
    raise AssertionError(("it does not come to rest", made.targets(), made.reasons()))


def asked(view: JobView) -> list[Amounts]:
    return [pod_requests(convert(role.template["spec"], PodSpec)) | {PODS: 1} for role in view.roles]


def wastes_nothing(made: VirtualCluster) -> None:
    """No job is below its maximum while its next instance, with what belongs to it, fits."""
    for name, view in made.views.items():
        size = made.targets()[name]
        if not size or size >= view.max:
            continue
        more = [replicas_at(role, size + 1) - replicas_at(role, size) for role in view.roles]
        if sum(more) == 1:
            wanted = asked(view)[more.index(1)]
            fits = [node for node in made.capacity if made.has_room(node, wanted)]
            assert not fits, (name, size, fits, made.reasons())


def could_run(made: VirtualCluster, view: JobView) -> bool:
    """Whether its minimum fits on the empty cluster, by trying everything."""
    pods = [
        wanted for role, wanted in zip(view.roles, asked(view), strict=True) for _ in range(replicas_at(role, view.min))
    ]
    pods.sort(key=lambda pod: (-pod.get("nvidia.com/gpu", 0), -pod["cpu"]))
    free = {name: dict(have) for name, have in made.capacity.items()}

    def place(number: int) -> bool:
        if number == len(pods):
            return True
        tried = set()
        for have in free.values():
            look = tuple(sorted(have.items()))
            if look in tried or any(have.get(name, 0) < units for name, units in pods[number].items()):
                continue
            tried.add(look)
            for name, units in pods[number].items():
                have[name] -= units
            if place(number + 1):
                return True
            for name, units in pods[number].items():
                have[name] += units
        return False

    return place(0)


@pytest.mark.parametrize("policy", [*POLICIES])
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_it_comes_to_rest_wastes_nothing_and_everyone_runs_in_the_end(first: int, policy: Any) -> None:
    for seed in range(first, first + 15):
        made = cluster(seed, policy)
        views = dict(made.views)
        come_to_rest(made)
        wastes_nothing(made)
        ran = {name for name, size in made.targets().items() if size}
        for _ in range(len(views)):
            running = sorted(name for name, size in made.targets().items() if size)
            ran.update(running)
            if not running:
                break
            made.finish(running[0])
            come_to_rest(made)
            wastes_nothing(made)
        ran.update(name for name, size in made.targets().items() if size)
        never = [name for name in views if name not in ran and could_run(made, views[name])]
        assert not never, (seed, never, made.reasons())


@pytest.mark.parametrize("seed", range(12))
def test_equal_jobs_end_equal_within_one_instance(seed: int) -> None:
    """Whenever they came, whoever came first: cfs."""
    chance = chance_of(seed)
    jobs, each = chance.randint(2, 6), chance.randint(2, 5)
    nodes = [node(f"n{number}", cpu=each) for number in range(jobs)]
    made = VirtualCluster(nodes, now=NOW, grace=chance.choice((0.0, 7.0)), settings=Settings(max_load="1"))
    for number in range(jobs):
        made.submit(elastic_job(f"j{number}", 1, jobs * each))
        for _ in range(chance.randint(0, 20)):
            made.cycle()
            made.advance(chance.choice((5, 5, 35)))
    come_to_rest(made)
    sizes = made.targets().values()
    assert set(sizes) == {each}


def test_a_cluster_at_rest_stays_at_rest_for_a_day() -> None:
    """Scores go on changing; sizes do not."""
    made = VirtualCluster([node("n1", cpu=10), node("n2", cpu=7)], now=NOW, settings=Settings(max_load="1"))
    for name, level in (("a", "Normal"), ("b", "Offline"), ("c", "Production")):
        made.submit(elastic_job(name, 1, 12, cpu=1 + (name == "b"), annotations={"edl.dev/priority": level}))
        made.cycle()
        made.advance(50)
    come_to_rest(made)
    before, rescales = made.targets(), made.rescales
    for _ in range(48):
        made.advance(1800)
        made.cycle()
    assert (made.targets(), made.rescales) == (before, rescales)


def test_a_cluster_that_refuses_what_the_plan_allows_is_not_asked_for_ever() -> None:
    """Something that the plan cannot know keeps workers off one node: they are withdrawn, and tried less and less."""
    made = VirtualCluster([node("bad", cpu=8), node("good", cpu=4)], now=NOW, settings=Settings(max_load="1"))
    made.accepts = lambda pod, on: on != "bad"
    made.submit(elastic_job("a", 1, 12))
    for _ in range(120):
        made.cycle()
        made.advance(5)
    assert made.size("a") == 4
    assert made.rescales <= 16
    backoff = next(iter(made.memory.shapes.values()))
    assert backoff.strikes >= 3


def test_an_operator_that_forgets_everything_every_time_still_gets_there() -> None:
    """Memory is patience, not truth."""
    from edl.scheduler.memory import Memory

    made = VirtualCluster([node("n1", cpu=12)], now=NOW, grace=3.0, settings=Settings(max_load="1"))
    for number in range(3):
        made.submit(elastic_job(f"j{number}", 1, 12))
        for _ in range(4):
            made.memory = Memory()
            made.cycle()
            made.advance(35)
    for _ in range(20):
        made.memory = Memory()
        made.cycle()
        made.advance(35)
    assert made.total_used("cpu") == 12_000
    assert sorted(made.targets().values()) == [4, 4, 4]


@pytest.mark.parametrize("policy", [*POLICIES])
@pytest.mark.parametrize("first", range(0, 10, 5))
def test_whatever_happens_it_comes_to_rest_afterwards(first: int, policy: Any) -> None:
    """Jobs come, end and are edited, pods of others come and go, trainers are lost, the cluster refuses: then peace."""
    for seed in range(first, first + 5):
        chance = chance_of(1000 + seed)
        made = cluster(seed, policy)
        for step in range(40):
            _disturb(made, chance, step)
            made.cycle()
            made.advance(chance.choice((1, 5, 30)))
        made.accepts = lambda pod, on: True
        come_to_rest(made)
        wastes_nothing(made)


def _disturb(made: VirtualCluster, chance: Any, step: int) -> None:
    what = chance.randrange(7)
    names = sorted(made.jobs)
    ours = sorted(key for key, pod in made.pods.items() if pod.job)
    webs = sorted(pod.name for pod in made.pods.values() if not pod.job)
    container = {"name": "web", "image": "x", "resources": resources(chance.choice((1, 3)))}
    if what == 0 and len(names) < 6:
        made.submit(job(chance, 10 + step))
    elif what == 1 and names:
        made.finish(chance.choice(names))
    elif what == 2:
        made.add_foreign(f"web-{step}", {"containers": [container]})
    elif what == 3 and webs:
        made.delete_foreign(chance.choice(webs))
    elif what == 4 and ours:
        made.lose(chance.choice(ours))
    elif what == 5 and names:
        made.edit(chance.choice(names), {"edl.dev/priority": chance.choice(("Experiment", "Normal", "Production"))})
    elif what == 6:
        refused = chance.choice(sorted(made.capacity))
        made.accepts = lambda pod, on: on != refused or step % 3 == 0
