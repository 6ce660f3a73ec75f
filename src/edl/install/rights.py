"""What the operator may do, and why: the one source of its roles. A test holds it against an API server's audit log.

Whoever may create pods in a namespace can already read what its Secrets hold, so that reading a Secret by name adds
nothing to that; listing them would, and is not asked for.
"""

from typing import Any

import msgspec

from edl.api.kinds import EASYDL_JOB, JOB_RESOURCE, PYTORCH_JOB, TRAINING_JOB
from edl.install.choices import LABELS, NAME, Choices
from edl.operator.settings import BRAIN, LEASE, SECRET, SERVICE, WEBHOOK

READ = ("list", "watch")
_ADMISSION = "admissionregistration.k8s.io"
CHILD = (*READ, "get", "create", "patch")


class Right(msgspec.Struct, frozen=True):
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()

    def rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return rule | ({"resourceNames": list(self.names)} if self.names else {})


def _of_kinds() -> list[Right]:
    rights = []
    for kind in (TRAINING_JOB, PYTORCH_JOB, EASYDL_JOB):
        rights += [
            Right(kind.group, (kind.plural,), (*READ, "delete"), "to see jobs, and delete those whose time is over"),
            Right(kind.group, (f"{kind.plural}/status",), ("patch",), "to say how they stand"),
            Right(kind.group, (f"{kind.plural}/finalizers",), ("update",), "to own what must go before the job does"),
        ]
    return rights


def cluster_rights(namespace: str) -> list[Right]:
    """In every namespace, for jobs are in every namespace."""
    plans = (JOB_RESOURCE.group, (JOB_RESOURCE.plural,))
    return [
        *_of_kinds(),
        Right(
            *plans, (*READ, "get", "create", "update"), "to follow plans of EasyDL jobs, and write down handed-in ones"
        ),
        Right(JOB_RESOURCE.group, (f"{JOB_RESOURCE.plural}/status",), ("patch",), "to say what became of a plan"),
        Right("", ("pods",), (*CHILD, "delete"), "to see what uses the cluster; to make and remove trainers"),
        Right("", ("pods/resize",), ("patch",), "to give a running pod of an EasyDL job what its plan says"),
        Right("", ("services",), (*CHILD, "delete"), "to give roles and slots of a job their names"),
        Right("apps", ("replicasets", "statefulsets"), CHILD, "to make, size and change masters, servers and etcd"),
        Right("batch", ("jobs",), CHILD, "to make and size the Job of the trainers"),
        Right("batch", ("jobs/status",), ("patch",), "to keep that Job's status true"),
        Right("batch", ("jobs/finalizers",), ("update",), "to let it own its pods"),
        Right("", ("secrets",), ("get", "create"), "to hand a job its key to the job service"),
        Right("", ("configmaps",), ("get", "create", "update", "delete"), "to keep a job's state in the job service"),
        Right("events.k8s.io", ("events",), ("create", "patch"), "to tell what happened"),
        Right("", ("nodes", "resourcequotas", "limitranges"), READ, "to plan for what is there and allowed"),
        Right("scheduling.k8s.io", ("priorityclasses",), READ, "to know who goes first"),
        Right("", ("namespaces",), READ, "to read their limits"),
        Right("", ("namespaces",), ("get",), "to see that its own is there", (namespace,)),
        Right(_ADMISSION, ("validatingwebhookconfigurations",), ("get", "patch"), "to be trusted by it", (WEBHOOK,)),
    ]


def own_rights() -> list[Right]:
    """In the operator's own namespace. Creation cannot be bound to a name."""
    return [
        Right("coordination.k8s.io", ("leases",), ("create",), "to have one leader"),
        Right("coordination.k8s.io", ("leases",), ("get", "update", "watch"), "to lead and to wait for it", (LEASE,)),
        Right("", ("secrets",), ("update",), "to renew its certificate and the Brain's", (SECRET, BRAIN)),
        Right("discovery.k8s.io", ("endpointslices",), ("create",), "to show the way to the leader"),
        Right("discovery.k8s.io", ("endpointslices",), ("get", "update"), "to show the way to the leader", (SERVICE,)),
    ]


def role_objects(choices: Choices) -> list[dict[str, Any]]:
    namespace = choices.namespace
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _metadata(namespace),
            "automountServiceAccountToken": False,
        },
        _role("ClusterRole", {}, cluster_rights(namespace)),
        _binding("ClusterRole", {}, account),
        _role("Role", {"namespace": namespace}, own_rights()),
        _binding("Role", {"namespace": namespace}, account),
    ]


def _metadata(namespace: str) -> dict[str, Any]:
    return {"name": NAME, "namespace": namespace, "labels": LABELS}


def _role(kind: str, where: dict[str, str], rights: list[Right]) -> dict[str, Any]:
    metadata = {"name": NAME, **where, "labels": LABELS}
    rules = [right.rule() for right in rights]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(kind: str, where: dict[str, str], account: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": NAME, **where, "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME},
        "subjects": [account],
    }
