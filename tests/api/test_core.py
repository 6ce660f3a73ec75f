"""The read-only Kubernetes types: what they keep, what they forgive, what they weigh."""

import pickle
import tracemalloc
from typing import Any

import msgspec
import pytest

from edl.api.kubernetes import core

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "job-trainer-17",
        "namespace": "default",
        "uid": "6a1f7c1e-3b7d-4f0e-9f57-0c3d7f3b2a11",
        "resourceVersion": "123456",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"edl.dev/job": "job", "edl.dev/role": "trainer", "edl.dev/index": "17", "paddle-job": "job"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {f"k:{n}": {} for n in range(40)}}}],
    },
    "spec": {
        "nodeName": "node-3",
        "containers": [
            {
                "name": "trainer",
                "image": "paddle",
                "env": [{"name": f"V{n}", "value": f"value-{n}"} for n in range(40)],
                "resources": {"limits": {"cpu": 1, "memory": "200Mi"}, "requests": {"cpu": "200m", "memory": "200Mi"}},
            }
        ],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            },
        },
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}] * 2,
    },
    "status": {
        "phase": "Running",
        "podIP": "10.1.1.1",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": "trainer",
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "signal": 9}},
                "lastState": {},
                "ready": False,
                "restartCount": 2,
                "resources": {"limits": {"cpu": 1, "memory": "200Mi"}},
            }
        ],
    },
}


def test_a_pod_keeps_what_decisions_read() -> None:
    pod = core.convert(POD, core.Pod)
    gpu = core.LabelRequirement("gpu", "In", ("a100",))
    assert pod.metadata.controller == core.OwnerReference("batch/v1", "Job", "j", "u", True)
    assert pod.spec.containers[0].resources.requests == {"cpu": "200m", "memory": "200Mi"}
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.spec.affinity == core.Affinity(
        node_affinity=core.NodeAffinity(core.NodeSelector((core.NodeSelectorTerm((gpu,)),))),
        pod_anti_affinity=core.PodAffinity(
            (core.PodAffinityTerm("kubernetes.io/hostname", core.LabelSelector({"a": "b"})),)
        ),
    )
    assert pod.status.container_statuses[0].state.terminated == core.Terminated(137, 9, "OOMKilled")
    assert pod.status.condition("Ready") == core.Condition("Ready", "True", last_transition_time="2026-01-01T00:00:00Z")
    assert pod.status.condition("Nothing") is None
    assert not pod.finished


@pytest.mark.parametrize("kind", core.KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_decodes_from_nothing_and_from_nulls(kind: type[core.Wire]) -> None:
    nothing = core.convert({}, kind)
    assert core.convert({"metadata": {"labels": None}, "spec": None, "status": None, "new": [None]}, kind) == nothing
    decoder = msgspec.json.Decoder(kind)
    assert core.from_json(b'{"metadata":{"labels":null},"data":null,"spec":null}', decoder) == nothing
    assert pickle.loads(pickle.dumps(nothing)) == nothing  # noqa: S301  # our own bytes


def test_null_inside_lists_is_dropped_and_wrong_types_are_named() -> None:
    node = core.convert({"spec": {"taints": [None, {"key": "a", "effect": None}]}}, core.Node)
    assert node.spec.taints == (core.Taint("a"),)
    with pytest.raises(msgspec.ValidationError, match=r"\$.spec.unschedulable"):
        core.convert({"spec": {"unschedulable": "yes"}}, core.Node)
    with pytest.raises(msgspec.ValidationError, match=r"\$.spec.unschedulable"):
        core.from_json(b'{"spec":{"unschedulable":1}}', msgspec.json.Decoder(core.Node))


def test_absent_mappings_are_one_and_cannot_be_changed() -> None:
    first, second = core.convert({}, core.Pod), core.convert({}, core.Node)
    assert first.spec.node_selector is second.status.allocatable
    with pytest.raises(TypeError, match="cannot be changed"):
        first.metadata.labels["a"] = "b"  # type: ignore[index]  # that is the point


def test_equal_resources_are_shared() -> None:
    first, second = core.convert(POD, core.Pod), core.convert(POD, core.Pod)
    assert first.spec.containers[0].resources.requests is second.spec.containers[0].resources.requests


def test_a_pod_of_four_and_a_half_kilobytes_weighs_less_than_five() -> None:
    plain = {name: value for name, value in POD["spec"].items() if name not in ("affinity", "initContainers")}
    text = msgspec.json.encode(POD | {"spec": plain})
    decoder = msgspec.json.Decoder(core.Pod)
    decoder.decode(text)
    tracemalloc.start()
    try:
        kept = [decoder.decode(text) for _ in range(200)]
        weight = tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()
    assert len(text) > 3000
    assert weight < 5000


def test_readiness_of_nodes() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert core.convert({"status": {"conditions": [ready]}}, core.Node).ready
    assert not core.convert({"status": {"conditions": [{**ready, "status": "Unknown"}]}}, core.Node).ready
    assert not core.convert({}, core.Node).ready
