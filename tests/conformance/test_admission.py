"""Admission: service accounts, priorities, limits, quotas, terminating namespaces."""

from typing import Any

import pytest

from tests.conformance.samples import Object, config, container, made, pod, service
from tests.conformance.trace import Trace


async def test_token_volume_and_account(t: Trace) -> None:
    await t.make(
        f"{t.core}/serviceaccounts", {**made("ServiceAccount", "robot"), "imagePullSecrets": [{"name": "reg"}]}
    )
    await t.post(
        f"{t.core}/pods", pod(serviceAccountName="robot", initContainers=[container("first")]), show="spec", code=201
    )


@pytest.mark.parametrize("where", ["pod", "account"])
async def test_no_token_when_not_wanted(t: Trace, where: str) -> None:
    spec = {"automountServiceAccountToken": False} if where == "pod" else {"serviceAccountName": "quiet"}
    await t.make(
        f"{t.core}/serviceaccounts", {**made("ServiceAccount", "quiet"), "automountServiceAccountToken": False}
    )
    await t.post(f"{t.core}/pods", pod(**spec), view=lambda found: found["spec"].get("volumes"))


async def test_priority_class_gives_the_number(t: Trace) -> None:
    name = f"{t.namespace}-high"
    await t.make(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": name}, "value": 77, "preemptionPolicy": "Never"},
    )
    keep = lambda found: {key: found["spec"].get(key) for key in ("priority", "preemptionPolicy", "priorityClassName")}  # noqa: E731
    await t.post(f"{t.core}/pods", pod("a", priorityClassName=name), view=keep, code=201)
    await t.post(f"{t.core}/pods", pod("b", priority=5), code=403)
    await t.send("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


async def test_tolerations_are_added_once(t: Trace) -> None:
    mine = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    await t.post(f"{t.core}/pods", pod(tolerations=[mine]), show="spec.tolerations", code=201)


LIMITS = made(
    "LimitRange",
    "l",
    spec={
        "limits": [
            {
                "type": "Container",
                "default": {"cpu": "500m"},
                "defaultRequest": {"cpu": "250m", "memory": "64Mi"},
                "max": {"cpu": "1"},
                "min": {"cpu": "100m"},
            },
            {"type": "Pod", "max": {"memory": "1Gi"}},
        ]
    },
)


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"limits": {"cpu": "1", "memory": "128Mi"}}, id="within"),
        pytest.param({"limits": {"cpu": "2", "memory": "128Mi"}}, id="above-max"),
        pytest.param({"requests": {"cpu": "50m"}, "limits": {"memory": "128Mi"}}, id="below-min"),
        pytest.param({"limits": {"memory": "2Gi"}}, id="pod-above-max"),
    ],
)
async def test_limit_range(t: Trace, resources: Object) -> None:
    await t.make(f"{t.core}/limitranges", LIMITS)

    def view(found: Object) -> Any:
        if found["kind"] == "Status":
            return found
        return [found["spec"]["containers"][0]["resources"], found["metadata"].get("annotations")]

    await t.post(f"{t.core}/pods", pod(containers=[container(resources=resources)]), view=view)


def quota(**hard: str) -> Object:
    return made("ResourceQuota", "q", spec={"hard": {key.replace("_", "."): value for key, value in hard.items()}})


async def settle_quota(t: Trace, hard: Object) -> None:
    """Where no controller runs, a quota counts only once its status says what is used."""
    made_ = await t.make(f"{t.core}/resourcequotas", hard)
    if t.endpoint.kind == "real":
        used = dict.fromkeys(hard["spec"]["hard"], "0")
        status = {**made_, "status": {"hard": hard["spec"]["hard"], "used": used}}
        code, answer, _ = await t.send("PUT", f"{t.core}/resourcequotas/q/status", status)
        assert code == 200, answer


async def test_quota_of_pods(t: Trace) -> None:
    await settle_quota(t, quota(pods="1"))
    await t.post(f"{t.core}/pods", pod("a"), show="metadata.name", code=201)
    await t.post(f"{t.core}/pods", pod("b"), code=403)
    await t.get(f"{t.core}/resourcequotas/q", show="status", code=200)


async def test_quota_of_requests(t: Trace) -> None:
    await settle_quota(t, quota(requests_cpu="1", limits_memory="1Gi"))
    await t.post(f"{t.core}/pods", pod("vague"), code=403)
    big = container(resources={"requests": {"cpu": "600m"}, "limits": {"memory": "512Mi", "cpu": "1"}})
    await t.post(f"{t.core}/pods", pod("a", containers=[big]), show="metadata.name", code=201)
    await t.post(f"{t.core}/pods", pod("b", containers=[big]), code=403)
    await t.get(f"{t.core}/resourcequotas/q", show="status.used", code=200)


async def test_quota_of_counts(t: Trace) -> None:
    await settle_quota(t, made("ResourceQuota", "q", spec={"hard": {"count/secrets": "1", "services": "1"}}))
    await t.post(f"{t.core}/services", service("a"), show="metadata.name", code=201)
    await t.post(f"{t.core}/services", service("b"), code=403)
    await t.post(f"{t.core}/secrets", made("Secret", "x"), show="metadata.name", code=201)
    await t.post(f"{t.core}/secrets", made("Secret", "y"), code=403)


async def test_extended_resources_have_quotas(t: Trace) -> None:
    await settle_quota(t, made("ResourceQuota", "q", spec={"hard": {"requests.nvidia.com/gpu": "2"}}))
    gpus = container(resources={"limits": {"nvidia.com/gpu": "2"}})
    await t.post(f"{t.core}/pods", pod("a", containers=[gpus]), show="metadata.name", code=201)
    await t.post(f"{t.core}/pods", pod("b", containers=[gpus]), code=403)


async def test_a_terminating_namespace_takes_nothing_new(t: Trace) -> None:
    name = f"{t.namespace}-going"
    await t.make("/api/v1/namespaces", made("Namespace", name))
    await t.delete(f"/api/v1/namespaces/{name}", code=200)
    await t.post(f"/api/v1/namespaces/{name}/configmaps", config("late"), code=403)
    await t.delete(f"/api/v1/namespaces/{name}", code=200)


async def test_namespace_finalizers(t: Trace) -> None:
    name = f"{t.namespace}-held"
    made_ = await t.make("/api/v1/namespaces", made("Namespace", name))
    await t.get(f"/api/v1/namespaces/{name}", code=200)
    await t.put(f"/api/v1/namespaces/{name}/finalize", {**made_, "spec": {"finalizers": []}}, show="spec", code=200)
    await t.delete(f"/api/v1/namespaces/{name}", code=200)
    await t.get(f"/api/v1/namespaces/{name}", code=200)


async def test_event_must_be_where_its_object_is(t: Trace) -> None:
    event = made("Event", "e", involvedObject={"kind": "Pod", "name": "p", "namespace": "elsewhere"})
    await t.post(f"{t.core}/events", event, code=422)
