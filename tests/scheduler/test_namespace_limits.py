"""Decision 25: ResourceQuota and LimitRange bind what may be planned."""

from typing import Any

import pytest

from edl.scheduler.reasons.codes import Code
from tests.scheduler.makers import (
    Data,
    elastic_job,
    node,
    of,
    planned,
    pod,
    pods_of,
    quota,
    resources,
    running,
    targets,
    training_job,
)

ALL: dict[str, Any] = {"max_load": "1"}


def limit_range(**item: Any) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "bounds", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", **item}]},
    }


def bare(name: str = "a", least: int = 1, most: int = 9, **asks: Any) -> Data:
    """An ElasticJob whose container states nothing but this."""
    job = elastic_job(name, least, most)
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] = asks
    return job


@pytest.mark.parametrize(
    ("hard", "target"),
    [
        ({"pods": 3}, 3),
        ({"count/pods": 3}, 3),
        ({"cpu": 4}, 4),
        ({"requests__cpu": 4}, 4),
        ({"limits__cpu": 4}, 4),
        ({"memory": "2Gi"}, 2),
        ({"requests__memory": "2Gi"}, 2),
        ({"requests__nvidia__com/gpu": 5}, 5),
        ({"services": 1, "configmaps": 0}, 8),
        ({"pods": 0}, 0),
    ],
)
def test_every_line_of_a_quota_that_is_about_pods_binds(hard: dict[str, Any], target: int) -> None:
    plan = planned(node("n1", cpu=64, gpu=8), quota("default", **hard), elastic_job("a", 1, 8, gpu=1), **ALL)
    assert targets(plan) == {"a": target}


def test_in_use_is_the_larger_of_what_status_says_and_what_the_pods_sum_to() -> None:
    objects = [node("n1", cpu=64), pod("other", "n1", cpu=3)]
    assert targets(planned(objects, quota("default", cpu=8), bare_job())) == {"a": 5}
    assert targets(planned(objects, quota("default", used={"cpu": "6"}, cpu=8), bare_job())) == {"a": 2}
    assert targets(planned(objects, quota("default", used={"cpu": "1"}, cpu=8), bare_job())) == {"a": 5}


def bare_job() -> Data:
    return elastic_job("a", 1, 9)


def test_a_quota_binds_its_own_namespace_alone() -> None:
    jobs = [elastic_job("a", 1, 9), elastic_job("b", 1, 9, namespace="other")]
    assert targets(planned(node("n1", cpu=64), quota("default", pods=2), jobs)) == {"a": 2, "b": 9}


def test_all_quotas_of_a_namespace_bind() -> None:
    second = quota("default", cpu=2)
    second["metadata"]["name"] = "second"
    assert targets(planned(node("n1"), quota("default", pods=5), second, elastic_job("a", 1, 9))) == {"a": 2}


def test_terminating_pods_still_use_quota() -> None:
    a = elastic_job("a", 1, 9)
    leaving = pods_of(a, {"n1": 2}, first=50, leaving=20)
    plan = planned(node("n1", cpu=64), quota("default", pods=5), running(a, {"n1": 1}), leaving)
    assert targets(plan) == {"a": 3}


def test_a_waiting_minimum_gets_quota_from_a_job_above_its_minimum() -> None:
    a, b = elastic_job("a", 1, 9), elastic_job("b", 2, 2)
    plan = planned(node("n1", cpu=64), quota("default", pods=5), running(a, {"n1": 5}), b)
    assert targets(plan) == {"a": 3, "b": 0}
    other = elastic_job("b", 2, 2, namespace="other")
    elsewhere = planned(node("n1", cpu=64), quota("other", pods=1), running(a, {"n1": 5}), other)
    assert targets(elsewhere)["a"] >= 5
    assert of(elsewhere, "b", "other").reason == "waits: quota other/quota has 1 of 1 pods left, 2 needed"


def test_every_role_counts() -> None:
    job = training_job("a", 1, 9, pserver={"min-instance": 1, "resources": resources(2)})
    plan = planned(node("n1", cpu=64), quota("default", pods=4), job)
    assert of(plan, "a").roles == {"master": 1, "pserver": 1, "trainer": 2}


@pytest.mark.parametrize(
    ("scopes", "counts"),
    [(["BestEffort"], False), (["NotBestEffort"], True), (["NotTerminating"], True), (["Terminating"], False)],
)
def test_a_quota_counts_pods_in_its_scope(scopes: list[str], counts: bool) -> None:
    scoped = quota("default", pods=2)
    scoped["spec"]["scopes"] = scopes
    assert targets(planned(node("n1", cpu=64), scoped, elastic_job("a", 1, 9))) == {"a": 2 if counts else 9}


@pytest.mark.parametrize(
    ("operator", "values", "counts"),
    [("In", ["high"], True), ("In", ["low"], False), ("NotIn", ["high"], False), ("Exists", [], True)],
)
def test_a_quota_for_a_priority_class(operator: str, values: list[str], counts: bool) -> None:
    scoped = quota("default", pods=2)
    wanted = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    scoped["spec"]["scopeSelector"] = {"matchExpressions": [wanted]}
    job = elastic_job("a", 1, 9, template={"priorityClassName": "high"})
    assert targets(planned(node("n1", cpu=64), scoped, job)) == {"a": 2 if counts else 9}


def test_a_quota_on_cpu_refuses_pods_that_do_not_state_it() -> None:
    decision = of(planned(node("n1"), quota("default", limits__cpu=8), bare(requests={"cpu": "1"})), "a")
    assert (decision.target, decision.code) == (0, Code.REFUSED)
    assert "its quota counts limits.cpu, so container worker must state it" in decision.reason


def test_a_limit_range_fills_in_what_is_not_stated() -> None:
    bounds = limit_range(default={"cpu": "2"}, defaultRequest={"cpu": "2"})
    assert targets(planned(node("n1", cpu=8), bounds, bare(), **ALL)) == {"a": 4}
    only_default = limit_range(default={"cpu": "4"})
    assert targets(planned(node("n1", cpu=8), only_default, bare(), **ALL)) == {"a": 2}
    stated = limit_range(default={"cpu": "4"}, defaultRequest={"cpu": "4"})
    assert targets(planned(node("n1", cpu=8), stated, bare(limits={"cpu": "1"}), **ALL)) == {"a": 8}


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"max": {"cpu": "500m"}}, "worker must have a limit of at most 0.5 CPU"),
        ({"min": {"cpu": "2"}}, "worker must ask for at least 2 CPU"),
        ({"maxLimitRequestRatio": {"cpu": "1.5"}}, "worker may have 1.5 times its cpu request as limit at most"),
        ({"type": "Pod", "max": {"cpu": "500m"}}, "pod must have a limit of at most 0.5 CPU"),
    ],
)
def test_a_limit_range_refuses(item: dict[str, Any], problem: str) -> None:
    job = bare(requests={"cpu": "1"}, limits={"cpu": "2"})
    decision = of(planned(node("n1", cpu=64), limit_range(**item), job), "a")
    assert decision.target == 0
    assert decision.reason == f"waits: the namespace refuses such a worker: LimitRange: {problem}"


@pytest.mark.parametrize(
    "item", [{"max": {"cpu": "2"}}, {"min": {"cpu": "1"}}, {"maxLimitRequestRatio": {"cpu": "2"}}, {}]
)
def test_a_limit_range_that_is_kept_binds_nobody(item: dict[str, Any]) -> None:
    job = bare(requests={"cpu": "1"}, limits={"cpu": "2"})
    assert targets(planned(node("n1", cpu=64), limit_range(**item), job)) == {"a": 9}
