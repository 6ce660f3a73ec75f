"""Binding, eviction, resize, scale, tokens, reviews, logs of pods that have none."""

import pytest

from tests.conformance.samples import Object, container, made, pod, workload
from tests.conformance.trace import Trace

POD = pod(
    containers=[container(resources={"requests": {"cpu": "1", "memory": "1Gi"}})], automountServiceAccountToken=False
)


def binding(node: str, **meta: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **meta},
        "target": {"kind": "Node", "name": node},
    }


async def test_binding(t: Trace) -> None:
    await t.make(f"{t.core}/pods", POD)
    await t.post(f"{t.core}/pods/p/binding", binding("n1"), code=201)
    await t.get(
        f"{t.core}/pods/p",
        view=lambda found: [found["spec"]["nodeName"], found["status"]["conditions"], found["metadata"]["generation"]],
        code=200,
    )
    await t.post(f"{t.core}/pods/p/binding", binding("n2"), code=409)


@pytest.mark.parametrize(
    "body", [binding(""), {**binding("n"), "target": {"kind": "Shelf", "name": "n"}}], ids=["no-name", "no-node"]
)
async def test_refused_binding(t: Trace, body: Object) -> None:
    await t.make(f"{t.core}/pods", POD)
    await t.post(f"{t.core}/pods/p/binding", body, code=500)


async def test_binding_of_nothing_and_of_another(t: Trace) -> None:
    await t.post(f"{t.core}/pods/p/binding", binding("n1"), code=404)
    await t.make(f"{t.core}/pods", POD)
    await t.post(
        f"{t.core}/pods/p/binding",
        binding("n1", uid="11111111-2222-3333-4444-555555555555"),
        view=lambda found: [found["code"], found["reason"]],
        code=409,
    )


async def test_bindings_resource(t: Trace) -> None:
    await t.make(f"{t.core}/pods", POD)
    await t.post(f"{t.core}/bindings", binding("n1"), code=201)


async def test_gated_pod(t: Trace) -> None:
    await t.post(
        f"{t.core}/pods",
        pod(schedulingGates=[{"name": "a.b/c"}], automountServiceAccountToken=False),
        show="status",
        code=201,
    )
    await t.post(f"{t.core}/pods/p/binding", binding("n1"), code=409)
    await t.patch(f"{t.core}/pods/p", {"spec": {"nodeSelector": {"a": "b"}}}, show="spec.nodeSelector", code=200)
    await t.patch(f"{t.core}/pods/p", {"spec": {"schedulingGates": None}}, show="spec.schedulingGates", code=200)
    await t.post(f"{t.core}/pods/p/binding", binding("n1"), code=201)


def eviction(**options: object) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p"},
        **({"deleteOptions": options} if options else {}),
    }


async def test_eviction_of_a_pending_pod(t: Trace) -> None:
    await t.make(f"{t.core}/pods", POD)
    await t.post(f"{t.core}/pods/p/eviction", eviction(), code=201)
    await t.get(f"{t.core}/pods/p", code=404)


async def test_eviction_of_a_bound_pod(t: Trace) -> None:
    await t.make(f"{t.core}/pods", {**POD, "spec": {**POD["spec"], "nodeName": "n"}})
    await t.post(f"{t.core}/pods/p/eviction", eviction(gracePeriodSeconds=9), code=201)
    await t.get(
        f"{t.core}/pods/p",
        view=lambda found: [found["metadata"]["deletionGracePeriodSeconds"], found["status"].get("conditions")],
        code=200,
    )


async def test_eviction_of_nothing(t: Trace) -> None:
    await t.post(f"{t.core}/pods/p/eviction", eviction(), code=404)


def resources(found: Object) -> Object:
    return found["spec"]["containers"][0]["resources"] if "spec" in found else found


