"""Validation of the built-in kinds: refusals and their messages."""

from typing import Any

import pytest

from tests.conformance.samples import Object, config, container, job, made, pod, service, template, workload
from tests.conformance.trace import Trace


def problems(found: Object) -> Any:
    """The whole refusal, or only that it was accepted."""
    return found if found.get("kind") == "Status" else "accepted"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": []}, id="no-containers"),
        pytest.param({"containers": [{"name": "c"}]}, id="no-image"),
        pytest.param({"containers": [{"image": "i"}]}, id="no-name"),
        pytest.param({"containers": [container("a"), container("a")]}, id="duplicate-name"),
        pytest.param({"containers": [container("A_B")]}, id="bad-container-name"),
        pytest.param({"restartPolicy": "Sometimes"}, id="restart-policy"),
        pytest.param({"terminationGracePeriodSeconds": -1}, id="grace"),
        pytest.param({"activeDeadlineSeconds": 0}, id="deadline"),
        pytest.param({"nodeSelector": {"bad key": "v"}}, id="node-selector"),
        pytest.param({"hostname": "Bad_Host"}, id="hostname"),
        pytest.param({"containers": [container(ports=[{"containerPort": 70000}])]}, id="port-range"),
        pytest.param({"containers": [container(ports=[{"name": "web"}])]}, id="port-missing"),
        pytest.param(
            {"containers": [container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}])]},
            id="port-duplicate",
        ),
        pytest.param({"containers": [container(env=[{"name": ""}])]}, id="env-name"),
        pytest.param({"containers": [container(env=[{"name": "A=B", "value": "1"}])]}, id="env-bad-name"),
        pytest.param(
            {
                "containers": [
                    container(
                        env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
                    )
                ]
            },
            id="env-both",
        ),
        pytest.param(
            {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/x"}])]}, id="mount-of-nothing"
        ),
        pytest.param(
            {"containers": [container(volumeMounts=[{"name": "v"}])], "volumes": [{"name": "v", "emptyDir": {}}]},
            id="mount-nowhere",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}, id="volume-duplicate"
        ),
        pytest.param({"volumes": [{"name": "Bad_V", "emptyDir": {}}]}, id="volume-name"),
        pytest.param({"volumes": [{"name": "v", "secret": {}}]}, id="secret-name"),
        pytest.param({"volumes": [{"name": "v", "configMap": {}}]}, id="configmap-name"),
        pytest.param(
            {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            id="request-above-limit",
        ),
        pytest.param({"containers": [container(resources={"limits": {"cpu": "-1"}})]}, id="negative"),
        pytest.param({"containers": [container(resources={"limits": {"gpus": "1"}})]}, id="unknown-resource"),
        pytest.param(
            {"containers": [container(resources={"limits": {"nvidia.com/gpu": "500m"}})]}, id="part-of-a-device"
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"nvidia.com/gpu": "1"}})]}, id="device-without-limit"
        ),
        pytest.param(
            {
                "containers": [
                    container(resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}})
                ]
            },
            id="device-overcommitted",
        ),
        pytest.param({"containers": [container(livenessProbe={})]}, id="probe-without-handler"),
        pytest.param(
            {"containers": [container(livenessProbe={"exec": {"command": ["x"]}, "httpGet": {"port": 1}})]},
            id="probe-with-two",
        ),
        pytest.param(
            {"containers": [container(livenessProbe={"exec": {"command": ["x"]}, "successThreshold": 2})]},
            id="probe-threshold",
        ),
        pytest.param({"containers": [container(imagePullPolicy="Perhaps")]}, id="pull-policy"),
        pytest.param({"containers": [container(terminationMessagePolicy="Shout")]}, id="message-policy"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, id="toleration-value"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Like"}]}, id="toleration-operator"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists", "effect": "Maybe"}]}, id="toleration-effect"),
        pytest.param({"priorityClassName": "no-such-class"}, id="no-priority-class"),
        pytest.param({"serviceAccountName": "nobody"}, id="no-service-account"),
        pytest.param({"initContainers": [container("c")]}, id="init-duplicate"),
    ],
)
async def test_pods(t: Trace, spec: Object) -> None:
    body = pod("p", automountServiceAccountToken=False)
    body["spec"] |= spec
    await t.post(f"{t.core}/pods", body, view=problems)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"containers": [{"name": "c", "image": "new"}]}, id="image"),
        pytest.param({"activeDeadlineSeconds": 9}, id="deadline"),
        pytest.param({"tolerations": [{"key": "x", "operator": "Exists"}]}, id="fewer-tolerations"),
        pytest.param({"containers": [{"name": "other", "image": "new"}]}, id="another-container"),
    ],
)
async def test_allowed_and_forbidden_changes_of_pods(t: Trace, change: Object) -> None:
    await t.make(f"{t.core}/pods", pod(automountServiceAccountToken=False))
    await t.patch(f"{t.core}/pods/p", {"spec": change}, "strategic", view=fields)


