"""Roles of users: who may edit or view a namespace may edit or view the jobs in it, by aggregation to Kubernetes' own
roles. Without them only administrators of the cluster could submit a job.
"""

from typing import Any

from edl.install.options import PART_OF, InstallOptions
from edl.jobs.registry import KINDS
from edl.operator.settings import METRICS_PATH

_VIEW = ["get", "list", "watch"]
_EDIT = [*_VIEW, "create", "update", "patch", "delete", "deletecollection"]
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def user_roles(options: InstallOptions) -> list[dict[str, Any]]:
    """Each installation has its own, so that none takes another's away; the same rule twice is the same right."""
    return [
        _role(options.cluster_name("edl-edit"), ("admin", "edit"), _EDIT),
        _role(options.cluster_name("edl-view"), ("view",), _VIEW),
        _metrics(options.cluster_name("edl-metrics")),
    ]


def _metrics(name: str) -> dict[str, Any]:
    """For whoever collects metrics, by a binding of the administrator's: they name jobs of every namespace."""
    rules = [{"nonResourceURLs": [METRICS_PATH], "verbs": ["get"]}]
    metadata = {"name": name, "labels": PART_OF}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def _role(name: str, joins: tuple[str, ...], verbs: list[str]) -> dict[str, Any]:
    """`scale` is writable with the job; `status` is the operator's to write."""
    rules = []
    for kind in KINDS:
        rules.append({"apiGroups": [kind.group], "resources": [kind.plural], "verbs": verbs})
        rules.append({"apiGroups": [kind.group], "resources": [f"{kind.plural}/status"], "verbs": ["get"]})
        if kind.scale_paths is not None:
            scaling = [verb for verb in verbs if verb in ("get", "update", "patch")]
            rules.append({"apiGroups": [kind.group], "resources": [f"{kind.plural}/scale"], "verbs": scaling})
    labels = {**PART_OF, **{f"{_AGGREGATE}{role}": "true" for role in joins}}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
