"""The objects of the designs as plain data, to be varied by tests. `examples/` holds the same as files."""

import json
from typing import Any

from edl.jobs.admission import check

Data = dict[str, Any]

_SERVER = {
    "resources": {"limits": {"cpu": "800m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "600Mi"}},
}

TRAINING_JOB: Data = {
    "apiVersion": "paddlepaddle.org/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "paddlejob", "namespace": "testspace"},
    "spec": {
        "image": "paddlepaddle/paddlecloud-job",
        "port": 7164,
        "ports_num": 1,
        "ports_num_for_sparse": 1,
        "fault_tolerant": True,
        "mountPath": "/home/work/namespace/",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}],
        "master": _SERVER,
        "pserver": _SERVER,
        "trainer": {
            "entrypoint": "python train.py",
            "workspace": "/home/job-1/",
            "passes": 10,
            "min-instance": 2,
            "max-instance": 6,
            "resources": {"limits": {"cpu": "200m", "memory": "200Mi"}, "requests": {"cpu": "200m", "memory": "200Mi"}},
        },
    },
}

PYTORCH_JOB: Data = {
    "apiVersion": "elastic.pytorch.org/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "classy-vision-job"},
    "spec": {
        "rdzvEndpoint": "etcd-service:2379",
        "minReplicas": 2,
        "maxReplicas": 5,
        "replicaSpecs": {
            "Worker": {
                "replicas": 3,
                "restartPolicy": "OnFailure",
                "template": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "spec": {"containers": [{"name": "worker", "image": "torch", "args": ["main.py"]}]},
                },
            }
        },
    },
}

_ROLE = {
    "restartCount": 3,
    "template": {
        "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
        "spec": {"containers": [{"name": "main", "image": "elasticdl:iris_estimator", "command": ["python"]}]},
    },
}

EASYDL_JOB: Data = {
    "apiVersion": "elastic.iml.github.io/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "elastic-deepctr-job"},
    "spec": {"distributionStrategy": "parameter_server", "parameterServer": _ROLE, "worker": _ROLE},
}

_RESOURCE = {"cpu": 4, "memory": 4096, "disk": 8192, "gpu": 1}

JOB_RESOURCE: Data = {
    "apiVersion": "elastic.easydl.org/v1alpha1",
    "kind": "JobResource",
    "metadata": {"name": "elastic-training-resource"},
    "spec": {
        "selector": {"name": "elastic-deepctr-job"},
        "parameter_server": {"replicas": 4, "resource": _RESOURCE},
        "worker": {"replicas": 4, "resource": _RESOURCE},
        "evaluator": {"replicas": 1, "resource": _RESOURCE},
        "resource_updation": [
            {"name": "elastic-deepctr-job-ps-0", "resource": {"cpu": 8, "memory": 8192}},
            {"name": "elastic-deepctr-job-ps-1", "resource": {"cpu": 16, "memory": 8192}},
        ],
    },
}

ALL = (TRAINING_JOB, PYTORCH_JOB, EASYDL_JOB, JOB_RESOURCE)

ABSENT = object()


def varied(sample: Data, **changes: Any) -> Data:
    """A copy with changes at paths: `varied(JOB, **{"spec.trainer.min-instance": 7})`; ABSENT removes.

    Path steps are divided by dots; a step of digits is an index; `~` stands for a dot inside a step.
    """
    made: Data = json.loads(json.dumps(sample))  # a copy that shares nothing, not even with itself
    for path, value in changes.items():
        *parents, last = (step.replace("~", ".") for step in path.split("."))
        holder: Any = made
        for step in parents:
            holder = holder[int(step)] if step.isdecimal() else holder.setdefault(step, {})
        if value is ABSENT:
            del holder[last]
        else:
            holder[int(last) if last.isdecimal() else last] = value
    return made


def found(value: Any, severity: str) -> list[str]:
    return [str(problem) for problem in check(value).problems if problem.severity == severity]
