"""Deletion: answers, grace, finalizers, propagation, preconditions, collections."""

from typing import Any

import pytest

from tests.conformance.samples import Object, config, made, pod, service, workload
from tests.conformance.trace import Trace


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("configmaps", config("x")),
        ("secrets", made("Secret", "x")),
        ("services", service("x")),
        ("serviceaccounts", made("ServiceAccount", "x")),
        ("pods", pod("x", automountServiceAccountToken=False)),
        ("resourcequotas", made("ResourceQuota", "x", spec={"hard": {"pods": "3"}})),
        ("limitranges", made("LimitRange", "x", spec={"limits": []})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_answer_of_a_deletion(t: Trace, path: str, body: Object) -> None:
    await t.make(f"{t.core}/{path}", body)
    await t.delete(
        f"{t.core}/{path}/x",
        view=lambda found: {**found, "status": None} if path == "resourcequotas" else found,
        code=200,
    )
    await t.get(f"{t.core}/{path}/x", code=404)


async def test_delete_what_is_not_there(t: Trace) -> None:
    await t.delete(f"{t.core}/configmaps/nobody", code=404)


def held(*finalizers: str) -> Object:
    body = config()
    body["metadata"]["finalizers"] = list(finalizers)
    return body


async def test_finalizers_hold(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", held("a.b/c"))
    await t.delete(f"{t.core}/configmaps/m", code=200)
    await t.delete(f"{t.core}/configmaps/m", code=200)
    await t.patch(f"{t.core}/configmaps/m", {"metadata": {"finalizers": ["a.b/c", "new.x/y"]}}, code=422)
    await t.patch(f"{t.core}/configmaps/m", {"data": {"still": "writable"}}, show="data", code=200)
    await t.patch(f"{t.core}/configmaps/m", {"metadata": {"finalizers": None}}, show="metadata", code=200)
    await t.get(f"{t.core}/configmaps/m", code=404)


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan", "Sideways"])
async def test_propagation(t: Trace, policy: str) -> None:
    path = f"{t.group('apps/v1')}/replicasets"
    await t.make(path, workload("ReplicaSet", replicas=0))
    await t.delete(
        f"{path}/w",
        {"propagationPolicy": policy},
        view=lambda found: found if found["kind"] != "ReplicaSet" else found["metadata"],
    )


async def test_propagation_by_query(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config())
    await t.delete(
        f"{t.core}/configmaps/m", query={"propagationPolicy": "Foreground"}, show="metadata.finalizers", code=200
    )


async def test_old_orphan_option(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config())
    await t.delete(f"{t.core}/configmaps/m", {"orphanDependents": True}, show="metadata.finalizers", code=200)
    await t.delete(f"{t.core}/configmaps/m", {"orphanDependents": True, "propagationPolicy": "Orphan"}, code=422)


async def test_preconditions(t: Trace) -> None:
    made_ = await t.make(f"{t.core}/configmaps", config())
    await t.delete(
        f"{t.core}/configmaps/m", {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}, code=409
    )
    await t.delete(
        f"{t.core}/configmaps/m",
        {"preconditions": {"resourceVersion": "1"}},
        view=lambda found: [found["code"], found["reason"]],
        code=409,
    )
    right = {"uid": made_["metadata"]["uid"], "resourceVersion": made_["metadata"]["resourceVersion"]}
    await t.delete(f"{t.core}/configmaps/m", {"preconditions": right}, show="status", code=200)


async def running(t: Trace, **spec: Any) -> None:
    await t.make(f"{t.core}/pods", pod(nodeName="n", automountServiceAccountToken=False, **spec))


def grace(found: Object) -> list[Any]:
    meta = found["metadata"]
    return [meta.get("deletionGracePeriodSeconds"), bool(meta.get("deletionTimestamp")), meta.get("generation")]


async def test_grace_of_a_bound_pod(t: Trace) -> None:
    await running(t)
    await t.delete(f"{t.core}/pods/p", view=grace, code=200)
    await t.get(f"{t.core}/pods/p", view=grace, code=200)
    await t.delete(f"{t.core}/pods/p", {"gracePeriodSeconds": 5}, view=grace, code=200)
    await t.delete(f"{t.core}/pods/p", {"gracePeriodSeconds": 60}, view=grace, code=200)
    await t.delete(f"{t.core}/pods/p", {"gracePeriodSeconds": 0}, view=grace, code=200)
    await t.get(f"{t.core}/pods/p", code=404)


async def test_grace_from_the_spec(t: Trace) -> None:
    await running(t, terminationGracePeriodSeconds=7)
    await t.delete(f"{t.core}/pods/p", view=grace, code=200)


async def test_a_finished_pod_goes_at_once(t: Trace) -> None:
    await running(t)
    await t.send(
        "PATCH",
        f"{t.core}/pods/p/status",
        {"status": {"phase": "Succeeded"}},
        content_type="application/merge-patch+json",
    )
    await t.delete(f"{t.core}/pods/p", view=grace, code=200)
    await t.get(f"{t.core}/pods/p", code=404)


async def test_dry_run(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config())
    await t.delete(f"{t.core}/configmaps/m", query={"dryRun": "All"}, code=200)
    await t.delete(f"{t.core}/configmaps/m", {"dryRun": ["All"]}, code=200)
    await t.get(f"{t.core}/configmaps/m", show="metadata.name", code=200)


async def test_collection(t: Trace) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"y": "1"})):
        await t.make(f"{t.core}/secrets", {"metadata": {"name": name, "labels": labels}})
    await t.delete(
        f"{t.core}/secrets",
        query={"labelSelector": "x"},
        view=lambda found: [found["kind"], [item["metadata"]["name"] for item in found["items"]]],
        code=200,
    )
    await t.get(f"{t.core}/secrets", view=lambda found: [item["metadata"]["name"] for item in found["items"]], code=200)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"gracePeriodSeconds":"x"}', b'{"kind":"Pod","apiVersion":"v1"}'])
async def test_broken_options(t: Trace, body: bytes) -> None:
    await t.make(f"{t.core}/configmaps", config())
    await t.call("DELETE", f"{t.core}/configmaps/m", body, view=lambda found: [found.get("code"), found.get("reason")])
