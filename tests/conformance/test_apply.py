"""Server-side apply: ownership, conflicts, and what is left when a manager changes its mind."""

import asyncio
from typing import Any

import pytest

from tests.conformance.defining import define
from tests.conformance.samples import GADGETS, Object, config, container, definition, gadget, pod, template, workload
from tests.conformance.trace import Trace


def owners(found: Object) -> Object:
    """Who owns what, beside the object itself."""
    if "metadata" not in found or found.get("kind") == "Status":
        return found
    return {
        "managers": found["metadata"].get("managedFields"),
        "data": found.get("data"),
        "spec": found.get("spec"),
        "labels": found["metadata"].get("labels"),
    }


def fields_of(found: Object) -> Object:
    return {"managers": found["metadata"]["managedFields"]}


async def test_apply_creates(t: Trace) -> None:
    await t.apply(f"{t.core}/configmaps/m", config(a="1"), view=owners, managed=True, code=201)


async def test_apply_again_changes_nothing(t: Trace) -> None:
    first = await t.apply(f"{t.core}/configmaps/m", config(a="1"), code=201)
    again = await t.apply(f"{t.core}/configmaps/m", config(a="1"), code=200)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_apply_again_changes_nothing_where_a_default_fills_what_it_replaces(t: Trace) -> None:
    named = [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    body = workload("Deployment", template=template(containers=[container(env=named)]))
    path = f"{t.group('apps/v1')}/deployments/w"
    first = await t.apply(path, body, code=201)
    await asyncio.sleep(1.1)  # times are kept in whole seconds
    again = await t.apply(path, body, code=200)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_what_is_no_longer_applied_goes(t: Trace) -> None:
    await t.apply(f"{t.core}/configmaps/m", config(a="1", b="2"), code=201)
    await t.apply(f"{t.core}/configmaps/m", config(b="3"), view=owners, managed=True, code=200)


async def test_what_another_set_stays(t: Trace) -> None:
    await t.apply(f"{t.core}/configmaps/m", config(a="1"), code=201)
    await t.patch(f"{t.core}/configmaps/m", {"data": {"b": "2"}}, query={"fieldManager": "bob"}, code=200)
    await t.apply(f"{t.core}/configmaps/m", config(c="3"), view=owners, managed=True, code=200)


async def test_conflict_and_force(t: Trace) -> None:
    await t.apply(f"{t.core}/configmaps/m", config(a="1", b="1"), code=201)
    await t.apply(f"{t.core}/configmaps/m", config(a="2"), "bob", code=409)
    await t.apply(f"{t.core}/configmaps/m", config(a="2", b="2"), "bob", code=409)
    await t.apply(f"{t.core}/configmaps/m", config(a="2"), "bob", force=True, view=owners, managed=True, code=200)


async def test_conflict_with_an_update(t: Trace) -> None:
    await t.post(f"{t.core}/configmaps", config(a="1"), query={"fieldManager": "carol"}, code=201)
    await t.apply(f"{t.core}/configmaps/m", config(a="2"), code=409)
    await t.apply(f"{t.core}/configmaps/m", config(a="2"), force=True, view=owners, managed=True, code=200)


async def test_shared_ownership(t: Trace) -> None:
    await t.apply(f"{t.core}/configmaps/m", config(a="1"), code=201)
    await t.apply(f"{t.core}/configmaps/m", config(a="1"), "bob", view=owners, managed=True, code=200)
    await t.apply(f"{t.core}/configmaps/m", config(), view=owners, managed=True, code=200)
    await t.apply(f"{t.core}/configmaps/m", config(), "bob", view=owners, managed=True, code=200)


async def test_update_takes_ownership(t: Trace) -> None:
    await t.apply(f"{t.core}/configmaps/m", config(a="1", b="1"), code=201)
    await t.patch(
        f"{t.core}/configmaps/m",
        {"data": {"a": "2"}},
        query={"fieldManager": "bob"},
        view=owners,
        managed=True,
        code=200,
    )


async def test_fields_of_a_created_pod(t: Trace) -> None:
    full = pod(
        labels={"a": "b"},
        containers=[
            container(
                env=[{"name": "A", "value": "1"}], ports=[{"containerPort": 80}], resources={"limits": {"cpu": "1"}}
            )
        ],
        volumes=[{"name": "v", "emptyDir": {}}],
        automountServiceAccountToken=False,
    )
    await t.post(f"{t.core}/pods", full, view=fields_of, managed=True, code=201)


async def test_fields_of_a_created_deployment(t: Trace) -> None:
    await t.post(f"{t.group('apps/v1')}/deployments", workload("Deployment"), view=fields_of, managed=True, code=201)


async def test_status_has_its_own_entry(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/deployments"
    await t.make(path, workload("Deployment"))
    await t.patch(
        f"{path}/w/status",
        {"status": {"replicas": 1}},
        query={"fieldManager": "ctl"},
        view=fields_of,
        managed=True,
        code=200,
    )
    await t.patch(f"{path}/w/scale", {"spec": {"replicas": 4}}, query={"fieldManager": "me"}, code=200)
    await t.get(f"{path}/w", view=fields_of, managed=True, code=200)


async def test_apply_of_status(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/deployments"
    await t.make(path, workload("Deployment"))
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 2}}
    await t.apply(
        f"{path}/w/status",
        status,
        "ctl",
        view=lambda found: {"status": found["status"], **fields_of(found)},
        managed=True,
        code=200,
    )


DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}


