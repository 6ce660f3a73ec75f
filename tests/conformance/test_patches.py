"""JSON, merge and strategic merge patches."""

from typing import Any

import pytest

from tests.conformance.samples import Object, config, container, pod, service, template, workload
from tests.conformance.trace import Trace


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"data": {"b": "2"}}, id="add"),
        pytest.param({"data": {"a": None}}, id="remove"),
        pytest.param({"data": None}, id="remove-all"),
        pytest.param({"metadata": {"labels": {"x": "y"}}}, id="label"),
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": {"name": "other"}}, id="rename"),
        pytest.param({"kind": "Namespace", "data": None}, id="change-kind"),
        pytest.param({"metadata": {"resourceVersion": "1"}}, id="stale"),
        pytest.param({"metadata": {"uid": "x"}}, id="uid"),
        pytest.param({"data": {"c": 5}}, id="wrong-type"),
        pytest.param({"data": "x"}, id="wrong-shape"),
        pytest.param({"unknown": 1}, id="unknown-field"),
        pytest.param({"metadata": {"labels": {"bad key": "y"}}}, id="bad-label"),
        pytest.param({"metadata": {"finalizers": ["no-slash"]}}, id="bad-finalizer"),
    ],
)
async def test_merge_patch(t: Trace, change: Object) -> None:
    await t.make(f"{t.core}/configmaps", config(a="1"))
    await t.patch(f"{t.core}/configmaps/m", change, view=without_document)


def without_document(found: Object) -> Any:
    """Some refusals quote the whole patched object, in an order of their own; what follows it is the reason."""
    causes = (found.get("details") or {}).get("causes") or []
    if any(cause.get("field") == "patch" for cause in causes):
        return [found["code"], found["reason"], [cause["message"].rpartition('}": ')[2] for cause in causes]]
    return found


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "add", "path": "/data/b", "value": "2"}], id="add"),
        pytest.param([{"op": "replace", "path": "/data/a", "value": "9"}], id="replace"),
        pytest.param([{"op": "remove", "path": "/data/a"}], id="remove"),
        pytest.param([{"op": "copy", "from": "/data/a", "path": "/data/b"}], id="copy"),
        pytest.param([{"op": "move", "from": "/data/a", "path": "/data/b"}], id="move"),
        pytest.param(
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}], id="test-holds"
        ),
        pytest.param([{"op": "test", "path": "/data/a", "value": "7"}], id="test-fails"),
        pytest.param([{"op": "remove", "path": "/data/nothing"}], id="remove-absent"),
        pytest.param([{"op": "explode", "path": "/data"}], id="unknown-operation"),
        pytest.param([], id="empty"),
        pytest.param({"a": 1}, id="object"),
        pytest.param([{"op": "add", "path": "/metadata/labels", "value": {"a~1b": "c"}}], id="bad-label-key"),
        pytest.param(
            [
                {"op": "add", "path": "/metadata/annotations", "value": {"edl.dev/x": "1"}},
                {"op": "replace", "path": "/metadata/annotations/edl.dev~1x", "value": "2"},
            ],
            id="escaped",
        ),
    ],
)
async def test_json_patch(t: Trace, operations: Object) -> None:
    await t.make(f"{t.core}/configmaps", config(a="1"))
    await t.patch(f"{t.core}/configmaps/m", operations, "json")


@pytest.mark.parametrize("body", [b'{"a":', b"[]", b'"x"', b"{}"])
@pytest.mark.parametrize("kind", ["json", "strategic", "application/merge-patch+json", "application/json"])
async def test_broken_patches(t: Trace, kind: str, body: bytes) -> None:
    await t.make(f"{t.core}/configmaps", config(a="1"))
    short = {"json": "application/json-patch+json", "strategic": "application/strategic-merge-patch+json"}
    await t.call("PATCH", f"{t.core}/configmaps/m", body, content_type=short.get(kind, kind))


def spec_of(found: Object) -> Object:
    return found["spec"]["template"]["spec"] if "spec" in found else found


