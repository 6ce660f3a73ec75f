"""The PyTorch ElasticJob as people write it: run policies in three places, scheduling policies, ports, annotations."""

from typing import Any

import pytest

from edl.jobs import views
from edl.jobs.admission import check, check_edit
from edl.jobs.pytorch.types import ElasticJob
from tests.api.samples import PYTORCH_JOB, TRAINING_JOB, Data, varied

WORKER = "spec.replicaSpecs.Worker"
CONTAINERS = f"{WORKER}.template.spec.containers"
POLICY = {"backoffLimit": 3, "ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 900, "cleanPodPolicy": "Running"}


def read(value: Data) -> ElasticJob:
    checked = check(value)
    assert isinstance(checked.object, ElasticJob), checked.problems
    return checked.object


def said(value: Data, severity: str) -> list[str]:
    return [str(problem) for problem in check(value).problems if problem.severity == severity]


@pytest.mark.parametrize("place", ["", "runPolicy", "RunPolicy"])
def test_a_run_policy_counts_wherever_it_stands(place: str) -> None:
    changes: Data = {f"spec.{place}": POLICY} if place else {f"spec.{name}": value for name, value in POLICY.items()}
    spec = read(varied(PYTORCH_JOB, **changes)).spec
    found = (
        spec.backoff_limit,
        spec.ttl_seconds_after_finished,
        spec.active_deadline_seconds,
        spec.clean_pod_policy,
    )
    assert found == (3, 60, 900, "Running")


def test_suspend_in_a_run_policy_suspends() -> None:
    assert views.view(read(varied(PYTORCH_JOB, **{"spec.runPolicy": {"suspend": True}}))).suspend


def test_places_that_disagree_are_refused() -> None:
    both: Data = {"spec.backoffLimit": 1, "spec.RunPolicy": {"backoffLimit": 2}}
    assert said(varied(PYTORCH_JOB, **both), "error") == [
        "spec.RunPolicy.backoffLimit: is not what another place says (1); remove one of them"
    ]
    both["spec.RunPolicy"]["backoffLimit"] = 1
    assert said(varied(PYTORCH_JOB, **both), "error") == []


def test_what_of_a_scheduling_policy_counts() -> None:
    policy = {"minAvailable": 2, "priorityClass": "high", "scheduleTimeoutSeconds": 30}
    job = read(varied(PYTORCH_JOB, **{"spec.schedulingPolicy": policy}))
    assert job.spec.start_timeout_seconds == 30
    assert views.view(job, priority_classes={"high": 5000}).priority == 5000
    own = varied(PYTORCH_JOB, **{"spec.schedulingPolicy": policy, f"{WORKER}.template.spec.priorityClassName": "own"})
    assert views.view(read(own)).priority_class == "own"


@pytest.mark.case("acceptance-17")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec.schedulingPolicy": {"minAvailable": 3}}, "3 is not used: minReplicas, 2, workers start together"),
        ({"spec.schedulingPolicy": {"queue": "q"}}, "spec.schedulingPolicy.queue: is not used"),
        ({f"{WORKER}.restartPolicy": "Always"}, "the job never succeeds by itself"),
        ({f"{WORKER}.restartPolicy": "ExitCode"}, "a script that raises exits with 1, and its worker is not replaced"),
        ({f"{CONTAINERS}.0.ports": [{"containerPort": 80, "hostPort": 80}]}, "only one such pod fits on a node"),
    ],
)
def test_warnings(changes: Data, words: str) -> None:
    value = varied(PYTORCH_JOB, **changes)
    assert len(said(value, "warning")) == 1
    assert words in said(value, "warning")[0]
    assert said(value, "error") == []


PORT: Data = {"containerPort": 29500, "hostPort": 29500}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec.minReplicas": 0}, "spec.minReplicas: 0"),
        ({f"{WORKER}.replicas": 6}, f"{WORKER}.replicas: 6 is more than maxReplicas 5"),
        ({f"{WORKER}.replicas": 1}, "spec.minReplicas: 2 is more than replicas 1"),
        ({"spec.replicaSpecs": {}}, f"{WORKER}: is required"),
        ({f"{CONTAINERS}.0.ports": [PORT, PORT]}, "29500 is taken by another port of the pod"),
        ({f"{CONTAINERS}.0.ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]}, '"a" is'),
        ({CONTAINERS: [{"name": "w", "image": "x"}, {"name": "w", "image": "x"}]}, '"w" is the name of two containers'),
        ({"metadata.annotations": {"edl.dev/stall-timeout": "0s"}}, "0s is no time"),
        ({"metadata.annotations": {"edl.dev/stall-timeout": "soon"}}, "'soon': wants a duration"),
    ],
)
def test_errors_name_the_field_and_the_fix(changes: Data, words: str) -> None:
    found = said(varied(PYTORCH_JOB, **changes), "error")
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize("ports", [7, [7], [{"hostPort": "x"}], [{"hostPort": [1]}], [{"name": 3}], {}])
def test_ports_that_are_none_are_left_to_kubernetes(ports: Any) -> None:
    assert said(varied(PYTORCH_JOB, **{f"{CONTAINERS}.0.ports": ports}), "error") == []


def test_other_kinds_are_told_that_silence_is_not_judged() -> None:
    note = {"metadata.annotations": {"edl.dev/stall-timeout": "5m"}}
    assert said(varied(PYTORCH_JOB, **note), "warning") == []
    assert "is not used" in said(varied(TRAINING_JOB, **note), "warning")[0]


def test_the_place_of_the_rendezvous_stays() -> None:
    moved = varied(PYTORCH_JOB, **{"spec.rdzvEndpoint": "elsewhere:2379"})
    assert [problem.path for problem in check_edit(PYTORCH_JOB, moved)] == ["spec.rdzvEndpoint"]