def containers(found: Object) -> Any:
    if "spec" not in found:
        return found
    return [
        [c["name"], c["image"], [e["name"] for e in c.get("env", [])]]
        for c in found["spec"]["template"]["spec"]["containers"]
    ]


async def test_lists_are_merged_by_key(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/deployments/w"
    one = workload("Deployment", template=template(containers=[container("one", env=[{"name": "A", "value": "1"}])]))
    await t.apply(path, one, view=containers, code=201)
    two = {
        **DEPLOYMENT,
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "two", "image": "i"}, {"name": "one", "env": [{"name": "B", "value": "2"}]}]
                }
            }
        },
    }
    await t.apply(path, two, "bob", view=containers, code=200)
    await t.apply(
        path, workload("Deployment", template=template(containers=[container("one")])), view=containers, code=200
    )
    await t.apply(path, {**DEPLOYMENT, "spec": {"replicas": 2}}, "bob", view=containers, code=200)


async def test_a_removed_element_with_another_owner_stays(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/deployments/w"
    both = workload("Deployment", template=template(containers=[container("one"), container("two")]))
    await t.apply(path, both, code=201)
    mine = {**DEPLOYMENT, "spec": {"template": {"spec": {"containers": [{"name": "two", "workingDir": "/x"}]}}}}
    await t.apply(path, mine, "bob", view=containers, code=200)
    await t.apply(path, workload("Deployment", template=template(containers=[container("one")])), code=422)


async def test_defaults_survive(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/deployments/w"
    await t.apply(path, workload("Deployment", replicas=3), show="spec.replicas", code=201)
    await t.apply(path, workload("Deployment"), show="spec.replicas", code=200)


async def test_ports_of_the_same_number(t: Trace) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]},
    }
    await t.apply(f"{t.core}/services/s", body, view=fields_of, managed=True, code=201)


@pytest.mark.parametrize(
    ("body", "query"),
    [
        pytest.param(config(), {}, id="no-manager"),
        pytest.param({"metadata": {"name": "m"}}, {"fieldManager": "a"}, id="no-kind"),
        pytest.param({**config(), "apiVersion": "v2"}, {"fieldManager": "a"}, id="other-version"),
        pytest.param(config("other"), {"fieldManager": "a"}, id="other-name"),
        pytest.param(
            {**config(), "metadata": {"name": "m", "managedFields": []}}, {"fieldManager": "a"}, id="managed-fields"
        ),
        pytest.param(
            {**config(), "nonsense": 1}, {"fieldManager": "a", "fieldValidation": "Strict"}, id="unknown-field"
        ),
        pytest.param(
            {**config(), "metadata": {"name": "m", "resourceVersion": "7"}},
            {"fieldManager": "a"},
            id="version-of-nothing",
        ),
    ],
)
async def test_refused_configurations(t: Trace, body: Object, query: dict[str, str]) -> None:
    await t.call("PATCH", f"{t.core}/configmaps/m", body, content_type="application/apply-patch+yaml", query=query)


async def test_yaml(t: Trace) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: x\n"
    query = {"fieldManager": "alice"}
    await t.call(
        "PATCH",
        f"{t.core}/configmaps/m",
        text,
        content_type="application/apply-patch+yaml",
        query=query,
        view=owners,
        code=201,
    )


async def test_dry_run(t: Trace) -> None:
    await t.apply(f"{t.core}/configmaps/m", config(a="1"), query={"dryRun": "All"}, show="data", code=201)
    await t.get(f"{t.core}/configmaps/m", code=404)


async def test_custom_resources_too(t: Trace) -> None:
    await define(t, definition(GADGETS))
    path = f"{t.group(f'{GADGETS}/v1')}/gadgets/g"
    await t.apply(
        path,
        gadget(keyed=[{"k": "a", "v": 1}], set=["x"], map={"m": 1}, free={"any": {"thing": [1]}}),
        view=owners,
        managed=True,
        code=201,
    )
    await t.apply(path, gadget(keyed=[{"k": "b"}], set=["y"], map={"n": 2}), "bob", view=owners, managed=True, code=200)
    await t.apply(path, gadget(replicas=2), view=owners, code=409)
    await t.apply(
        path,
        gadget(replicas=1, keyed=[{"k": "a", "v": 1}, {"k": "a", "v": 2}]),
        "carol",
        force=True,
        view=lambda f: [f["code"], f.get("reason")],
        code=500,
    )


async def test_update_of_a_custom_resource(t: Trace) -> None:
    await define(t, definition(GADGETS))
    path = f"{t.group(f'{GADGETS}/v1')}/gadgets"
    await t.make(path, gadget(keyed=[{"k": "a"}], free={"x": 1}))
    await t.patch(
        f"{path}/g",
        {"spec": {"keyed": [{"k": "a"}, {"k": "b"}], "free": {"x": 2, "y": 1}}},
        query={"fieldManager": "bob"},
        view=owners,
        managed=True,
        code=200,
    )
    await t.patch(
        f"{path}/g/status",
        {"status": {"replicas": 3}},
        query={"fieldManager": "ctl"},
        view=owners,
        managed=True,
        code=200,
    )
