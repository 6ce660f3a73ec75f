"""Environment and mounts of a template: slips that Kubernetes would tell of only when the first pod is made."""

from typing import Any

import pytest

from tests.api.samples import EASYDL_JOB, PYTORCH_JOB, TRAINING_JOB, Data, found, varied

CONTAINER = "spec.replicaSpecs.Worker.template.spec.containers"
YAML = "YAML reads true, yes and on (false, no, off) so"


@pytest.mark.case("acceptance-20")
@pytest.mark.parametrize(
    ("env", "field", "words"),
    [
        ([{"name": True, "value": "x"}], "env[0].name", f'wants text, found true: {YAML}; write "true" in quotes'),
        ([{"name": "A", "value": False}], "env[0].value", f'wants text, found false: {YAML}; write "false" in quotes'),
        ([{"name": "A", "value": 5}], "env[0].value", 'wants text, found the number 5; write "5" in quotes'),
        ([{"name": "A", "value": [1]}], "env[0].value", "wants text, found a list"),
        ([{"name": "A", "value": "x"}, {"value": "x"}], "env[1].name", "is required: the name of the variable"),
        ([{"name": "A=B", "value": "x"}], "env[0].name", '"A=B": a name has at least one character, and no ='),
        ([{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {}}, {"name": "C"}], "", ""),
        ("no list", "env", 'found text "no list", wants a list of objects'),
    ],
)
@pytest.mark.parametrize(
    ("sample", "place", "shown"),
    [
        (PYTORCH_JOB, f"{CONTAINER}.0.env", f"{CONTAINER}[0]."),
        (EASYDL_JOB, "spec.worker.template.spec.containers.0.env", "spec.worker.template.spec.containers[0]."),
        (
            varied(TRAINING_JOB, **{"spec.trainer.template": {"spec": {"containers": [{"name": "trainer"}]}}}),
            "spec.trainer.template.spec.containers.0.env",
            "spec.trainer.template.spec.containers[0].",
        ),
    ],
)
def test_environment(sample: Data, place: str, shown: str, env: Any, field: str, words: str) -> None:
    wanted = [f"{shown}{field}: {words}"] if field else []
    assert found(varied(sample, **{place: env}), "error") == wanted


MOUNTS = [
    ("/", "would hide everything that is in the image; name a directory, e.g. /data"),
    ("//", "would hide everything that is in the image; name a directory, e.g. /data"),
    ("/a:b", "has a colon in it, which Kubernetes does not allow in a mount path; rename it"),
]


@pytest.mark.case("acceptance-20")
@pytest.mark.parametrize(("path", "words"), MOUNTS)
def test_mounts(path: str, words: str) -> None:
    mount = [{"name": "d", "mountPath": path}]
    wanted = f': "{path}" {words}'
    assert found(varied(TRAINING_JOB, **{"spec.mountPath": path}), "error") == [f"spec.mountPath{wanted}"]
    old = varied(TRAINING_JOB, **{"spec.VolumeMounts": mount})
    assert found(old, "error") == [f"spec.VolumeMounts[0].mountPath{wanted}"]
    template = varied(PYTORCH_JOB, **{f"{CONTAINER}.0.volumeMounts": mount})
    assert found(template, "error") == [f"{CONTAINER}[0].volumeMounts[0].mountPath{wanted}"]


@pytest.mark.case("acceptance-20")
def test_names_of_jobs_leave_room_for_those_of_their_pods() -> None:
    words = "has 48 characters, at most 47 leave room for the names of its pods, which begin with it"
    for sample in (TRAINING_JOB, PYTORCH_JOB, EASYDL_JOB):
        assert found(varied(sample, **{"metadata.name": "a" * 47}), "error") == []
        [problem] = found(varied(sample, **{"metadata.name": "a" * 48}), "error")
        assert problem.startswith("metadata.name")
        assert problem.endswith(words)
