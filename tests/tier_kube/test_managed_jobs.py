"""Assumptions of the design about a Job with spec.managedBy; a Kubernetes that changes them fails here first."""

import time
from typing import Any

import pytest

from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, Manifest, eventually

pytestmark = pytest.mark.kube
START, END = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def _job(name: str, **spec: Any) -> Manifest:
    container = {"name": "main", "image": "none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"managedBy": "edl.dev/operator", "parallelism": 2, "template": template} | spec,
    }


def _condition(kind: str, when: str = END) -> Manifest:
    return {"type": kind, "status": "True", "reason": "Test", "lastProbeTime": when, "lastTransitionTime": when}


@pytest.fixture
def job(api_namespace: Kubectl) -> Kubectl:
    """kubectl in a namespace with the running Job `job` of size 2."""
    api_namespace.apply(_job("job"))
    _write(api_namespace, {"startTime": START, "active": 2, "ready": 2})
    return api_namespace


def _write(kubectl: Kubectl, status: Manifest, name: str = "job") -> None:
    kubectl.patch(f"job/{name}", {"status": status}, subresource="status")


def test_the_built_in_controller_makes_no_pod_and_writes_no_status(api_namespace: Kubectl) -> None:
    # A Job of the built-in controller, made later, has its pods: so it had its chance with ours.
    api_namespace.apply(_job("ours"))
    theirs = _job("theirs")
    del theirs["spec"]["managedBy"]
    api_namespace.apply(theirs)
    eventually(lambda: len(api_namespace.get("pods", labels="job-name=theirs")["items"]) == 2, within=30, what="pods")
    assert api_namespace.get("pods", labels="job-name=ours")["items"] == []
    assert api_namespace.get("job", "ours")["status"] == {}


def test_its_size_may_change_at_any_time(job: Kubectl) -> None:
    for size in (5, 0, 3):
        job.patch("job/job", {"spec": {"parallelism": size}})
    assert job.get("job", "job")["spec"]["parallelism"] == 3


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"managedBy": "example.com/other"}, "field is immutable"),
        ({"completions": 3}, "field is immutable"),
        ({"template": {"metadata": {"annotations": {"a": "b"}}}}, "field is immutable"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_rest_of_it_may_not(job: Kubectl, change: Manifest, complaint: str) -> None:
    with pytest.raises(KubectlError, match=complaint):
        job.patch("job/job", {"spec": change})


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ({"startTime": END}, "immutable for unsuspended job"),
        ({"ready": 3}, "more ready pods than active"),
        ({"succeeded": 0}, "cannot decrease the succeeded counter"),
        ({"failed": 0}, "cannot decrease the failed counter"),
        (
            {"active": 0, "ready": 0, "conditions": [_condition("Complete")], "completionTime": END},
            "SuccessCriteriaMet",
        ),
        (
            {"active": 0, "ready": 0, "conditions": [_condition("SuccessCriteriaMet"), _condition("Complete")]},
            "required",
        ),
        (
            {"conditions": [_condition("SuccessCriteriaMet"), _condition("Complete")], "completionTime": END},
            "active>0 is invalid for finished job",
        ),
        ({"active": 0, "ready": 0, "conditions": [_condition("Failed")]}, "FailureTarget"),
    ],
)
def test_its_status_must_be_sound(job: Kubectl, status: Manifest, complaint: str) -> None:
    _write(job, {"succeeded": 1, "failed": 1})
    with pytest.raises(KubectlError, match=complaint):
        _write(job, status)


def test_kubectl_follows_its_success(job: Kubectl) -> None:
    done = [_condition("SuccessCriteriaMet"), _condition("Complete")]
    _write(job, {"active": 0, "ready": 0, "succeeded": 2, "conditions": done, "completionTime": END})
    job("wait", "job/job", "--for=condition=Complete", "--timeout=10s")
    with pytest.raises(KubectlError, match=r"cannot disable the Complete=True condition|is invalid"):
        _write(job, {"conditions": []})


def test_kubectl_follows_its_failure(job: Kubectl) -> None:
    _write(
        job, {"active": 0, "ready": 0, "failed": 1, "conditions": [_condition("FailureTarget"), _condition("Failed")]}
    )
    job("wait", "job/job", "--for=condition=Failed", "--timeout=10s")


def test_its_time_to_live_after_the_end_is_kept_by_kubernetes(api_namespace: Kubectl) -> None:
    api_namespace.apply(_job("brief", ttlSecondsAfterFinished=1))
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    done = [_condition("SuccessCriteriaMet", now), _condition("Complete", now)]
    _write(api_namespace, {"startTime": START, "conditions": done, "completionTime": now}, "brief")
    api_namespace("wait", "job/brief", "--for=delete", "--timeout=30s")


def test_suspending_frees_its_start_time(job: Kubectl) -> None:
    job.patch("job/job", {"spec": {"suspend": True}})
    _write(job, {"startTime": None, "active": 0, "ready": 0})
    assert "startTime" not in job.get("job", "job")["status"]
