"""The published experiment of the first EDL, repeated on virtual time: both cases, and what it left to be desired.

Cluster: 133 nodes, 2348 cores, no GPU. The mix is not published; here it is 71 nodes of 12 cores, 61 of 24 and one
of 32, each with 250m of others' pods. A job is a master (1 core), 10 parameter servers (4 cores, 5 GiB) and 2 to 60
trainers (5 cores, 8 GiB).

What is stable is held against a bound for packing: per node no more than whole pods fit, with as many servers in
all as the jobs have, by Lagrange duality (any price of a parameter server gives a valid bound, the best of many is
taken). The bound is printed.
"""

import pytest

from edl.scheduler.settings import Settings
from tests.scheduler.makers import NOW, Data, node, resources, training_job
from tests.scheduler.virtual import VirtualCluster

MIX = [12] * 71 + [24] * 61 + [32]
CORES = sum(MIX) * 1000
OTHERS = 250
TRAINER, SERVER, MASTER = 5000, 4000, 1000
TICK = 5
GRACE = 2.0


def spec(cpu: object, memory: str) -> Data:
    return {"containers": [{"name": "main", "image": "x", "resources": resources(cpu, memory)}]}


both_policies = pytest.mark.parametrize(("policy", "fair", "packed"), [("cfs", 0.97, 0.98), ("goodput", 0.8, 0.97)])
"""`goodput` does not even out for its own sake: a size that gains less than its pause costs is left as it is."""


def cluster(policy: str) -> VirtualCluster:
    nodes = [node(f"n{number:03}", cpu=cores, memory="102Gi") for number, cores in enumerate(MIX)]
    made = VirtualCluster(nodes, now=NOW, grace=GRACE, settings=Settings(policy=policy))
    for number in range(len(MIX)):
        made.add_foreign(f"calico-{number:03}", spec("250m", "200Mi"), owner="calico", on=f"n{number:03}")
    made.settle()
    return made


def mnist(number: int, start: int = 2) -> Data:
    servers = {"min-instance": 10, "max-instance": 10, "resources": resources(4, "5Gi")}
    master = {"resources": resources(1, "300Mi")}
    trainers = {"replicas": start}
    return training_job(
        f"mnist-{number:02}", 2, 60, cpu=5, memory="8Gi", master=master, pserver=servers, trainer=trainers
    )


def jain(sizes: list[int]) -> float:
    return sum(sizes) ** 2 / (len(sizes) * sum(size * size for size in sizes))


