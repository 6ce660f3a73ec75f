"""Whatever a snapshot holds, there is an answer or a clear refusal: never an exception, a hang or a float artefact."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.scheduler.plan import plan
from edl.scheduler.reasons.codes import Code
from edl.scheduler.settings import Settings, parse_load
from edl.scheduler.snapshot.builder import build_snapshot
from edl.scheduler.snapshot.objects import from_plain
from tests.scheduler.makers import (
    NOW,
    Data,
    child,
    elastic_job,
    node,
    of,
    planned,
    pod,
    pods_of,
    quota,
    running,
    targets,
    training_job,
)


def test_nothing_at_all_is_a_plan() -> None:
    result = planned()
    assert (result.jobs, result.foreign) == ((), ())
    assert result.cluster.capacity == {"cpu": 0, "memory": 0, "pods": 0}


def test_unknown_kinds_are_ignored() -> None:
    strange = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}},
        {"apiVersion": "example.com/v1", "kind": "TrainingJob", "metadata": {"name": "a"}, "spec": {}},
        {"kind": "Pod"},
        {},
        {"apiVersion": 7, "kind": ["Pod"]},
        {"apiVersion": "v1", "kind": "List", "items": [None, 3, "x", {"apiVersion": "v1", "kind": "Secret"}]},
    ]
    result = planned(node("n1"), strange, elastic_job("good", 1, 2))
    assert targets(result) == {"good": 2}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"trainer": {"entrypoint": "x", "min-instance": 7, "max-instance": 6}}, "7 is more than max-instance 6"),
        ({"trainer": {"entrypoint": "x", "min-instance": -1}}, "spec.trainer.min-instance"),
        ({"trainer": {"entrypoint": "x", "min-instance": "two"}}, "spec.trainer.min-instance"),
        ({"trainer": {"min-instance": 1}}, "spec.trainer.entrypoint"),
        ({}, "spec.trainer"),
        (None, "spec"),
        ({"trainer": {"entrypoint": "x", "min-instance": 1, "max_instance": 2}}, "did you mean max-instance?"),
        (
            {"trainer": {"entrypoint": "x", "min-instance": 1, "resources": {"limits": {"cpu": "-1"}}}},
            "negative",
        ),
        (
            {"trainer": {"entrypoint": "x", "min-instance": 1, "resources": {"limits": {"cpu": "lots"}}}},
            "lots",
        ),
    ],
)
def test_a_job_that_does_not_validate_is_reported_under_its_name_and_left_alone(spec: Any, words: str) -> None:
    bad = {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": "bad"}, "spec": spec}
    result = planned(node("n1"), bad, elastic_job("good", 1, 2))
    decision = of(result, "bad")
    assert (decision.code, decision.target, decision.current) == (Code.INVALID, 0, 0)
    assert words in decision.reason
    assert targets(result)["good"] == 2


def test_the_pods_of_an_invalid_job_occupy_and_stay() -> None:
    bad = training_job("bad", 1, 9)
    runs = running(bad, {"n1": 3})
    bad["spec"]["trainer"]["min-instance"] = 77
    result = planned(
        node("n1", cpu="4100m"), runs, elastic_job("good", 1, 9), pod("web", cpu=1, refused=9), max_load="1"
    )
    assert (of(result, "bad").current, of(result, "bad").target) == (4, 4)
    assert of(result, "bad").leavers == {}
    assert targets(result)["good"] == 0


def test_an_object_that_cannot_be_read_is_left_out_and_named() -> None:
    broken = node("broken")
    broken["status"]["allocatable"] = ["cpu"]
    objects = from_plain([broken, node("n1"), elastic_job("a", 1, 2)])
    assert len(objects.nodes) == 1
    assert objects.problems[0].startswith("Node /broken cannot be read: ")


@pytest.mark.parametrize("amount", ["-4", "", "abc", "1e400", "9" * 40, "1e-40", "1.5.2", "0x10", "100Zi", "٣"])
def test_absurd_quantities_on_nodes_and_pods(amount: str) -> None:
    strange = node("strange", cpu=amount, memory=amount)
    result = planned(strange, node("n1", cpu=4), pod("web", "n1", cpu=amount, memory="1Gi"), elastic_job("a", 1, 9))
    assert 0 <= targets(result)["a"] <= 9


def test_huge_quantities_do_not_wrap_around() -> None:
    huge = [node(f"n{number:03}", cpu="1E", memory="7E") for number in range(120)]
    job = elastic_job("a", 1, 3, cpu="500P", memory="4E")
    result = planned(huge, job, max_load="1")
    assert targets(result) == {"a": 3}
    assert of(result, "a").placements == {"worker": {"n000": 1, "n001": 1, "n002": 1}}


def test_a_tenth_of_a_core_ten_times_is_one_core() -> None:
    for accounting in ("limits", "requests"):
        result = planned(node("n1", cpu=1), elastic_job("a", 1, 20, cpu="0.1"), max_load="1", available=accounting)
        assert targets(result) == {"a": 10}


@pytest.mark.parametrize("status", [{}, {"allocatable": {}}, {"capacity": {"cpu": "4", "memory": "8Gi"}}])
def test_nodes_without_capacity_or_with_little_said(status: Data) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}, "status": status}
    result = planned(bare, elastic_job("a", 1, 9), max_load="1")
    assert targets(result) == {"a": 4 if "capacity" in status else 0}


def test_pods_on_unknown_nodes_count_for_their_job_and_for_no_node() -> None:
    job = elastic_job("a", 1, 4)
    result = planned(node("n1", cpu=4), running(job, {"gone": 2}), max_load="1")
    assert of(result, "a").current == 2
    assert of(result, "a").placements == {"worker": {"n1": 2}}


def test_max_below_current_is_cut_and_min_equals_max_is_held() -> None:
    jobs = [running(elastic_job("a", 1, 2), {"n1": 5}), running(elastic_job("b", 3, 3), {"n1": 3})]
    assert targets(planned(node("n1"), jobs)) == {"a": 2, "b": 3}


def test_a_million_replicas_are_no_problem() -> None:
    begun = time.process_time()
    nodes = [node(f"n{number}", cpu=64) for number in range(4)]
    result = planned(nodes, elastic_job("a", 1, 1_000_000, cpu="1m", memory="1Mi"), max_load="1")
    assert targets(result) == {"a": 440}
    waiting = planned(nodes, elastic_job("b", 1_000_000, 1_000_000), max_load="1")
    assert targets(waiting) == {"b": 0}
    job = training_job("c", 1, 1_000_000)
    assert targets(planned(nodes, job, child(job, 1_000_000))) == {"c": 255}
    assert time.process_time() - begun < 10


def test_pods_that_ask_for_nothing_end_with_the_pods_a_node_takes() -> None:
    job = elastic_job("a", 1, 10_000)
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] = {}
    assert targets(planned(node("n1", pods=50), job)) == {"a": 50}


@pytest.mark.parametrize("text", ["yesterday", "", None, 17, "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z"])
def test_times_that_are_none(text: Any) -> None:
    job = elastic_job("a", 1, 4, status={"scale": {"target": 1, "lastScaleTime": text}})
    job["metadata"]["creationTimestamp"] = text
    web = pod("web", cpu=1, refused=5)
    web["metadata"]["creationTimestamp"] = text
    web["status"]["conditions"][0]["lastTransitionTime"] = text
    gone = pod("gone", "n1")
    gone["metadata"]["deletionTimestamp"] = text
    result = planned(node("n1"), running(job, {"n1": 1}), web, gone)
    assert len(result.jobs) == 1


def test_a_clock_that_went_backwards_freezes_nobody_for_ever() -> None:
    """The last change is in the future by an hour: the window is longer than it should be, and it ends."""
    from tests.scheduler.makers import stamp

    job = elastic_job("a", 1, 4, status={"scale": {"target": 1, "lastScaleTime": stamp(-3600)}})
    decision = of(planned(node("n1"), running(job, {"n1": 1})), "a")
    assert decision.reason.startswith("holds 1: frozen for another ")
    assert targets(planned(node("n1"), running(job, {"n1": 1}), now=NOW + 3631)) == {"a": 4}


@pytest.mark.parametrize("text", ["0", "-1", "97", "nan", "inf", "x", "", "1/0"])
def test_a_load_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"wants a number above 0 and up to 1, such as 0\.97"):
        parse_load(text)


def test_a_quota_of_nonsense() -> None:
    result = planned(node("n1"), quota("default", cpu="lots", pods="-3", requests__memory=""), elastic_job("a", 1, 2))
    assert targets(result) == {"a": 0}


def test_objects_that_own_themselves() -> None:
    itself = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "r", "uid": "r", "controller": True}
    metadata = {"name": "r", "namespace": "default", "uid": "r", "ownerReferences": [itself]}
    ring = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}
    assert targets(planned(node("n1"), pod("loop", "n1", owner=itself), ring, elastic_job("a", 1, 2))) == {"a": 2}


def test_the_same_object_listed_twice_counts_once() -> None:
    job = elastic_job("a", 1, 4)
    twice = [node("n1", cpu=4), running(job, {"n1": 2}), running(job, {"n1": 2}), node("n1", cpu=4)]
    assert of(planned(twice, max_load="1"), "a").current == 2
    assert targets(planned(twice, max_load="1")) == {"a": 4}


# Anything in any place

_scalar = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8) | st.floats(allow_nan=True)
_anything = st.recursive(
    _scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _paths(inner, (*at, key))
    return found


def _replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    if isinstance(value, dict):
        return {key: _replaced(inner, at[1:], new) if key == at[0] else inner for key, inner in value.items()}
    return [_replaced(inner, at[1:], new) if key == at[0] else inner for key, inner in enumerate(value)]


def _small_world() -> list[Data]:
    job = training_job("a", 1, 4, status={"scale_status": {"target": 2, "last_scale_time": "2030-03-17T17:00:00Z"}})
    web = pod("web", cpu=1, refused=5, spec={"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]})
    return [
        node("n1", gpu=2, taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("n2"),
        job,
        *pods_of(job, {"n2": 2}),
        child(job, 2),
        elastic_job("b", 1, 3, annotations={"edl.dev/sizes": "1,3", "edl.dev/priority": "Offline"}),
        web,
        quota("default", pods=20, cpu=9),
    ]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_one_field_replaced_by_anything(data: st.DataObject) -> None:
    objects = _small_world()
    place = data.draw(st.integers(0, len(objects) - 1))
    at = data.draw(st.sampled_from(_paths(objects[place])))
    objects[place] = _replaced(objects[place], at, data.draw(_anything))
    snapshot = build_snapshot(from_plain(objects))
    for policy in ("cfs", "fulfillment"):
        result = plan(snapshot, now=NOW, settings=Settings(policy=policy))
        assert all(job.reason and job.target >= 0 for job in result.jobs)


@settings(max_examples=200, deadline=None)
@given(_anything)
def test_anything_at_all(value: Any) -> None:
    result = plan(build_snapshot(from_plain([value, {"kind": "List", "items": [value]}])), now=NOW)
    assert result.jobs == ()
