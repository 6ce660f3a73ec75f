"""Inputs of the fuzz tests: valid objects of every kind, and wrong values to put into them."""

from typing import Any

from tests.conformance.samples import GADGETS, config, container, definition, gadget, job, made, pod, service, workload

CORE, NS = "/api/v1", "/namespaces/default"


SAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    (
        f"{CORE}{NS}",
        "pods",
        pod(
            "x",
            containers=[
                container(
                    env=[{"name": "A", "value": "1"}],
                    ports=[{"containerPort": 1}],
                    resources={"limits": {"cpu": "1"}},
                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                    livenessProbe={"exec": {"command": ["x"]}},
                )
            ],
            volumes=[{"name": "v", "emptyDir": {}}],
            tolerations=[{"operator": "Exists"}],
            nodeSelector={"a": "b"},
        ),
    ),
    (f"{CORE}{NS}", "configmaps", config("x", a="1")),
    (f"{CORE}{NS}", "secrets", made("Secret", "x", data={"a": "eA=="}, stringData={"b": "c"})),
    (f"{CORE}{NS}", "services", service("x")),
    (f"{CORE}{NS}", "serviceaccounts", made("ServiceAccount", "x", automountServiceAccountToken=True)),
    (
        f"{CORE}{NS}",
        "resourcequotas",
        made("ResourceQuota", "x", spec={"hard": {"pods": "99", "cpu": "99"}, "scopes": ["NotTerminating"]}),
    ),
    (
        f"{CORE}{NS}",
        "limitranges",
        made("LimitRange", "x", spec={"limits": [{"type": "Container", "max": {"cpu": "9"}}]}),
    ),
    (
        f"{CORE}{NS}",
        "events",
        made("Event", "x", involvedObject={"kind": "Pod", "name": "p", "namespace": "default"}, message="m"),
    ),
    (
        CORE,
        "nodes",
        made("Node", "x", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}, status={"capacity": {"cpu": "1"}}),
    ),
    (CORE, "namespaces", made("Namespace", "x")),
    (f"/apis/apps/v1{NS}", "deployments", workload("Deployment", "x")),
    (f"/apis/apps/v1{NS}", "replicasets", workload("ReplicaSet", "x")),
    (f"/apis/apps/v1{NS}", "statefulsets", workload("StatefulSet", "x")),
    (f"/apis/batch/v1{NS}", "jobs", job("x", completions=2)),
    (
        f"/apis/coordination.k8s.io/v1{NS}",
        "leases",
        made("Lease", "x", "coordination.k8s.io/v1", spec={"renewTime": "2026-01-01T00:00:00.000000Z"}),
    ),
    (
        f"/apis/discovery.k8s.io/v1{NS}",
        "endpointslices",
        made(
            "EndpointSlice",
            "x",
            "discovery.k8s.io/v1",
            addressType="IPv4",
            endpoints=[{"addresses": ["10.0.0.1"]}],
            ports=[{"port": 1}],
        ),
    ),
    (
        f"/apis/rbac.authorization.k8s.io/v1{NS}",
        "rolebindings",
        made(
            "RoleBinding",
            "x",
            "rbac.authorization.k8s.io/v1",
            roleRef={"kind": "Role", "name": "r"},
            subjects=[{"kind": "User", "name": "u"}],
        ),
    ),
    ("/apis/scheduling.k8s.io/v1", "priorityclasses", made("PriorityClass", "x", "scheduling.k8s.io/v1", value=5)),
    ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", definition("fuzz.edl.dev", "fuzzes", "Fuzz")),
    (
        f"/apis/{GADGETS}/v1{NS}",
        "gadgets",
        gadget("x", keyed=[{"k": "a"}], set=["x"], free={"a": 1}, map={"a": 1}, one={"x": "1"}),
    ),
]


JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    -(2**70),
    "",
    "x",
    "\u0000",
    "💥",
    "a" * 300,
    [],
    {},
    [None],
    {"": None},
    [[]],
    {"a": {"b": []}},
    ["x", 1],
    "2026-01-01T00:00:00Z",
    "10Gi",
    "-",
    "../..",
    "%2F",
    {"$patch": "delete"},
    {"$retainKeys": [1]},
    {"$setElementOrder/containers": [1]},
]


MEDIA = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]
