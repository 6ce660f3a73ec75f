"""What the ledger is told of a job, from its pods and what it asks for."""

from typing import Any

import pytest

from edl.api.kubernetes.core import Pod, convert
from edl.ledger.amounts import NOTHING, Amounts
from edl.operator.accounting.job_facts import Demand, facts_of
from edl.protocol.progress import LastProgress
from tests.operator.accounting.test_history_posts import entry

EACH = Amounts(1, 2, 4, 8)


def pod(name: str, phase: str = "Running", *, role: str = "trainer", node: str = "n", **more: Any) -> Pod:
    requests = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}
    container = {"name": role, "resources": {"requests": requests, "limits": {"nvidia.com/gpu": "2"}}}
    states = [{"name": role, "state": more.pop("state", {})}]
    body = {
        "metadata": {"name": name, "namespace": "ns", "labels": {"edl.dev/role": role}, **more},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase, "containerStatuses": states},
    }
    return convert(body, Pod)


CRASHED = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (pod("a", "Pending", node=""), "waiting"),
        (pod("a", "Pending"), "starting"),
        (pod("a"), "running"),
        (pod("a", state=CRASHED), "failed"),
        (pod("a", state={"terminated": {"exitCode": 1}}), "failed"),
    ],
)
def test_a_pod_is_counted_once_by_what_it_does(made: Pod, field: str) -> None:
    facts = facts_of(entry(phase="running"), [made], Demand(1, EACH), None, 0.0)
    found = {name: getattr(facts, name) for name in ("waiting", "starting", "failed", "running")}
    assert found == {**dict.fromkeys(found, NOTHING), field: EACH}


def test_instances_that_are_missing_wait_unless_nobody_wants_them() -> None:
    wants = Demand(3, EACH)
    assert facts_of(entry(phase="creating"), [], wants, None, 0.0).waiting == EACH * 3
    assert facts_of(entry(phase="running"), [pod("a"), pod("b", "Succeeded")], wants, None, 0.0).waiting == EACH
    assert facts_of(entry(phase="running"), [pod("a", "Failed")], wants, None, 0.0).waiting == EACH * 3
    for nobody in (Demand(3, EACH, suspended=True), wants):
        job = entry(phase="succeeded") if nobody is wants else entry(phase="creating")
        assert facts_of(job, [], nobody, None, 0.0).waiting == NOTHING


def test_pods_beside_the_leading_role_are_no_instances_but_occupy_what_they_ask_for() -> None:
    facts = facts_of(entry(phase="running"), [pod("a"), pod("m", role="master")], Demand(1, EACH), None, 0.0)
    assert facts.running == Amounts(1, 4, 8, 16)
    assert facts.members == "a/0"


def test_who_has_done_his_share_is_still_a_member() -> None:
    both = facts_of(entry(phase="running"), [pod("a"), pod("b")], Demand(2, EACH), None, 0.0)
    one = facts_of(entry(phase="running"), [pod("a"), pod("b", "Succeeded")], Demand(2, EACH), None, 0.0)
    assert both.members == one.members
    assert one.running == EACH


def test_pods_of_a_job_that_is_deleted_hold_in_vain() -> None:
    facts = facts_of(None, [pod("a")], Demand(), None, 0.0)
    assert (facts.ended, facts.running, facts.waiting) == (True, EACH, NOTHING)


def test_reports_say_when_it_moved_and_standing_still_counts_once_its_condition_says_so() -> None:
    last = LastProgress(done=7, pause=1.5, idle=30.0)
    facts = facts_of(entry(phase="running"), [pod("a")], Demand(1, EACH), last, 1000.0)
    assert (facts.moved, facts.done, facts.pause, facts.idle) == (970.0, 7, 1.5, None)
    stalled = entry(phase="running", conditions=[{"type": "Stalled", "status": "True"}])
    assert facts_of(stalled, [pod("a")], Demand(1, EACH), last, 1000.0).idle == 30.0