def packing_bound(made: VirtualCluster) -> float:
    """The share of all cores that can be in use at most: the pods of others where they are, and around them whole
    pods of ours, as many servers and masters as the jobs have and trainers at will.
    """
    jobs, others = len(made.jobs), dict.fromkeys(made.capacity, 0)
    for pod in made.pods.values():
        if not pod.job and pod.node:
            others[pod.node] += pod.requests["cpu"]
    frees = [made.capacity[name]["cpu"] - taken for name, taken in others.items()]

    def best(free: int, price: int) -> int:
        """The most one node can bring, a server counting what its price leaves."""
        counts = range(free // SERVER + 1)
        return max((free - n * SERVER) // TRAINER * TRAINER + n * (SERVER - price) for n in counts)

    bounds = [sum(best(free, price) for free in frees) + 10 * jobs * price for price in range(-4000, 4001, 250)]
    return (min(bounds) + jobs * MASTER + sum(others.values())) / CORES


def utilisation(made: VirtualCluster) -> float:
    return made.total_used("cpu") / CORES


def nobody_waits_while_another_has_more(made: VirtualCluster) -> None:
    """After a cycle: if someone is below its minimum, nobody is above its own, but for those who are making room."""
    assert made.last is not None
    waiting = [job for job in made.last.jobs if job.target < job.min and "room is being made" not in job.reason]
    above = [job for job in made.last.jobs if job.target > job.min]
    assert not (waiting and above), (waiting[0].reason, above[0].name)


@both_policies
def test_case_1_twenty_jobs_share_the_cluster(
    policy: str, fair: float, packed: float, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cluster(policy)
    started: dict[str, float] = {}
    stable: list[float] = []
    submitted = 0
    for seconds in range(0, 5 + 12 * 19 + 300, TICK):
        while submitted < 20 and 5 + 12 * submitted <= seconds:
            made.submit(mnist(submitted))
            submitted += 1
        made.cycle()
        nobody_waits_while_another_has_more(made)
        for name in made.jobs:
            if made.size(name) >= 2:
                started.setdefault(name, seconds - (5 + 12 * int(name[-2:])))
        if seconds >= 300:
            stable.append(utilisation(made))
        made.advance(TICK)
    sizes = [made.size(name) for name in sorted(made.jobs)]
    bound = packing_bound(made)
    mean = sum(stable) / len(stable)
    wait = sum(started.values()) / 20
    with capsys.disabled():
        print(
            f"\n{policy}, case 1 on {MIX.count(12)} nodes of 12 cores, {MIX.count(24)} of 24 and {MIX.count(32)} of 32:"
        )
        print(f"  Jain {jain(sizes):.3f} (published run: 0.38 to 0.47), mean wait {wait:.1f} s (47.2 s)")
        print(f"  utilisation once stable {mean:.3f}, packing bound {bound:.3f}, ratio {mean / bound:.3f}")
        print(f"  {made.rescales} changes of size, {made.kills} pods moved")
    assert len(started) == 20
    assert max(started.values()) <= 15
    assert min(sizes) >= 2
    assert jain(sizes) >= fair
    assert mean >= packed * bound


class Nginx:
    """The online service: pods of 3 cores and 3 GiB that are not ours."""

    def __init__(self, made: VirtualCluster) -> None:
        self.made, self.wanted = made, 0

    def scale(self, to: int) -> None:
        for number in range(self.wanted, to):
            self.made.add_foreign(f"nginx-{number:03}", spec(3, "3Gi"), owner="nginx")
        for number in range(to, self.wanted):
            self.made.delete_foreign(f"nginx-{number:03}")
        self.wanted = to
        self.made.settle()

    @property
    def running(self) -> int:
        return sum(pod.name.startswith("nginx") and bool(pod.node) for pod in self.made.pods.values())


def mean_between(used: dict[int, float], first: int, last: int) -> float:
    shares = [share for seconds, share in used.items() if first <= seconds <= last]
    return sum(shares) / len(shares)


@both_policies
def test_case_2_the_online_service_is_never_short_after_one_cycle(
    policy: str, fair: float, packed: float, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cluster(policy)
    nginx = Nginx(made)
    nginx.scale(400)
    steps = {110: 300, 205: 200, 295: 100, 390: 200, 480: 300, 575: 400}
    used: dict[int, float] = {}
    ratios: list[float] = []
    shortfall = 0
    for seconds in range(0, 700, TICK):
        if seconds < 30 and seconds % 5 == 0:
            made.submit(mnist(seconds // 5, start=15))
        if seconds in steps:
            nginx.scale(steps[seconds])
        made.cycle()
        nobody_waits_while_another_has_more(made)
        if seconds not in steps:
            assert nginx.running == nginx.wanted, (seconds, nginx.running, "short after one cycle")
        shortfall += nginx.wanted - nginx.running
        used[seconds] = utilisation(made)
        if seconds in (365, 460, 555, 695):  # long after a step: whatever froze has thawed
            ratios.append(used[seconds] / packing_bound(made))
        made.advance(TICK)
    sizes = [made.size(name) for name in sorted(made.jobs)]
    mean, low = mean_between(used, 0, 550), mean_between(used, 310, 370)
    with capsys.disabled():
        print(f"\n{policy}, case 2: online pods short after one cycle: 0 (the published run ended with 332 of 400)")
        print(f"  utilisation to 550 s {mean:.3f} (published run: 0.834), off-peak {low:.3f} (0.794)")
        print("  to the packing bound around the online pods, once stable:", [round(one, 3) for one in ratios])
        print(f"  Jain {jain(sizes):.3f}, {made.rescales} changes of size, {made.kills} pods moved")
    assert jain(sizes) >= fair
    assert min(ratios) >= packed
    assert low > 0.79
    assert mean > 0.83
    assert shortfall <= 100 * len(steps)