async def test_resize(t: Trace) -> None:
    await t.make(f"{t.core}/pods", POD)
    change = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    await t.patch(f"{t.core}/pods/p/resize", change, "strategic", view=resources, code=200)
    await t.get(f"{t.core}/pods/p", show="metadata.generation", code=200)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"containers": [{"name": "c", "image": "other"}]}, id="image"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}, id="storage"
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}, id="quality"
        ),
    ],
)
async def test_refused_resize(t: Trace, change: Object) -> None:
    await t.make(f"{t.core}/pods", POD)
    await t.patch(
        f"{t.core}/pods/p/resize",
        {"spec": change},
        "strategic",
        view=lambda found: (
            resources(found)
            if "spec" in found
            else [found["code"], found["reason"], [c["field"] for c in found["details"]["causes"]]]
        ),
    )


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
async def test_scale(t: Trace, kind: str) -> None:
    path = f"{t.group('apps/v1')}/{kind.lower()}s"
    await t.make(path, workload(kind, replicas=2))
    scale = await t.get(f"{path}/w/scale", code=200)
    await t.put(f"{path}/w/scale", {**scale, "spec": {"replicas": 4}}, code=200)
    await t.put(f"{path}/w/scale", {**scale, "spec": {"replicas": 5}}, code=409)
    await t.patch(f"{path}/w/scale", {"spec": {"replicas": 0}}, code=200)
    await t.patch(f"{path}/w/scale", {"spec": {"replicas": -1}}, code=422)
    await t.get(f"{path}/w", view=lambda found: [found["spec"]["replicas"], found["metadata"]["generation"]], code=200)
    await t.get(f"{path}/nobody/scale", code=404)


async def test_token(t: Trace) -> None:
    answer = await t.post(
        f"{t.core}/serviceaccounts/default/token",
        {"spec": {}},
        view=lambda found: [found["kind"], sorted(found["status"]), found["spec"]["expirationSeconds"]],
        code=201,
    )
    token = answer["status"]["token"]
    await t.post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {},
        token=token,
        view=lambda found: [found["status"]["userInfo"]["username"], found["status"]["userInfo"]["groups"]],
        code=201,
    )
    await t.post(f"{t.core}/serviceaccounts/nobody/token", {"spec": {}}, code=404)
    await t.post(f"{t.core}/serviceaccounts/default/token", {"spec": {"expirationSeconds": 5}}, code=422)


async def test_token_review(t: Trace) -> None:
    await t.post(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"spec": {"token": "nonsense"}},
        view=lambda found: [found["status"].get("authenticated"), found["status"].get("user")],
        code=201,
    )
    token = t.endpoint.token
    _, found, _ = await t.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert found["status"]["authenticated"] is True


async def test_access_reviews(t: Trace) -> None:
    asked = {"spec": {"resourceAttributes": {"namespace": t.namespace, "verb": "create", "resource": "pods"}}}
    await t.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked, show="status.allowed", code=201)
    await t.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {"spec": {"namespace": t.namespace}},
        view=lambda found: {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in found["status"]["resourceRules"],
        code=201,
    )


@pytest.mark.parametrize(
    "query", [{}, {"container": "nobody"}, {"container": "c"}], ids=["default", "unknown", "named"]
)
async def test_log_of_a_pending_pod(t: Trace, query: dict[str, str]) -> None:
    await t.make(f"{t.core}/pods", POD)
    await t.get(f"{t.core}/pods/p/log", query=query)


async def test_log_needs_a_container(t: Trace) -> None:
    await t.make(f"{t.core}/pods", pod(containers=[container("a"), container("b")], initContainers=[container("i")]))
    await t.get(f"{t.core}/pods/p/log", code=400)
    await t.get(f"{t.core}/pods/nobody/log", code=404)


@pytest.mark.parametrize("sub", ["exec", "attach", "portforward"])
async def test_streams_of_a_pending_pod(t: Trace, sub: str) -> None:
    await t.make(f"{t.core}/pods", POD)
    await t.get(
        f"{t.core}/pods/p/{sub}",
        query={"command": "ls", "stdout": "true"},
        view=lambda found: [found["code"], found["reason"]],
        code=400,
    )


async def test_pod_status_by_the_node(t: Trace) -> None:
    await t.make(f"{t.core}/pods", POD)
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "c", "state": state}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await t.patch(f"{t.core}/pods/p/status", {"status": status}, "strategic", show="status", code=200)
    change = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]}
    await t.patch(f"{t.core}/pods/p/status", {"status": change}, "strategic", show="status.conditions", code=200)


async def test_node_and_its_status(t: Trace) -> None:
    name = f"{t.namespace}-node"
    await t.post("/api/v1/nodes", made("Node", name, status={"capacity": {"cpu": "4", "memory": "8Gi"}}), code=201)
    await t.patch(
        f"/api/v1/nodes/{name}/status",
        {"status": {"capacity": {"nvidia.com/gpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}},
        show="status",
        code=200,
    )
    await t.patch(
        f"/api/v1/nodes/{name}",
        {"spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}},
        show="spec",
        code=200,
    )
    await t.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "a", "effect": "Never"}]}}, code=422)
    await t.delete(f"/api/v1/nodes/{name}", code=200)
