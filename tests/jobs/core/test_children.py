"""Ownership of objects, and what is done about it: nothing that is not ours is ever touched."""

from typing import Any

import pytest

from edl.api.kubernetes.core import ReplicaSet, convert
from edl.api.labels import FINGERPRINT, SEAL
from edl.jobs.core.actions import Change, Create
from edl.jobs.core.children import Child, Owner, ownership, reconcile_child, seal, signed

OWNER = Owner("paddlepaddle.org/v1", "TrainingJob", "j", "uid-1", "key")
LABELS = {"edl.dev/job": "j", "edl.dev/job-uid": "uid-1"}
TEMPLATE = {"spec": {"containers": [{"name": "master", "image": "x"}]}}


def child(size: int = 1, template: dict[str, Any] = TEMPLATE) -> Child:
    body = {"metadata": {"name": "j-master", "labels": LABELS}, "spec": {"replicas": size, "template": template}}
    return Child("ReplicaSet", body, ("/spec/replicas", size), template=True)


def seen(body: dict[str, Any], **metadata: Any) -> ReplicaSet:
    meta = {**body["metadata"], "resourceVersion": "7", "generation": 1} | metadata
    return convert({"metadata": meta, "spec": body["spec"]}, ReplicaSet)


def actions(wanted: Child, found: ReplicaSet | None) -> list[Any]:
    return list(reconcile_child(wanted, found, OWNER, "uid-1", found.spec.replicas if found else None))


MADE = signed(child(), OWNER)
OTHER = dict(OWNER.reference(), uid="uid-0")
STRANGER = dict(OWNER.reference(), kind="Deployment", name="web", uid="uid-9")


@pytest.mark.parametrize(
    ("metadata", "owned"),
    [
        ({}, "ours"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "going"),
        ({"ownerReferences": []}, "orphan"),
        ({"ownerReferences": [], "labels": {}}, "foreign"),
        ({"ownerReferences": [], "annotations": {}}, "foreign"),
        (
            {"ownerReferences": [], "annotations": {SEAL: seal("another key", "ReplicaSet", "j-master")}},
            "foreign",
        ),
        ({"ownerReferences": [], "annotations": {SEAL: seal("key", "ReplicaSet", "j-pserver")}}, "foreign"),
        ({"ownerReferences": [], "labels": LABELS | {"edl.dev/job-uid": "uid-0"}}, "foreign"),
        ({"ownerReferences": [OTHER], "labels": LABELS | {"edl.dev/job-uid": "uid-0"}}, "leftover"),
        ({"ownerReferences": [STRANGER]}, "foreign"),
    ],
)
def test_whose_it_is(metadata: dict[str, Any], owned: str) -> None:
    found = seen(MADE, **metadata)
    assert ownership(found, OWNER, "uid-1") == owned
    touched = actions(child(size=5), found)
    assert bool(touched) == (owned in ("ours", "orphan"))


def test_absent_is_made_with_its_owner() -> None:
    [create] = actions(child(), None)
    assert isinstance(create, Create)
    assert create.body["metadata"]["ownerReferences"] == [OWNER.reference()]


def test_as_it_should_be_needs_nothing() -> None:
    assert actions(child(), seen(MADE)) == []


def test_an_orphan_is_taken_back_and_keeps_its_other_owners() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}
    [change] = actions(child(), seen(MADE, ownerReferences=[other]))
    assert change.patch[1]["value"] == [other, OWNER.reference()]


def test_every_change_is_bound_to_the_version_it_was_decided_on() -> None:
    [change] = actions(child(size=0), seen(MADE))
    assert isinstance(change, Change)
    assert change.patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert {"op": "add", "path": "/spec/replicas", "value": 0} in change.patch


def paths(change: Change) -> list[str]:
    return [step["path"] for step in change.patch]


def test_a_new_template_is_written_once() -> None:
    wanted = child(template={"spec": {"containers": [{"name": "master", "image": "y"}]}})
    [change] = actions(wanted, seen(MADE))
    assert "/spec/template" in paths(change)
    noted = change.patch[-1]["value"]
    after = seen(MADE, generation=2, annotations={FINGERPRINT: noted})
    assert actions(wanted, after) == []


def test_an_edit_by_another_hand_is_set_right_and_never_in_a_loop() -> None:
    edited = seen(MADE, generation=2)
    [change] = actions(child(), edited)
    assert "/spec/template" in paths(change)
    noted = {FINGERPRINT: change.patch[-1]["value"]}
    assert actions(child(), seen(MADE, generation=3, annotations=noted)) == []
    assert actions(child(), seen(MADE, generation=2, annotations=noted)) == [], "setting it right changed nothing"
    assert actions(child(), seen(MADE, generation=4, annotations=noted)) != []


def test_a_change_of_size_does_not_look_like_another_hand() -> None:
    [change] = actions(child(size=3), seen(MADE))
    assert "/spec/template" not in paths(change)
    noted = {FINGERPRINT: change.patch[-1]["value"]}
    resized = dict(MADE, spec=MADE["spec"] | {"replicas": 3})
    assert actions(child(size=3), seen(resized, generation=2, annotations=noted)) == []


def test_annotations_removed_by_hand_are_put_back() -> None:
    [change] = actions(child(), seen(MADE, annotations={}))
    assert change.patch[-1]["path"] == "/metadata/annotations"
