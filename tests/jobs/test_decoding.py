"""Decoding: every problem at once, each with its place and its fix."""

from typing import Any

import pytest

from edl.jobs.admission import check
from edl.jobs.decoding import decode
from tests.api.samples import ABSENT, EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB, Data, varied


def errors(value: Any) -> list[str]:
    return [str(problem) for problem in check(value).problems if problem.severity == "error"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "found nothing, wants an object with apiVersion and kind"),
        ([], "found a list, wants an object with apiVersion and kind"),
        ({}, "kind: is required"),
        ({"kind": "TrainingJob"}, "apiVersion: is required"),
        ({"kind": 5, "apiVersion": "v1"}, "kind: found number 5, wants TrainingJob, ElasticJob, JobResource"),
        (
            {"kind": "Deployment", "apiVersion": "apps/v1"},
            'kind: "Deployment" of apps/v1 is none of EDL\'s kinds; EDL has TrainingJob, ElasticJob, JobResource',
        ),
        (
            {"kind": "TrainingJb", "apiVersion": "paddlepaddle.org/v1"},
            'kind: "TrainingJb" of paddlepaddle.org/v1 is none of EDL\'s kinds; did you mean TrainingJob?',
        ),
        (
            {"kind": "ElasticJob", "apiVersion": "elastic.pytorch.org/v1"},
            'apiVersion: "elastic.pytorch.org/v1" has no ElasticJob; did you mean elastic.pytorch.org/v1alpha1?',
        ),
    ],
)
def test_what_is_not_ours(value: object, message: str) -> None:
    assert errors(value) == [message]


NO_QUOTES = "wants a whole number: write 7164 without quotes"
PRIORITY = "wants Experiment, Offline, Normal, Production or a positive number"
POLICIES = "wants one of Always, ExitCode, Never, OnFailure; did you mean OnFailure?"
AN_OBJECT = "wants an object (`name: value` lines)"


@pytest.mark.parametrize(
    ("sample", "path", "value", "complaint"),
    [
        (TRAINING_JOB, "spec.trainer.min_instance", 2, "unknown field; did you mean min-instance?"),
        (TRAINING_JOB, "spec.Trainer", {}, "unknown field; did you mean trainer?"),
        (TRAINING_JOB, "metadata.lables", {}, "unknown field; did you mean labels?"),
        (TRAINING_JOB, "spce", {}, "unknown field; did you mean spec?"),
        (TRAINING_JOB, "spec.master.zzz", 1, "unknown field; known are resources, command, template"),
        (TRAINING_JOB, "spec.port", "7164", f'found text "7164", {NO_QUOTES}'),
        (TRAINING_JOB, "spec.port", "x", 'found text "x", wants a whole number'),
        (TRAINING_JOB, "spec.port", 70000, "70000 is more than 65535, the most allowed"),
        (TRAINING_JOB, "spec.passes", 0, "0 is less than 1, the least allowed"),
        (TRAINING_JOB, "spec.passes", 10**30, "beyond 10^20 is more than 2147483647, the most allowed"),
        (TRAINING_JOB, "spec.image", 5, 'found number 5, wants text: write "5"'),
        (TRAINING_JOB, "spec.image", True, 'found true, wants text: write "true"'),
        (TRAINING_JOB, "spec.image", 1.5, "found number 1.5, wants text: put it in quotes"),
        (TRAINING_JOB, "spec.image", "", "is empty"),
        (TRAINING_JOB, "spec.pause", "true", 'found text "true", wants true or false: write true without quotes'),
        (TRAINING_JOB, "spec.master", [], f"found a list, {AN_OBJECT}"),
        (TRAINING_JOB, "spec.volumes", {}, "found an object, wants a list"),
        (TRAINING_JOB, "spec.NodeSelector.gpu", 1, 'found number 1, wants text: write "1"'),
        (TRAINING_JOB, "spec.etcd.replicas", 2, "found number 2, wants one of 1, 3, 5"),
        (TRAINING_JOB, "spec.trainer", ABSENT, "is required: The trainers, whose number is the size of the job."),
        (TRAINING_JOB, "metadata.name", ABSENT, "is required: the name of the object"),
        (TRAINING_JOB, "metadata.labels.a", 1, 'found number 1, wants text: write "1"'),
        (TRAINING_JOB, "spec.priority", [1], f"found a list, {PRIORITY}"),
        (
            TRAINING_JOB,
            "spec.trainer.resources.limits.cpu",
            {},
            "found an object, wants a quantity such as 500m, 2 or 1Gi",
        ),
        (PYTORCH_JOB, "spec.replicaSpecs.Worker.restartPolicy", "onfailure", f'found text "onfailure", {POLICIES}'),
        (PYTORCH_JOB, "spec.replicaSpecs.worker", {}, "unknown field; did you mean Worker?"),
        (EASYDL_JOB, "spec.worker.restartCount", -1, "-1 is less than 0, the least allowed"),
        (
            JOB_RESOURCE,
            "spec.evaluator.replicas",
            ABSENT,
            "is required: Number of pods. Workers: the most to be granted.",
        ),
        (JOB_RESOURCE, "spec.worker.resource.gpu", "1", 'found text "1", wants a whole number: write 1 without quotes'),
    ],
)
def test_one_problem(sample: Data, path: str, value: object, complaint: str) -> None:
    """And nothing that only follows from it."""
    assert errors(varied(sample, **{path: value})) == [f"{path}: {complaint}"]


