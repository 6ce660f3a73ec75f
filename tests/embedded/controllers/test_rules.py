"""The arithmetic behind the controllers, as tables."""

from typing import Any

import msgspec
import pytest

from edl.api.kubernetes.pod_network import Pod, Toleration
from edl.embedded.controllers.endpoints import Service, slices_of
from edl.embedded.controllers.graph import Graph, Owned
from edl.embedded.controllers.rollout import Generation, budget, recreate, roll, spread
from edl.embedded.controllers.statefulset import decide
from edl.embedded.controllers.taints import seconds_left, taints_of
from edl.embedded.controllers.types import Node, StatefulSet, Taint
from edl.embedded.resources import PODS


@pytest.mark.parametrize(
    ("surge", "unavailable", "desired", "absolute"),
    [
        ("25%", "25%", 4, (1, 1)),
        ("25%", "25%", 3, (1, 0)),
        ("25%", "25%", 1, (1, 0)),
        (0, "10%", 3, (0, 1)),
        (2, 1, 5, (2, 1)),
        (0, 9, 3, (0, 3)),
        ("100%", 0, 2, (2, 0)),
    ],
)
def test_budget(surge: int | str, unavailable: int | str, desired: int, absolute: tuple[int, int]) -> None:
    assert budget(surge, unavailable, desired) == absolute


def generation(name: str, replicas: int, available: int | None = None) -> Generation:
    return Generation(name, replicas, replicas, replicas if available is None else available)


@pytest.mark.parametrize(
    ("new", "old", "surge", "unavailable", "sizes"),
    [
        pytest.param((0, 0), [(3, 3)], 1, 0, {"new": 1}, id="grow by the surge first"),
        pytest.param((1, 0), [(3, 3)], 1, 0, {"new": 1, "old0": 3}, id="wait for the new one"),
        pytest.param((1, 1), [(3, 3)], 1, 0, {"new": 1, "old0": 2}, id="then one of the old goes"),
        pytest.param((1, 1), [(2, 2)], 1, 0, {"new": 2}, id="and so on"),
        pytest.param((3, 3), [(0, 0)], 1, 0, {"new": 3, "old0": 0}, id="done"),
        pytest.param((3, 2), [(1, 1)], 1, 0, {"new": 3, "old0": 1}, id="the last one waits"),
        pytest.param((0, 0), [(3, 3)], 0, 1, {"new": 0, "old0": 2}, id="without a surge the old shrinks first"),
        pytest.param((1, 0), [(3, 1)], 1, 1, {"new": 1, "old0": 2}, id="broken ones go first"),
        pytest.param((5, 5), [], 1, 0, {"new": 3}, id="scaled down"),
    ],
)
def test_roll(
    new: tuple[int, int], old: list[tuple[int, int]], surge: int, unavailable: int, sizes: dict[str, int]
) -> None:
    olds = [generation(f"old{i}", *one) for i, one in enumerate(old)]
    assert roll(generation("new", *new), olds, 3, surge=surge, unavailable=unavailable) == sizes


def test_recreate() -> None:
    assert recreate(generation("new", 0), [generation("old", 2)], 2) == {"old": 0}
    assert recreate(generation("new", 0), [Generation("old", 0, 1, 0)], 2) == {"old": 0}
    assert recreate(generation("new", 0), [generation("old", 0)], 2) == {"old": 0, "new": 2}


def test_spread_keeps_proportions() -> None:
    assert spread([generation("a", 6), generation("b", 2)], 4) == {"a": 3, "b": 1}
    assert spread([generation("a", 2), generation("b", 1)], 10) == {"a": 7, "b": 3}
    assert spread([generation("a", 3)], 3) == {}


def pod(name: str, *, ready: bool = True, leaving: bool = False, phase: str = "Running", **more: Any) -> Pod:
    meta = {"name": name, "uid": name, "labels": more.pop("labels", {"app": "x"})}
    if leaving:
        meta["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": phase, "podIP": "127.50.0.1", "conditions": [condition]}
    return msgspec.convert({"metadata": meta, "spec": more, "status": status}, Pod)


def stateful(replicas: int = 3, **spec: Any) -> StatefulSet:
    return msgspec.convert({"metadata": {"name": "s"}, "spec": {"replicas": replicas, **spec}}, StatefulSet)


def member(ordinal: int, revision: str = "new", **state: Any) -> Pod:
    return pod(f"s-{ordinal}", labels={"controller-revision-hash": revision}, **state)


@pytest.mark.parametrize(
    ("spec", "pods", "create", "delete"),
    [
        pytest.param({}, {}, [0], [], id="first"),
        pytest.param({}, {0: {}}, [1], [], id="next"),
        pytest.param({}, {0: {"ready": False}}, [], [], id="wait until ready"),
        pytest.param({}, {0: {}, 2: {}}, [1], [], id="a hole"),
        pytest.param({}, {0: {}, 1: {}, 2: {}, 3: {}, 4: {}}, [], [4], id="surplus from the end"),
        pytest.param({}, {0: {}, 1: {}, 2: {}, 3: {"leaving": True}}, [], [], id="one at a time"),
        pytest.param({}, {0: {"phase": "Failed"}}, [], [0], id="what ended goes"),
        pytest.param({}, {0: {}, 1: {"revision": "old"}, 2: {"revision": "old"}}, [], [2], id="update from the end"),
        pytest.param({}, {0: {}, 1: {"revision": "old"}, 2: {"ready": False}}, [], [], id="update waits"),
        pytest.param({}, {0: {"revision": "old", "ready": False}}, [], [0], id="a broken old one is replaced"),
        pytest.param({"podManagementPolicy": "Parallel"}, {}, [0, 1, 2], [], id="parallel"),
        pytest.param({"podManagementPolicy": "Parallel"}, {i: {} for i in range(5)}, [], [4, 3], id="parallel surplus"),
        pytest.param(
            {"updateStrategy": {"type": "OnDelete"}}, {i: {"revision": "old"} for i in range(3)}, [], [], id="on delete"
        ),
    ],
)
def test_stateful_steps(
    spec: dict[str, Any], pods: dict[int, dict[str, Any]], create: list[int], delete: list[int]
) -> None:
    members = {ordinal: member(ordinal, **state) for ordinal, state in pods.items()}
    assert decide(stateful(**spec), members, "new", 0.0) == (create, delete)