BASE = workload(
    "Deployment",
    template=template(
        containers=[
            container(
                "one", env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], ports=[{"containerPort": 80}]
            ),
            container("two", args=["x", "y"]),
        ],
        volumes=[{"name": "v", "emptyDir": {}}],
        nodeSelector={"a": "b"},
        imagePullSecrets=[{"name": "s"}],
    ),
)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"containers": [{"name": "one", "image": "new"}]}, id="merge-by-key"),
        pytest.param({"containers": [{"name": "three", "image": "new"}]}, id="append"),
        pytest.param({"containers": [{"name": "one", "$patch": "delete"}]}, id="delete-element"),
        pytest.param({"containers": [{"name": "four", "image": "i"}, {"$patch": "replace"}]}, id="replace-list"),
        pytest.param(
            {"containers": [{"name": "one", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}]},
            id="nested",
        ),
        pytest.param({"containers": [{"name": "one", "env": [{"name": "A", "$patch": "delete"}]}]}, id="delete-nested"),
        pytest.param({"containers": [{"name": "two", "args": ["z"]}]}, id="atomic-list"),
        pytest.param(
            {"containers": [{"name": "one", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]}]},
            id="ports",
        ),
        pytest.param({"nodeSelector": {"c": "d"}}, id="merge-map"),
        pytest.param({"nodeSelector": None}, id="remove-map"),
        pytest.param({"nodeSelector": {"$patch": "replace", "c": "d"}}, id="replace-map"),
        pytest.param(
            {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}]},
            id="retain-keys",
        ),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "two"}, {"name": "one"}],
                "containers": [{"name": "one", "image": "n"}],
            },
            id="order",
        ),
        pytest.param({"containers": [{"image": "nameless"}]}, id="no-key"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, id="plain-list"),
        pytest.param({"imagePullSecrets": [{"name": "t"}]}, id="secrets"),
        pytest.param({"terminationGracePeriodSeconds": 5, "hostNetwork": True}, id="scalars"),
        pytest.param({"containers": [{"name": "one", "resources": {"limits": {"cpu": "1000m"}}}]}, id="quantity"),
    ],
)
async def test_strategic_merge(t: Trace, change: Object) -> None:
    path = f"{t.group('apps/v1')}/deployments"
    await t.make(path, BASE)
    await t.patch(f"{path}/w", {"spec": {"template": {"spec": change}}}, "strategic", view=spec_of)


async def test_strategic_strategy_switch(t: Trace) -> None:
    path = f"{t.group('apps/v1')}/deployments"
    await t.make(path, BASE)
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    await t.patch(f"{path}/w", change, "strategic", show="spec.strategy", code=200)


async def test_strategic_finalizers(t: Trace) -> None:
    body = config()
    body["metadata"]["finalizers"] = ["a.b/c", "d.e/f"]
    await t.make(f"{t.core}/configmaps", body)
    change = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"], "finalizers": ["x.y/z"]}}
    await t.patch(f"{t.core}/configmaps/m", change, "strategic", show="metadata.finalizers", code=200)
    await t.patch(f"{t.core}/configmaps/m", {"metadata": {"finalizers": None}}, code=200)


async def test_strategic_service_ports(t: Trace) -> None:
    await t.make(f"{t.core}/services", service(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}]))
    change = {"spec": {"ports": [{"port": 81, "name": "c"}, {"port": 82, "name": "d"}]}}
    await t.patch(f"{t.core}/services/s", change, "strategic", show="spec.ports", code=200)


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
async def test_unknown_field_in_a_patch(t: Trace, mode: str) -> None:
    await t.make(f"{t.core}/pods", pod(containers=[container()], automountServiceAccountToken=False))

    def view(found: Object) -> Any:
        if "spec" in found:
            return found["metadata"]["name"]
        return [found["code"], found["reason"], found["details"]["causes"][0]["message"].rpartition(": ")[2]]

    await t.patch(
        f"{t.core}/pods/p",
        {"metadata": {"labels": {"a": "b"}}, "spec": {"what": 1}},
        query={"fieldValidation": mode},
        view=view,
    )


async def test_patch_what_is_not_there(t: Trace) -> None:
    await t.patch(f"{t.core}/configmaps/nobody", {"data": {"a": "b"}}, code=404)


async def test_patch_dry_run(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config(a="1"))
    await t.patch(f"{t.core}/configmaps/m", {"data": {"a": "2"}}, query={"dryRun": "All"}, show="data", code=200)
    await t.get(f"{t.core}/configmaps/m", show="data", code=200)


async def test_empty_patch_writes_nothing(t: Trace) -> None:
    first = await t.make(f"{t.core}/configmaps", config(a="1"))
    same = await t.patch(f"{t.core}/configmaps/m", {"data": {"a": "1"}}, code=200)
    assert same["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
