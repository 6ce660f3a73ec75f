"""Fit of pods to nodes: what a pod asks for, which nodes it may use, gangs of several roles, and neighbours."""

from typing import Any

import pytest

from edl.api.kubernetes.core import Pod, convert
from edl.scheduler.placement.resources import pod_limits, pod_requests, show
from edl.scheduler.snapshot.pod_facts import read_pod
from tests.scheduler.makers import (
    Data,
    elastic_job,
    node,
    of,
    planned,
    pod,
    pods_of,
    resources,
    running,
    targets,
    training_job,
)

ALL: dict[str, Any] = {"max_load": "1"}


def asked(**spec: Any) -> dict[str, int]:
    return pod_requests(convert({"spec": spec}, Pod).spec)


def container(cpu: str, **more: Any) -> Data:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


# What a pod asks for


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        ({"containers": [container("2")], "initContainers": [container("1"), container("1")]}, 2000),
        ({"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always")]}, 2000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("4")],
            },
            5000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [container("0.1")] * 10}, 1000),
        ({"containers": [container("100u")]}, 1),
    ],
    ids=[
        "containers add up",
        "an init container that needs more",
        "init containers run one by one",
        "a sidecar stays",
        "an init container beside a sidecar",
        "overhead",
        "resources of the pod",
        "a limit without a request",
        "a tenth ten times is one",
        "rounded up",
    ],
)
def test_requests_are_counted_as_kube_scheduler_counts_them(spec: Data, cpu: int) -> None:
    assert asked(**spec)["cpu"] == cpu


def test_a_container_that_is_being_resized_holds_the_larger_of_both() -> None:
    plain = {
        "spec": {"containers": [container("1")]},
        "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
    }
    resizing = convert(plain, Pod)
    assert pod_requests(resizing.spec, resizing.status.container_statuses)["cpu"] == 3000


@pytest.mark.case("acceptance-2")
def test_a_resize_that_its_node_can_never_grant_takes_nothing() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1000"}}}
    status = {
        "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
    }
    refused = convert({"spec": {"containers": [container]}, "status": status}, Pod)
    assert read_pod(refused).requests["cpu"] == 2000


def test_limits_fall_back_to_requests_per_container() -> None:
    spec = {"containers": [container("1"), {"name": "d", "resources": {"limits": {"cpu": "4"}}}]}
    assert pod_limits(convert({"spec": spec}, Pod).spec)["cpu"] == 5000


@pytest.mark.parametrize(
    ("name", "units", "words"),
    [
        ("cpu", 3000, "3 CPU"),
        ("cpu", 250, "0.25 CPU"),
        ("memory", 3 * 2**29, "1.5 GiB memory"),
        ("memory", 2**20, "1 MiB memory"),
        ("nvidia.com/gpu", 1, "1 GPU"),
        ("nvidia.com/gpu", 8, "8 GPUs"),
        ("example.com/fpga", 2, "2 example.com/fpga"),
    ],
)
def test_amounts_read_well(name: str, units: int, words: str) -> None:
    assert show(name, units) == words


# Which nodes it may use


def expression(key: str, operator: str, *values: str) -> Data:
    return {"key": key, "operator": operator, "values": list(values)}


def affinity(*terms: Data) -> Data:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("template", "allowed"),
    [
        ({"nodeSelector": {"zone": "a"}}, "a"),
        ({"nodeSelector": {"zone": "a", "disk": "ssd"}}, ""),
        (affinity({"matchExpressions": [expression("zone", "In", "b", "c")]}), "bc"),
        (affinity({"matchExpressions": [expression("zone", "NotIn", "b", "c")]}), "ad"),
        (affinity({"matchExpressions": [expression("big", "Exists")]}), "c"),
        (affinity({"matchExpressions": [expression("big", "DoesNotExist")]}), "abd"),
        (affinity({"matchExpressions": [expression("big", "Gt", "5")]}), "c"),
        (affinity({"matchExpressions": [expression("big", "Lt", "5")]}), ""),
        (affinity({"matchExpressions": [expression("zone", "Gt", "5")]}), ""),
        (affinity({"matchFields": [expression("metadata.name", "In", "node-d")]}), "d"),
        (
            affinity(
                {"matchExpressions": [expression("zone", "In", "a")]},
                {"matchExpressions": [expression("zone", "In", "d")]},
            ),
            "ad",
        ),
        (affinity({}), ""),
    ],
)
def test_selectors_and_affinity(template: Data, allowed: str) -> None:
    nodes = [node(f"node-{zone}", cpu=1, labels={"zone": zone}) for zone in "abd"]
    nodes.append(node("node-c", cpu=1, labels={"zone": "c", "big": "9"}))
    decision = of(planned(nodes, elastic_job("a", 1, 9, template=template), **ALL), "a")
    assert "".join(sorted(name[-1] for name in decision.placements.get("worker", {}))) == allowed