def service(**spec: Any) -> Service:
    ports = [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "raw", "port": 90}]
    body = {"selector": {"app": "x"}, "ports": ports, **spec}
    return msgspec.convert({"metadata": {"name": "svc", "uid": "u"}, "spec": body}, Service)


def listening(name: str, port: int, **state: Any) -> Pod:
    containers = [{"name": "c", "ports": [{"name": "http", "containerPort": port}]}]
    return pod(name, containers=containers, **state)


def test_a_slice_names_ready_pods_and_real_ports() -> None:
    named = listening("a", 8080, hostname="h", subdomain="svc", nodeName="n1")
    (body,) = slices_of(service(), [named, listening("b", 8080, ready=False), pod("done", phase="Succeeded")]).values()
    assert body["ports"] == [
        {"name": "web", "port": 8080, "protocol": "TCP"},
        {"name": "raw", "port": 90, "protocol": "TCP"},
    ]
    first, second = body["endpoints"]
    assert first["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert (first["hostname"], first["nodeName"], first["targetRef"]["name"]) == ("h", "n1", "a")
    assert second["conditions"]["ready"] is False


def test_pods_that_differ_in_their_ports_are_in_slices_of_their_own() -> None:
    slices = slices_of(service(), [listening("a", 8080), listening("b", 8081)])
    assert sorted(one["ports"][0]["port"] for one in slices.values()) == [8080, 8081]


def test_unready_addresses_are_published_when_asked() -> None:
    asked = service(publishNotReadyAddresses=True)
    (body,) = slices_of(asked, [listening("b", 1, ready=False), listening("c", 1, leaving=True)]).values()
    assert [one["conditions"]["ready"] for one in body["endpoints"]] == [True, True]


def test_a_pod_that_leaves_still_serves() -> None:
    (body,) = slices_of(service(), [listening("c", 1, leaving=True)]).values()
    assert body["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}


def node(ready: str, *, unschedulable: bool = False, taints: list[dict[str, str]] | None = None) -> Node:
    spec = {"unschedulable": unschedulable, "taints": taints or []}
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.convert({"metadata": {"name": "n"}, "spec": spec, "status": status}, Node)


@pytest.mark.parametrize(
    ("state", "cordoned", "keys"),
    [
        ("True", False, []),
        ("True", True, ["node.kubernetes.io/unschedulable:NoSchedule"]),
        ("False", False, ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]),
        ("Unknown", False, ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]),
    ],
)
def test_taints_follow_the_state(state: str, cordoned: bool, keys: list[str]) -> None:
    found = taints_of(node(state, unschedulable=cordoned), "now")
    assert [f"{one['key']}:{one['effect']}" for one in found] == keys


def test_taints_of_others_stay_and_ours_keep_their_time() -> None:
    theirs = {"key": "gpu", "value": "a", "effect": "NoSchedule"}
    ours = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "then"}
    found = taints_of(node("False", taints=[theirs, ours]), "now")
    assert theirs in found
    assert ours in found
    assert taints_of(node("True", taints=[theirs, ours]), "now") == [theirs]


@pytest.mark.parametrize(
    ("tolerations", "left"),
    [
        ([], 300.0),
        ([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 5}], 5.0),
        ([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}], None),
        ([{"operator": "Exists"}], None),
        ([{"key": "other", "operator": "Exists"}], 300.0),
        ([{"operator": "Exists", "tolerationSeconds": 9}, {"operator": "Exists", "tolerationSeconds": 3}], 3.0),
    ],
)
def test_how_long_a_pod_stays_on_a_lost_node(tolerations: list[dict[str, Any]], left: float | None) -> None:
    taint = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
    assert seconds_left([msgspec.convert(one, Toleration) for one in tolerations], [taint]) == left
    assert seconds_left([], [Taint("k", "", "NoExecute")]) == 0.0
    assert seconds_left([], [Taint("k", "", "NoSchedule")]) is None


def owned(uid: str, *owners: str, block: bool = False) -> Owned:
    references = [{"uid": owner, "name": owner, "blockOwnerDeletion": block} for owner in owners]
    return msgspec.convert({"metadata": {"name": uid, "uid": uid, "ownerReferences": references}}, Owned)


def test_the_graph_follows_changes_of_ownership() -> None:
    graph = Graph()
    graph.put(PODS, owned("a"))
    graph.put(PODS, owned("b", "a", block=True))
    graph.put(PODS, owned("c", "a", "b"))
    assert [one.item.metadata.uid for one in graph.dependents("a")] == ["b", "c"]
    assert [one.item.metadata.uid for one in graph.blocking("a")] == ["b"]
    graph.put(PODS, owned("c", "b"))
    assert [one.item.metadata.uid for one in graph.dependents("a")] == ["b"]
    assert graph.remove(owned("b", "a")) == ["c"]
    assert graph.dependents("a") == []
    assert graph.remove(owned("a")) == []