def test_items_of_lists_have_an_index() -> None:
    assert errors(varied(TRAINING_JOB, **{"spec.volumes": [{"name": "a"}, "data"]})) == [
        f'spec.volumes[1]: found text "data", {AN_OBJECT}'
    ]


def test_all_problems_at_once() -> None:
    job = varied(
        TRAINING_JOB,
        **{
            "metadata.lables": {},
            "spec.port": "7164",
            "spec.master.resources.requests.cpu": "2 cores",
            "spec.trainer.entrypoint": ABSENT,
            "spec.trainer.min-instance": 7,
            "spec.trainer.min_instance": 2,
        },
    )
    assert sorted(errors(job)) == [
        "metadata.lables: unknown field; did you mean labels?",
        "spec.master.resources.requests.cpu: '2 cores': wants a quantity such as 500m, 2 or 1Gi",
        'spec.port: found text "7164", wants a whole number: write 7164 without quotes',
        "spec.trainer.entrypoint: is required: Command line of a trainer, run by `sh -c` in workspace.",
        "spec.trainer.min-instance: 7 is more than max-instance 6",
        "spec.trainer.min_instance: unknown field; did you mean min-instance?",
    ]


def test_null_is_absent_as_for_kubernetes() -> None:
    nulls = {"spec.pserver": None, "spec.port": None, "metadata.labels": None, "status": None}
    assert errors(varied(TRAINING_JOB, **nulls)) == []
    assert errors(varied(TRAINING_JOB, **{"spec.trainer": None})) == [
        "spec.trainer: is required: The trainers, whose number is the size of the job."
    ]


def test_whole_numbers_may_come_as_fractions_without_one() -> None:
    decoded = decode(varied(TRAINING_JOB, **{"spec.port": 7164.0})).object
    assert decoded == decode(TRAINING_JOB).object


def test_a_bad_status_is_a_warning_and_ignored() -> None:
    decoded = decode(varied(TRAINING_JOB, **{"status": {"phase": 5, "new": {}}}))
    assert decoded.object == decode(TRAINING_JOB).object
    assert [(problem.severity, problem.path) for problem in decoded.problems] == [("warning", "status.phase")]


def test_what_an_api_server_adds_is_known() -> None:
    added = {
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "finalizers": ["edl.dev/x"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "blockOwnerDeletion": True}],
    }
    assert errors(varied(TRAINING_JOB, metadata={"name": "a", **added})) == []


def test_nesting_without_end_is_refused() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    job = varied(TRAINING_JOB)
    job["spec"]["trainer"]["template"] = {"spec": {"containers": 5, "volumes": deep}}
    assert errors(job) == ["is nested too deeply to be read"]