def fields(found: Object) -> Any:
    """The refused fields; their messages hold a comparison of Go structs that nobody should rely on."""
    if found.get("kind") != "Status":
        return "accepted"
    return [found["code"], found["reason"], [[c["field"], c["reason"]] for c in found["details"]["causes"]]]


@pytest.mark.parametrize(
    "change",
    [{"nodeName": "n"}, {"restartPolicy": "Never"}, {"hostNetwork": True}, {"terminationGracePeriodSeconds": 7}],
    ids=lambda c: next(iter(c)),
)
async def test_immutable_fields_of_pods(t: Trace, change: Object) -> None:
    await t.make(f"{t.core}/pods", pod(automountServiceAccountToken=False))
    await t.patch(
        f"{t.core}/pods/p",
        {"spec": change},
        view=lambda found: [
            found.get("code"),
            found.get("reason"),
            [[c["field"], c["message"].partition("\n")[0]] for c in found["details"]["causes"]],
        ],
        code=422,
    )


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param("Deployment", {"selector": None}, id="no-selector"),
        pytest.param("Deployment", {"selector": {"matchLabels": {"app": "b"}}}, id="other-selector"),
        pytest.param("Deployment", {"selector": {}}, id="empty-selector"),
        pytest.param(
            "Deployment", {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, id="selector-operator"
        ),
        pytest.param("Deployment", {"replicas": -1}, id="negative"),
        pytest.param("Deployment", {"template": template(restartPolicy="Never")}, id="restart-policy"),
        pytest.param("Deployment", {"template": template(containers=[])}, id="no-containers"),
        pytest.param("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, id="strategy"),
        pytest.param("Deployment", {"strategy": {"type": "Blue"}}, id="strategy-type"),
        pytest.param("ReplicaSet", {"selector": {"matchLabels": {"app": "b"}}}, id="replicaset-selector"),
        pytest.param("ReplicaSet", {"minReadySeconds": -1}, id="replicaset-seconds"),
        pytest.param("StatefulSet", {"replicas": -1}, id="statefulset-negative"),
        pytest.param("StatefulSet", {"selector": {"matchLabels": {"app": "b"}}}, id="statefulset-selector"),
    ],
)
async def test_workloads(t: Trace, kind: str, spec: Object) -> None:
    await t.post(f"{t.group('apps/v1')}/{kind.lower()}s", workload(kind, **spec), view=problems, code=422)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (
            "Deployment",
            {"selector": {"matchLabels": {"app": "a", "x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}}},
        ),
        (
            "ReplicaSet",
            {"selector": {"matchLabels": {"app": "a", "x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}}},
        ),
        ("StatefulSet", {"serviceName": "other"}),
        ("StatefulSet", {"replicas": 4}),
    ],
    ids=["deployment", "replicaset", "statefulset", "statefulset-replicas"],
)
async def test_immutable_fields_of_workloads(t: Trace, kind: str, change: Object) -> None:
    path = f"{t.group('apps/v1')}/{kind.lower()}s"
    await t.make(path, workload(kind))
    await t.patch(f"{path}/w", {"spec": change}, view=problems)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"parallelism": -1}, id="negative"),
        pytest.param({"completionMode": "Indexed"}, id="indexed-without-completions"),
        pytest.param({"completionMode": "Odd"}, id="mode"),
        pytest.param({"template": {"spec": {"containers": [container()]}}}, id="restart-policy"),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}}, id="selector"),
        pytest.param({"backoffLimit": -3, "activeDeadlineSeconds": -1}, id="two"),
    ],
)
async def test_jobs(t: Trace, spec: Object) -> None:
    await t.post(f"{t.group('batch/v1')}/jobs", job(**spec), view=problems)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"parallelism": 3}, id="parallelism"),
        pytest.param({"completions": 3}, id="completions"),
        pytest.param({"completionMode": "Indexed"}, id="mode"),
        pytest.param({"suspend": True}, id="suspend"),
        pytest.param({"managedBy": "x.y/z"}, id="managed-by"),
        pytest.param({"backoffLimit": 1}, id="backoff"),
    ],
)
async def test_changes_of_jobs(t: Trace, change: Object) -> None:
    await t.make(f"{t.group('batch/v1')}/jobs", job())
    await t.patch(f"{t.group('batch/v1')}/jobs/j", {"spec": change}, view=problems)


async def test_job_template_is_immutable(t: Trace) -> None:
    await t.make(f"{t.group('batch/v1')}/jobs", job())
    change = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    await t.patch(
        f"{t.group('batch/v1')}/jobs/j",
        change,
        view=lambda f: [f["code"], [[c["field"], c["message"].rpartition(": ")[2]] for c in f["details"]["causes"]]],
        code=422,
    )


