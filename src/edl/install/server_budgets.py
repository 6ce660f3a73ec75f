"""PodDisruptionBudgets of masters and parameter servers: a drain evicts one of them at a time in a namespace.

A job survives the loss of one server and not of a server together with the one that has its copies. One budget covers
all jobs of a namespace, because a budget per job would be one more object to write and watch for each.
"""

from typing import Any

from edl.api.labels import LABEL_KIND, LABEL_ROLE
from edl.install.options import PART_OF, VERSION, InstallOptions
from edl.jobs.registry import JOB_KINDS

SERVERS = "edl-servers"


def server_budgets(options: InstallOptions) -> list[dict[str, Any]]:
    return [_budget(namespace) for namespace in options.guarded_namespaces]


def _budget(namespace: str) -> dict[str, Any]:
    guarded = [kind for kind in JOB_KINDS if kind.guarded_roles]
    kinds = {"key": LABEL_KIND, "operator": "In", "values": [kind.crd_name for kind in guarded]}
    names = dict.fromkeys(role for kind in guarded for role in kind.guarded_roles)
    roles = {"key": LABEL_ROLE, "operator": "In", "values": [*names]}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": SERVERS, "namespace": namespace, "labels": {**VERSION, **PART_OF}},
        "spec": {"maxUnavailable": 1, "selector": {"matchExpressions": [kinds, roles]}},
    }
