"""A value for every option of an installation that is not its default, as a file of values has it."""

from typing import Any

from edl.install.options import rows

OTHERS: dict[str, Any] = {
    "namespace": "ml",
    "namespaces": "a,b",
    "createNamespace": False,
    "crds": False,
    "image": "registry.example.com/edl:1",
    "imageDigest": f"sha256:{'0' * 64}",
    "pullPolicy": "Always",
    "pullSecret": "one,two",
    "replicas": 3,
    "lease": 20,
    "cpu": 1,
    "cpuLimit": "2",
    "memory": "512Mi",
    "memoryLimit": "2Gi",
    "logFormat": "json",
    "verbose": True,
    "extraArgs": ["--workers=32"],
    "serviceAccount": "trainers",
    "createServiceAccount": False,
    "policy": "fulfillment",
    "maxLoad": "0.5",
    "available": "requests",
    "scaleHold": 60,
    "stalledAfter": 900,
    "nodeSelector": {"pool": "infra"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]
            }
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"team": "ml", "cost": "7"},
    "podAnnotations": {"example.com/scrape": "no"},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "webhook": False,
    "authoritySecret": "authority",
    "certManagerIssuer": "corporate",
    "certManagerIssuerKind": "ClusterIssuer",
    "apiServerCidr": "10.0.0.0/24",
    "serverBudgets": "a,b",
    "brain": False,
    "brainStorage": "5Gi",
    "brainStorageClass": "fast",
    "brainDatabase": "pg",
    "brainShareHistory": True,
    "brainQuotaJobs": 3000000,
    "brainQuotaMib": 64,
    "brainQuotaCalls": 200,
    "brainCpu": "1",
    "brainMemory": "1Gi",
    "brainMemoryLimit": "2Gi",
    "brainServiceAccount": "brain",
    "brainExtraArgs": ["--settings=/etc/brain.json"],
    "web": True,
    "webSecret": "page-tls",
    "webActions": True,
    "webMemory": "512Mi",
    "webMemoryLimit": "2Gi",
    "metricsFrom": "monitoring",
    "metricsPort": 9444,
    "serviceMonitor": True,
    "podMonitor": "prometheus-token",
    "monitorLabels": {"release": "prometheus"},
    "alerts": True,
    "dashboard": True,
}
# Some options show only together with others.
BESIDE: dict[str, dict[str, Any]] = {
    "certManagerIssuer": {"authoritySecret": "authority"},
    "certManagerIssuerKind": {"authoritySecret": "authority", "certManagerIssuer": "corporate"},
    "monitorLabels": {"serviceMonitor": True},
    **{name: {"web": True} for name in ("webSecret", "webActions", "webMemory", "webMemoryLimit")},
}


def values_with(name: str) -> dict[str, Any]:
    """A file of values that sets one option, and those that it needs to show."""
    return {**BESIDE.get(name, {}), name: OTHERS[name]}


def names() -> list[str]:
    return [row.value for row in rows()]