@pytest.mark.parametrize(
    ("toleration", "goes"),
    [
        (None, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
    ],
)
def test_taints_and_tolerations(toleration: Data | None, goes: bool) -> None:
    tainted = node("n1", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    template = {"tolerations": [toleration]} if toleration else {}
    decision = of(planned(tainted, elastic_job("a", 1, 1, template=template), **ALL), "a")
    assert bool(decision.target) is goes
    if not goes:
        assert decision.reason == "waits: no usable node suits a worker (taint gpu=yes:NoSchedule)"


def test_a_taint_that_only_prefers_repels_nobody() -> None:
    soft = node("n1", taints=[{"key": "gpu", "effect": "PreferNoSchedule"}])
    assert targets(planned(soft, elastic_job("a", 1, 1), **ALL)) == {"a": 1}


def test_extended_resources_count_per_node() -> None:
    nodes = [node("n1", extra={"example.com/fpga": "1"}), node("n2", extra={"example.com/fpga": "3"}), node("n3")]
    job = elastic_job("a", 1, 9)
    container = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["example.com/fpga"] = "2"
    decision = of(planned(nodes, job, **ALL), "a")
    assert decision.placements == {"worker": {"n2": 1}}


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu", "amd.com/gpu"])
def test_gpus_by_any_name_make_a_gpu_job(name: str) -> None:
    job = elastic_job("a", 1, 9)
    container = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"][name] = "2"
    decision = of(planned(node("n1", extra={name: "4"}), job, **ALL), "a")
    assert (decision.target, decision.reason) == (2, "+2: 4 of 4 GPUs were free; limited by what is free")


def test_a_node_takes_no_more_pods_than_it_says() -> None:
    plan = planned(node("n1", cpu=64, pods=3), elastic_job("a", 1, 9), **ALL)
    assert targets(plan) == {"a": 3}


# Gangs


def gang(**more: Any) -> Data:
    """etcd 3 x 1, master 2, 2 parameter servers of 4, trainers of 3 cores."""
    return training_job(
        "gang",
        2,
        4,
        cpu=3,
        master={"resources": resources(2)},
        pserver={"min-instance": 2, "resources": resources(4)},
        etcd={"replicas": 3, "resources": resources(1)},
        **more,
    )


def test_a_minimum_of_many_roles_is_admitted_whole() -> None:
    """19 cores in all: 10 and 9 do, but only if packed well: 4+3+3 and 4+2+1+1+1."""
    plan = planned(node("n1", cpu=10), node("n2", cpu=9), gang(), **ALL)
    decision = of(plan, "gang")
    assert decision.roles == {"etcd": 3, "master": 1, "pserver": 2, "trainer": 2}
    assert sum(count for nodes in decision.placements.values() for count in nodes.values()) == 8


def test_or_not_at_all() -> None:
    plan = planned(node("n1", cpu=10), node("n2", cpu=8), gang(), **ALL)
    decision = of(plan, "gang")
    assert (decision.target, decision.placements) == (0, {})
    assert plan.cluster.used_after["cpu"] == 0


def test_a_gang_that_greed_cannot_place_is_found_by_search() -> None:
    """Trainers of 3 first would take 6 of the larger node; the servers of 4 then fit nowhere together."""
    job = training_job("a", 2, 2, cpu=3, master=None, pserver={"min-instance": 2, "resources": resources(2)})
    plan = planned(node("n1", cpu=5), node("n2", cpu=5), job, **ALL)
    assert of(plan, "a").target == 2


def test_roles_with_selectors_of_their_own() -> None:
    """The servers must be on the one node with disks, which the trainers could fill."""
    servers = {"min-instance": 2, "resources": resources(2), "template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
    job = training_job("a", 4, 4, cpu=2, master=None, pserver=servers)
    nodes = [node("n1", cpu=4, labels={"disk": "ssd"}), node("n2", cpu=8)]
    assert of(planned(nodes, job, **ALL), "a").placements == {"pserver": {"n1": 2}, "trainer": {"n2": 4}}


def test_servers_are_placed_where_they_spoil_the_room_of_the_fewest_trainers() -> None:
    """24 cores hold three trainers of 5 and two servers of 4; 12 hold two trainers and nothing beside them."""
    servers, master = {"min-instance": 2, "resources": resources(4)}, {"resources": resources("1m", "1Mi")}
    job = training_job("a", 1, 20, cpu=5, master=master, pserver=servers)
    plan = planned(node("small", cpu=12), node("large", cpu=24), job, **ALL)
    assert of(plan, "a").placements["pserver"] == {"large": 2}
    assert targets(plan) == {"a": 5}


# Neighbours


def apart(key: str = "kubernetes.io/hostname", **labels: str) -> Data:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels or {"edl.dev/job": "a"}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_anti_affinity_spreads_workers_over_hosts() -> None:
    nodes = [node(f"n{number}") for number in range(3)]
    plan = planned(nodes, elastic_job("a", 1, 9, template=apart()), **ALL)
    assert of(plan, "a").placements == {"worker": {"n0": 1, "n1": 1, "n2": 1}}


def test_anti_affinity_counts_pods_that_are_there() -> None:
    job = elastic_job("a", 1, 9, template=apart())
    nodes = [node(f"n{number}") for number in range(3)]
    assert of(planned(nodes, running(job, {"n1": 1}), **ALL), "a").placements == {"worker": {"n0": 1, "n2": 1}}
    noisy = pod("noisy", "n0", labels={"noisy": "yes"})
    shy = elastic_job("a", 1, 9, template=apart(noisy="yes"))
    assert of(planned(nodes, noisy, shy, **ALL), "a").placements == {"worker": {"n1": 9}}


def test_anti_affinity_of_others_binds_us_too() -> None:
    solitary = pod("solitary", "n0", spec=apart(**{"edl.dev/role": "worker"}))
    plan = planned(node("n0"), node("n1", cpu=2), solitary, elastic_job("a", 1, 9), **ALL)
    assert of(plan, "a").placements == {"worker": {"n1": 2}}


def test_affinity_keeps_together_and_the_first_may_choose() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"edl.dev/job": "a"}}}
    template = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    nodes = [node(f"n{number}", cpu=2, labels={"zone": zone}) for number, zone in enumerate("aabb")]
    placed = of(planned(nodes, elastic_job("a", 1, 9, template=template), **ALL), "a").placements["worker"]
    assert placed in ({"n0": 2, "n1": 2}, {"n2": 2, "n3": 2})


