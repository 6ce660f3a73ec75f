"""An operator that is limited to some namespaces: what it may do, what it does, and what it leaves alone."""

from typing import Any

import pytest

from edl.install.manifests import manifests
from edl.install.options import InstallOptions
from edl.install.permissions import READ, Permission, cluster_permissions, limited_permissions
from edl.install.problems import problems
from edl.operator.resources import NAMESPACES, PODS, TRAINING_JOBS
from edl.operator.settings import NAMESPACE
from tests.install.guard import Guard
from tests.install.test_permissions import LOCAL, prepared
from tests.operator.stage import Wire, manifest, stage

pytestmark = pytest.mark.case("attack-4")


def elsewhere(name: str) -> dict[str, Any]:
    job = manifest(name)
    return {**job, "metadata": {**job["metadata"], "namespace": "other"}}


def test_writing_is_granted_in_those_namespaces_alone() -> None:
    made = manifests(InstallOptions(namespaces="a,b"))
    roles = [body for body in made if body["metadata"]["name"] == "edl-operator-jobs"]
    assert [(body["kind"], body["metadata"]["namespace"]) for body in roles] == [
        ("Role", "a"),
        ("RoleBinding", "a"),
        ("Role", "b"),
        ("RoleBinding", "b"),
    ]
    (whole,) = [body for body in made if (body["kind"], body["metadata"]["name"]) == ("ClusterRole", "edl-operator")]
    named = [rule for rule in whole["rules"] if set(rule["verbs"]) - set(READ) and "resourceNames" not in rule]
    reviews = [["tokenreviews"], ["subjectaccessreviews"]]
    assert [rule["resources"] for rule in named] == reviews, "these ask a question and write nothing"
    assert not any("secrets" in rule["resources"] or "configmaps" in rule["resources"] for rule in whole["rules"])


def test_both_together_are_what_an_unlimited_operator_has() -> None:
    def rights(*permissions: Permission) -> set[tuple[str, str, str]]:
        return {(one.group, what, verb) for one in permissions for what in one.resources for verb in one.verbs}

    limited = rights(*cluster_permissions(NAMESPACE, limited=True), *limited_permissions())
    assert limited == rights(*cluster_permissions(NAMESPACE))


def test_a_namespace_where_it_makes_no_pods_is_refused() -> None:
    for name in ("kube-system", NAMESPACE):
        assert problems(InstallOptions(namespaces=f"a,{name}")) == [
            f"--namespaces {name}: the operator makes no pods there; name another one"
        ]
    assert problems(InstallOptions(namespaces="A"))
    assert problems(InstallOptions(namespaces="a,b")) == []


async def test_jobs_elsewhere_are_left_alone_and_those_there_run() -> None:
    async with stage() as scene:
        await prepared(scene)
        other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        await scene.client.create(NAMESPACES, other)
        guard = Guard(scene.transport(), namespaces=("default",))
        async with scene.operator(Wire(guard), service=LOCAL, register_crds=False, namespaces=("default",)):
            await scene.client.create(TRAINING_JOBS, elsewhere("x"), namespace="other")
            await scene.submit("j", master=None, pserver=None)
            await scene.until_phase("running", "j")
        left = await scene.client.get(TRAINING_JOBS, "x", namespace="other")
        assert "status" not in left
        assert (await scene.client.list(PODS, namespace="other")).items == []
        assert guard.refused == []


async def test_the_guard_refuses_writes_elsewhere() -> None:
    async with stage() as scene:
        await prepared(scene)
        guard = Guard(scene.transport(), namespaces=("default",))
        async with scene.operator(Wire(guard), service=LOCAL, register_crds=False):
            other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
            await scene.client.create(NAMESPACES, other)
            await scene.client.create(TRAINING_JOBS, elsewhere("x"), namespace="other")

            async def refused() -> bool:
                return bool(guard.refused)

            await scene.until(refused, "an operator that is not limited tries, and is refused", "x")
        assert all("in other" in one for one in guard.refused)
