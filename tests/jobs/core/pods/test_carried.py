"""What pods with images of users are brought, and what becomes of their own settings."""

import copy
from typing import Any

import pytest

from edl.api import annotations
from edl.jobs.core.pods.carried import CODE, NAME, PARTS, RUNTIME, with_carried

OWN = "edl:1"
DIGEST = "ab" * 32
CODE_NOTE = {annotations.CODE: f"train-code-1f {2} {DIGEST}"}


def template(**spec: Any) -> dict[str, Any]:
    worker = {"name": "worker", "image": "torch:2"} | spec.pop("worker", {})
    return {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [worker, {"name": "side", "image": "x"}], **spec},
    }


def carried(given: dict[str, Any], notes: dict[str, str] | None = None, *, runtime: bool = True) -> dict[str, Any]:
    before = copy.deepcopy(given)
    made = with_carried(given, notes or {}, image=OWN, runtime=runtime)
    assert given == before
    return dict(made["spec"])


def test_an_init_container_of_our_image_brings_the_runtime() -> None:
    made = carried(template())
    [carrier] = made["initContainers"]
    assert (carrier["name"], carrier["image"]) == (NAME, OWN)
    assert carrier["command"] == ["python", "-m", "edl.runtime.carry", "--runtime", RUNTIME]
    worker, side = made["containers"]
    assert worker["env"] == [{"name": "PYTHONPATH", "value": RUNTIME}]
    assert worker["volumeMounts"] == [{"name": "edl-runtime", "mountPath": RUNTIME, "readOnly": True}]
    assert (side, made["volumes"]) == ({"name": "side", "image": "x"}, [{"name": "edl-runtime", "emptyDir": {}}])
    assert "workingDir" not in worker


@pytest.mark.parametrize(
    ("given", "notes", "runtime"),
    [
        (template(worker={"image": OWN}), {}, True),
        (template(), {annotations.RUNTIME: "image"}, True),
        (template(), {}, False),
    ],
    ids=["our own image", "the user says that the image has it", "an installation that brings nothing"],
)
def test_who_has_it_is_brought_nothing(given: dict[str, Any], notes: dict[str, str], runtime: bool) -> None:
    assert carried(given, notes, runtime=runtime) == given["spec"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([{"name": "PYTHONPATH", "value": "/app:/lib"}], [{"name": "PYTHONPATH", "value": f"/app:/lib:{RUNTIME}"}]),
        ([{"name": "PYTHONPATH", "value": ""}], [{"name": "PYTHONPATH", "value": RUNTIME}]),
        (
            [{"name": "A", "value": "b"}, {"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "c"}}}],
            [
                {"name": "A", "value": "b"},
                {"name": "EDL_USER_PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "c"}}},
                {"name": "PYTHONPATH", "value": f"$(EDL_USER_PYTHONPATH):{RUNTIME}"},
            ],
        ),
    ],
)
def test_a_path_of_the_users_is_searched_first(given: list[Any], wanted: list[Any]) -> None:
    assert carried(template(worker={"env": given}))["containers"][0]["env"] == wanted


def test_code_comes_from_the_parts_and_is_worked_in() -> None:
    made = carried(template(), CODE_NOTE, runtime=False)
    [carrier] = made["initContainers"]
    assert carrier["command"][3:] == ["--code", PARTS, DIGEST, CODE]
    sources = made["volumes"][1]["projected"]["sources"]
    assert [one["configMap"]["name"] for one in sources] == ["train-code-1f-0", "train-code-1f-1"]
    assert [one["configMap"]["items"] for one in sources] == [
        [{"key": "part", "path": "000"}],
        [{"key": "part", "path": "001"}],
    ]
    worker = made["containers"][0]
    assert (worker["workingDir"], worker["volumeMounts"]) == (CODE, [{"name": "edl-code", "mountPath": CODE}])
    assert "env" not in worker


def test_both_come_by_one_container_before_the_users_own() -> None:
    made = carried(template(initContainers=[{"name": "theirs"}], worker={"workingDir": "/mine"}), CODE_NOTE)
    assert [one["name"] for one in made["initContainers"]] == [NAME, "theirs"]
    assert made["initContainers"][0]["command"][3:] == ["--runtime", RUNTIME, "--code", PARTS, DIGEST, CODE]
    assert made["containers"][0]["workingDir"] == "/mine"


def test_the_pod_counts_as_before() -> None:
    """A pod counts by the larger of its init containers and its containers, and so does its quality of service."""
    resources = {"requests": {"cpu": "2", "nvidia.com/gpu": 1}, "limits": {"cpu": "2", "nvidia.com/gpu": 1}}
    [carrier] = carried(template(worker={"resources": resources}))["initContainers"]
    assert carrier["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    assert carried(template())["initContainers"][0]["resources"] == {}


@pytest.mark.parametrize(("pod", "user"), [({}, None), ({"runAsUser": 1000}, None), ({"runAsUser": 0}, 65532)])
def test_it_is_restricted_whatever_the_worker_may_do(pod: dict[str, Any], user: int | None) -> None:
    [carrier] = carried(template(securityContext=pod))["initContainers"]
    context = carrier["securityContext"]
    assert (context["runAsNonRoot"], context["readOnlyRootFilesystem"]) == (True, True)
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    assert (context["seccompProfile"], context.get("runAsUser")) == ({"type": "RuntimeDefault"}, user)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (annotations.CODE, "x", "wants NAME COUNT DIGEST"),
        (annotations.CODE, f"x 0 {DIGEST}", "COUNT 1 to 15"),
        (annotations.CODE, f"x 16 {DIGEST}", "COUNT 1 to 15"),
        (annotations.CODE, f"X_ 1 {DIGEST}", "the name of ConfigMaps"),
        (annotations.CODE, "x 1 abc", "wants the SHA-256"),
        (annotations.RUNTIME, "yes", "wants carried"),
    ],
)
def test_annotations_that_cannot_be_read_are_refused(name: str, text: str, complaint: str) -> None:
    [problem] = annotations.problems({name: text}, ("metadata", "annotations"))
    assert complaint in str(problem)


def test_what_edl_run_writes_is_read_back() -> None:
    parts = annotations.CodeParts("train-code-1f", 2, DIGEST)
    assert annotations.code(str(parts)) == parts
    assert list(annotations.problems({annotations.CODE: str(parts), annotations.RUNTIME: "image"}, ())) == []