def test_topology_spread_keeps_zones_even() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"edl.dev/job": "a"}},
    }
    nodes = [node("n0", cpu=8, labels={"zone": "a"}), node("n1", cpu=2, labels={"zone": "b"})]
    plan = planned(nodes, elastic_job("a", 1, 9, template={"topologySpreadConstraints": [constraint]}), **ALL)
    assert of(plan, "a").placements == {"worker": {"n0": 3, "n1": 2}}


@pytest.mark.case("acceptance-22")
@pytest.mark.parametrize("policy", ["cfs", "fulfillment"])
def test_helpers_of_a_cpu_job_leave_gpu_nodes_alone(policy: str) -> None:
    servers = {"min-instance": 2, "resources": resources(1)}
    job = training_job("a", 2, 4, pserver=servers, etcd={"replicas": 1, "resources": resources(1)})
    decision = of(planned(node("gpu", cpu=64, gpu=8), node("cpu", cpu=8), job, policy=policy), "a")
    assert decision.placements.keys() == {"etcd", "master", "pserver", "trainer"}
    assert {name for by_node in decision.placements.values() for name in by_node} == {"cpu"}


def towards(*nodes: str) -> Data:
    field = {"key": "metadata.name", "operator": "In"}
    terms = [{"weight": 100, "preference": {"matchFields": [field | {"values": [name]}]}} for name in nodes]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize("bound", [0, 1])
def test_servers_that_wait_for_a_node_count_where_the_plan_put_each_of_them(bound: int) -> None:
    """They share a template, and so its wishes: both fit on the first node, but were planned on one each."""
    job = training_job("a", 2, 2, cpu=2, master=None, pserver={"min-instance": 2, "resources": resources(2)})
    servers = pods_of(job, [*["n1", "n1"][:bound], *["", ""][bound:]], "pserver")
    for server in servers:
        server["spec"] |= towards("n1", "n2")
    plan = planned(
        node("n1", cpu=4), node("n2", cpu=4), job | {"status": {"scale_status": {"target": 2}}}, servers, **ALL
    )
    assert of(plan, "a").placements == {"trainer": {"n1": 1, "n2": 1}}
