"""The operator's service account on a cluster, for operators outside of pods: its permissions, their
limits and no others."""

import functools
from pathlib import Path

import yaml

from edl.install.manifests import manifests
from edl.install.options import NAME, InstallOptions
from edl.operator.settings import NAMESPACE
from tests.tier_kube.cluster.kubectl import Kubectl, kubectl_of

_NEEDED = {
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def operator_kubeconfig(admin: Path, target: Path) -> Path:
    """Grants the rights that `edl install` grants, and writes a kubeconfig of their holder."""
    kubectl = kubectl_of(admin).within(NAMESPACE)
    if not _uid(kubectl):
        kubectl.apply(*(body for body in manifests(InstallOptions()) if body["kind"] in _NEEDED))
        kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    token = _token(kubectl, _uid(kubectl))
    config = yaml.safe_load(admin.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    target.write_text(yaml.safe_dump(config))
    target.chmod(0o600)
    return target


def _uid(kubectl: Kubectl) -> str:
    found = kubectl.find("serviceaccounts", NAME)
    return str(found["metadata"]["uid"]) if found else ""


@functools.cache
def _token(kubectl: Kubectl, uid: str) -> str:
    """One per account, which `uid` tells from its successors: a session has many stories."""
    del uid
    return kubectl("create", "token", NAME, "--duration=3h")