async def test_elastic_indexed_job(t: Trace) -> None:
    await t.make(f"{t.group('batch/v1')}/jobs", job(completionMode="Indexed", completions=2, parallelism=2))
    await t.patch(
        f"{t.group('batch/v1')}/jobs/j",
        {"spec": {"completions": 3, "parallelism": 3}},
        show="spec.completions",
        code=200,
    )
    await t.patch(f"{t.group('batch/v1')}/jobs/j", {"spec": {"completions": 4}}, view=problems, code=422)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"ports": []}, id="no-ports"),
        pytest.param({"ports": [{"port": 0}]}, id="port-zero"),
        pytest.param({"ports": [{"port": 80}, {"port": 81}]}, id="nameless-ports"),
        pytest.param({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}, id="same-names"),
        pytest.param({"type": "Magic"}, id="type"),
        pytest.param({"type": "ExternalName", "ports": []}, id="external-name"),
        pytest.param({"ports": [{"port": 80, "protocol": "ICMP"}]}, id="protocol"),
        pytest.param({"sessionAffinity": "Sticky"}, id="affinity"),
    ],
)
async def test_services(t: Trace, spec: Object) -> None:
    await t.post(f"{t.core}/services", service(**spec), view=problems, code=422)


@pytest.mark.parametrize("name", ["1abc", "Upper", "a.b", "x" * 64])
async def test_service_names(t: Trace, name: str) -> None:
    await t.post(f"{t.core}/services", service(name), view=problems)


async def test_cluster_ip_is_immutable(t: Trace) -> None:
    await t.make(f"{t.core}/services", service())
    await t.patch(
        f"{t.core}/services/s",
        {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
        view=lambda f: [f["code"], [c["field"] for c in f["details"]["causes"]]],
        code=422,
    )


@pytest.mark.parametrize("name", ["Upper", "a.b", "-x", "a/b"])
async def test_namespace_names(t: Trace, name: str) -> None:
    await t.post("/api/v1/namespaces", made("Namespace", name), view=problems, code=422)


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"labels": {"a b": "c"}}, id="label-key"),
        pytest.param({"labels": {"a": "b c"}}, id="label-value"),
        pytest.param({"labels": {"a": "x" * 64}}, id="label-length"),
        pytest.param({"labels": {"/a": "b"}}, id="label-prefix"),
        pytest.param({"annotations": {"a b": "c"}}, id="annotation-key"),
        pytest.param({"finalizers": ["plain"]}, id="finalizer"),
        pytest.param({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}, id="owner-uid"),
        pytest.param(
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"
                ]
            },
            id="two-controllers",
        ),
        pytest.param({"generateName": "Bad_"}, id="generate-name"),
    ],
)
async def test_metadata(t: Trace, meta: Object) -> None:
    body = config("m")
    body["metadata"] |= meta
    await t.post(f"{t.core}/configmaps", body, view=problems, code=422)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("configmaps", made("ConfigMap", "m", data={"bad key": "x"}), id="configmap-key"),
        pytest.param(
            "configmaps", made("ConfigMap", "m", data={"a": "x"}, binaryData={"a": "eA=="}), id="configmap-both"
        ),
        pytest.param("secrets", made("Secret", "m", type="kubernetes.io/tls", data={"tls.crt": ""}), id="tls-secret"),
        pytest.param(
            "limitranges",
            made("LimitRange", "m", spec={"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}),
            id="limits-crossed",
        ),
        pytest.param("resourcequotas", made("ResourceQuota", "m", spec={"hard": {"pods": "-1"}}), id="negative-quota"),
    ],
)
async def test_configuration(t: Trace, path: str, body: Object) -> None:
    await t.post(f"{t.core}/{path}", body, view=problems, code=422)


async def test_immutable_config(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", {**config(a="1"), "immutable": True})
    await t.patch(f"{t.core}/configmaps/m", {"data": {"a": "2"}}, view=problems, code=422)
    await t.patch(f"{t.core}/configmaps/m", {"immutable": None}, view=problems, code=422)
    await t.patch(f"{t.core}/configmaps/m", {"metadata": {"labels": {"a": "b"}}}, view=problems, code=200)


async def test_secret_type_is_immutable(t: Trace) -> None:
    await t.make(f"{t.core}/secrets", made("Secret", "s"))
    await t.patch(f"{t.core}/secrets/s", {"type": "other"}, view=problems, code=422)


async def test_lease_duration(t: Trace) -> None:
    lease = made("Lease", "l", "coordination.k8s.io/v1", spec={"leaseDurationSeconds": 0, "leaseTransitions": -1})
    await t.post(f"{t.group('coordination.k8s.io/v1')}/leases", lease, view=problems, code=422)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": "system-mine"}, "value": 5}, id="reserved-name"),
        pytest.param({"metadata": {"name": "huge"}, "value": 2_000_000_000}, id="too-high"),
    ],
)
async def test_priority_classes(t: Trace, body: Object) -> None:
    await t.post("/apis/scheduling.k8s.io/v1/priorityclasses", body, view=problems, code=422)


async def test_priority_value_is_immutable(t: Trace) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    name = f"{t.namespace}-priority"
    await t.make(path, {"metadata": {"name": name}, "value": 5})
    await t.patch(f"{path}/{name}", {"value": 6}, view=problems, code=422)
    await t.send("DELETE", f"{path}/{name}")
