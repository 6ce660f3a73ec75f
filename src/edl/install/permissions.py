"""RBAC permissions of the operator, each with its reason. A test compares them with an API server's audit log.

The operator reads no Secret but its own two: keys of jobs are derived. It patches those of jobs, which answers with
their content; the admission policy lets that through only for a Secret that a job controls. Whoever may create pods in
a namespace can have them read its Secrets, and the operator may: `docs/operate/security.md` says what follows.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from edl.install.options import LABELS, NAME, InstallOptions
from edl.jobs.registry import KINDS
from edl.operator.settings import BRAIN, LEASE, LEDGER, SECRET, SERVICE, WEBHOOK, cluster_name

JOBS_ROLE = f"{NAME}-jobs"  # in each namespace of jobs, if they may be in some only
READ = ("list", "watch")
_ADMISSION = "admissionregistration.k8s.io"
CHILD = (*READ, "get", "create", "patch")


class Permission(msgspec.Struct, frozen=True):
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    reason: str
    names: tuple[str, ...] = ()

    def rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return rule | ({"resourceNames": list(self.names)} if self.names else {})


def _of_kinds() -> list[Permission]:
    return [
        Permission(kind.group, ("/".join(filter(None, (kind.plural, access.subresource))),), access.verbs, access.why)
        for kind in KINDS
        for access in kind.access
    ]


def cluster_permissions(namespace: str, *, limited: bool = False) -> list[Permission]:
    """In every namespace, because jobs may be in any. If `limited`, only to read: a plan is about the whole cluster,
    whoever's its pods are."""
    found = _job_permissions()
    if limited:
        read = (replace(one, verbs=tuple(verb for verb in one.verbs if verb in READ)) for one in found)
        found = [one for one in read if one.verbs]
    return [*found, *_cluster_wide(namespace, cluster_name(WEBHOOK, namespace, limited=limited))]


def limited_permissions() -> list[Permission]:
    """In each of the namespaces that a limited operator looks after: what it does there beyond reading."""
    rest = (replace(one, verbs=tuple(verb for verb in one.verbs if verb not in READ)) for one in _job_permissions())
    return [one for one in rest if one.verbs]


def _job_permissions() -> list[Permission]:
    return [
        *_of_kinds(),
        Permission("", ("pods",), (*CHILD, "delete"), "to see what uses the cluster; to make and remove trainers"),
        Permission("", ("pods/resize",), ("patch",), "to give a running pod of an EasyDL job what its plan says"),
        Permission("", ("services",), (*CHILD, "delete"), "to give roles and slots of a job their names"),
        Permission(
            "apps", ("replicasets", "statefulsets"), CHILD, "to make, size and change masters, servers and etcd"
        ),
        Permission("batch", ("jobs",), CHILD, "to make and size the Job of the trainers"),
        Permission("batch", ("jobs/status",), ("patch",), "to keep that Job's status true"),
        Permission("batch", ("jobs/finalizers",), ("update",), "to let it own its pods"),
        Permission("", ("secrets",), ("create", "patch"), "to hand a job its key to the job service, and renew it"),
        Permission(
            "", ("configmaps",), ("get", "create", "update", "delete"), "to keep a job's state in the job service"
        ),
        Permission("events.k8s.io", ("events",), ("create", "patch"), "to tell what happened"),
    ]


def _cluster_wide(namespace: str, webhook: str) -> list[Permission]:
    return [
        Permission("", ("nodes", "resourcequotas", "limitranges"), READ, "to plan for what is there and allowed"),
        Permission("scheduling.k8s.io", ("priorityclasses",), READ, "to know who goes first"),
        Permission("", ("namespaces",), READ, "to read their limits"),
        Permission("", ("namespaces",), ("get",), "to see that its own is there", (namespace,)),
        Permission("authentication.k8s.io", ("tokenreviews",), ("create",), "to know who asks for metrics"),
        Permission("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "to know whether they may"),
        Permission(
            _ADMISSION, ("validatingwebhookconfigurations",), ("get", "patch"), "to be trusted by it", (webhook,)
        ),
    ]


def namespace_permissions(authority_secret: str = "") -> list[Permission]:
    """In the operator's own namespace. RBAC cannot bind `create` to a name."""
    given = Permission(
        "", ("secrets",), ("get",), "to issue certificates by an authority of yours", (authority_secret,)
    )
    return [
        *([given] if authority_secret else []),
        Permission("coordination.k8s.io", ("leases",), ("create",), "to have one leader"),
        Permission(
            "coordination.k8s.io", ("leases",), ("get", "update", "watch"), "to lead and to wait for it", (LEASE,)
        ),
        Permission("", ("secrets",), ("create",), "to keep its key and the Brain's"),
        Permission("", ("secrets",), ("get", "update"), "to renew its certificate and the Brain's", (SECRET, BRAIN)),
        Permission("", ("configmaps",), ("create",), "to keep the cluster's account"),
        Permission("", ("configmaps",), ("get", "update"), "to keep the cluster's account", (LEDGER,)),
        Permission("discovery.k8s.io", ("endpointslices",), ("create",), "to show the way to the leader"),
        Permission(
            "discovery.k8s.io", ("endpointslices",), ("get", "update"), "to show the way to the leader", (SERVICE,)
        ),
    ]


def role_objects(options: InstallOptions) -> list[dict[str, Any]]:
    namespace, limited = options.namespace, bool(options.job_namespaces)
    account = {"kind": "ServiceAccount", "name": options.service_account, "namespace": namespace}
    jobs = [
        made
        for name in options.job_namespaces
        for made in (
            _role("Role", {"namespace": name}, limited_permissions(), JOBS_ROLE),
            _binding("Role", {"namespace": name}, account, JOBS_ROLE),
        )
    ]
    return [
        *([_account(options)] if options.create_service_account else []),
        _role("ClusterRole", {}, cluster_permissions(namespace, limited=limited), options.cluster_name(NAME)),
        _binding("ClusterRole", {}, account, options.cluster_name(NAME)),
        _role("Role", {"namespace": namespace}, namespace_permissions(options.authority_secret)),
        _binding("Role", {"namespace": namespace}, account),
        *jobs,
    ]


def _account(options: InstallOptions) -> dict[str, Any]:
    metadata = {"name": options.service_account, "namespace": options.namespace, "labels": LABELS}
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "automountServiceAccountToken": False,
    }


def _role(kind: str, scope: dict[str, str], permissions: list[Permission], name: str = NAME) -> dict[str, Any]:
    metadata = {"name": name, **scope, "labels": LABELS}
    rules = [permission.rule() for permission in permissions]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(kind: str, scope: dict[str, str], account: dict[str, str], name: str = NAME) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name, **scope, "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [account],
    }
