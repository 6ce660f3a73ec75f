"""The node that a pod gets, and the message when it gets none."""

from typing import Any

import msgspec
import pytest

from edl.api.kubernetes.core import Node, Pod
from edl.embedded.podscheduler.capacity import requests_of
from edl.embedded.podscheduler.decide import Outcome, decide
from edl.embedded.podscheduler.state import ClusterState

READY = [{"type": "Ready", "status": "True"}]


def node(name: str, cpu: str = "4", *, labels: dict[str, str] | None = None, ready: bool = True, **more: Any) -> Node:
    spec = {key: more.pop(key) for key in ("taints", "unschedulable") if key in more}
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10", **more},
            "conditions": READY if ready else [],
        },
    }
    return msgspec.convert(body, Node)


def pod(name: str = "p", cpu: str = "1", *, labels: dict[str, str] | None = None, on: str = "", **spec: Any) -> Pod:
    requests = {"cpu": cpu, **spec.pop("requests", {})}
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], "nodeName": on, **spec},
    }
    return msgspec.convert(body, Pod)


def place(one: Pod, nodes: list[Node], *bound: Pod) -> Outcome:
    return decide(one, ClusterState(nodes, [(other, other.spec.node_name) for other in bound]), {"ns": {"team": "a"}})


def affinity(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


def prefer(weight: int, key: str, value: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    preferred = [{"weight": weight, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def between(kind: str, app: str, key: str = "kubernetes.io/hostname", **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_the_emptier_node_wins_and_of_equals_the_first() -> None:
    assert place(pod(), [node("b"), node("a")]).node == "a"
    assert place(pod(), [node("a"), node("b")], pod("x", "3", on="a")).node == "b"


def test_a_preference_outweighs_emptiness() -> None:
    nodes = [node("a"), node("b", labels={"zone": "z"})]
    crowded = [pod(f"x{i}", "1", on="b") for i in range(3)]
    assert place(pod(affinity=prefer(1, "zone", "z")), nodes, *crowded).node == "b"
    assert place(pod(), nodes, *crowded).node == "a"


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (pod(cpu="5"), "0/2 nodes are available: 2 Insufficient cpu."),
        (
            pod(cpu="5", requests={"memory": "9Gi"}),
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.",
        ),
        (pod(requests={"nvidia.com/gpu": "1"}), "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."),
        (pod(nodeSelector={"x": "y"}), "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        (
            pod(affinity=affinity("kubernetes.io/hostname", "z")),
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        ),
        (
            pod(cpu="5", affinity=affinity("kubernetes.io/hostname", "a")),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector.",
        ),
    ],
)
def test_why_there_is_none(one: Pod, message: str) -> None:
    assert place(one, [node("a"), node("b")]) == Outcome(message=message)


def test_no_nodes_at_all() -> None:
    assert place(pod(), []).message == "no nodes available to schedule pods"


def test_too_many_pods() -> None:
    crowd = [pod(f"x{i}", "0", on="a") for i in range(10)]
    assert place(pod(), [node("a")], *crowd).message == "0/1 nodes are available: 1 Too many pods."


def test_finished_pods_hold_nothing() -> None:
    done = msgspec.structs.replace(
        pod("x", "4", on="a"), status=msgspec.convert({"phase": "Failed"}, type(pod().status))
    )
    assert place(pod(cpu="4"), [node("a")], done).node == "a"


@pytest.mark.parametrize(
    ("taint", "tolerations", "placed"),
    [
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [], False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, [], False),
        ({"key": "k", "value": "v", "effect": "PreferNoSchedule"}, [], True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"key": "k", "value": "v"}], True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"key": "k", "value": "w"}], False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"key": "k", "operator": "Exists"}], True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"operator": "Exists"}], True),
        ({"key": "k", "effect": "NoSchedule"}, [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_taints(taint: dict[str, str], tolerations: list[dict[str, str]], placed: bool) -> None:
    outcome = place(pod(tolerations=tolerations), [node("a", taints=[taint])])
    assert bool(outcome.node) == placed
    if not placed:
        value = taint.get("value", "")
        assert outcome.message == f"0/1 nodes are available: 1 node(s) had untolerated taint {{k: {value}}}."


def test_a_soft_taint_is_avoided() -> None:
    shunned = node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    assert place(pod(), [shunned, node("b")], pod("x", "3", on="b")).node == "b"


def test_cordoned_and_unready_nodes() -> None:
    assert place(pod(), [node("a", unschedulable=True)]).message.endswith("1 node(s) were unschedulable.")
    gone = place(pod(), [node("a", ready=False)])
    assert gone.message.endswith("1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.")


@pytest.mark.parametrize(
    ("operator", "values", "placed"),
    [
        ("In", ["3"], True),
        ("NotIn", ["3"], False),
        ("NotIn", ["4"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["2"], True),
        ("Gt", ["3"], False),
        ("Lt", ["4"], True),
        ("Gt", ["x"], False),
    ],
)
def test_operators_of_node_affinity(operator: str, values: list[str], placed: bool) -> None:
    labelled = node("a", labels={"size": "3"})
    assert bool(place(pod(affinity=affinity("size", *values, operator=operator)), [labelled]).node) == placed


def test_affinity_by_the_name_of_the_node() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    assert place(pod(affinity=wanted), [node("a"), node("b")]).node == "b"


def test_anti_affinity_both_ways() -> None:
    apart = between("podAntiAffinity", "x")
    nodes = [node("a"), node("b")]
    other = pod("o", labels={"app": "x"}, on="a")
    assert place(pod(affinity=apart), nodes, other).node == "b"
    assert place(pod(affinity=apart), nodes[:1], other).message.endswith(
        "1 node(s) didn't match pod anti-affinity rules."
    )
    hermit = pod("h", affinity=apart, on="a")
    refused = place(pod(labels={"app": "x"}), nodes[:1], hermit)
    assert refused.message.endswith("1 node(s) didn't satisfy existing pods anti-affinity rules.")
    assert place(pod(labels={"app": "y"}), nodes[:1], hermit).node == "a"


def test_affinity_draws_to_others_and_the_first_of_a_kind_may_start() -> None:
    together = between("podAffinity", "x", key="zone")
    nodes = [node("a", labels={"zone": "1"}), node("b", labels={"zone": "2"}), node("c")]
    other = pod("o", labels={"app": "x"}, on="b")
    assert place(pod(affinity=together), nodes, other).node == "b"
    lonely = place(pod(affinity=together), nodes)
    assert lonely.message == "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    assert place(pod(labels={"app": "x"}, affinity=together), nodes).node == "a"


def test_namespaces_of_affinity_terms() -> None:
    other = pod("o", labels={"app": "x"}, on="a")
    elsewhere = between("podAntiAffinity", "x", namespaces=["other"])
    assert place(pod(affinity=elsewhere), [node("a")], other).node == "a"
    selected = between("podAntiAffinity", "x", namespaceSelector={"matchLabels": {"team": "a"}})
    assert place(pod(affinity=selected), [node("a")], other).node == ""


def test_requests() -> None:
    init = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"limits": {"cpu": "5"}}},
    ]
    assert requests_of(pod(cpu="2", initContainers=init))["cpu"] == 6 * 10**9
    assert requests_of(pod(cpu="9", initContainers=init))["cpu"] == 10 * 10**9
    assert requests_of(pod(cpu="1", overhead={"cpu": "1"}, resources={"requests": {"cpu": "3"}}))["cpu"] == 4 * 10**9


@pytest.mark.case("acceptance-2")
def test_while_a_pod_is_resized_the_larger_size_counts() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}
    shrinking = msgspec.structs.replace(pod("x", "1", on="a"), status=msgspec.convert(status, type(pod().status)))
    assert place(pod(cpu="1"), [node("a")], shrinking).node == ""


@pytest.mark.case("acceptance-2")
@pytest.mark.parametrize(("reason", "placed"), [("Infeasible", "a"), ("Deferred", "")])
def test_a_resize_that_can_never_be_granted_takes_nothing(reason: str, placed: str) -> None:
    status = {
        "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
    }
    growing = msgspec.structs.replace(pod("x", "1000", on="a"), status=msgspec.convert(status, type(pod().status)))
    assert place(pod(cpu="1"), [node("a")], growing).node == placed
