"""Objects that tests read without kubectl are what kubectl would have printed."""

import pytest

from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError
from tests.tier_kube.manifests import pod

pytestmark = pytest.mark.kube


@pytest.fixture
def filled(api_namespace: Kubectl) -> Kubectl:
    """With objects that nobody touches: pods that may not be scheduled stay as they are."""
    gate = [{"name": "test.edl.dev/gate"}]
    named = {"name": "one", "labels": {"app": "one"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"a": "b"}}
    api_namespace.apply(pod("one", schedulingGates=gate), pod("two", schedulingGates=gate), config)
    return api_namespace


@pytest.mark.parametrize(
    ("resource", "name", "labels"),
    [
        ("configmap", "one", ""),
        ("cm", "", "app=one"),
        ("pods", "", ""),
        ("po,configmaps", "", "app=one"),
        ("pods,cm", "", "app in (one, two)"),
        ("clusterrole", "edit", ""),
        ("ns", "", "kubernetes.io/metadata.name=default"),
        ("clusterroles.rbac.authorization.k8s.io", "view", ""),
        ("jobs.batch", "", ""),
    ],
)
def test_it_is_what_kubectl_prints(filled: Kubectl, resource: str, name: str, labels: str) -> None:
    printed = filled.printed(resource, name, labels=labels)
    found = filled.get(resource, name, labels=labels)
    if name:
        assert found == printed
    else:
        assert found["items"] == printed["items"]


def test_what_is_not_there_is_an_error_that_says_so(filled: Kubectl) -> None:
    assert filled.find("pods", "three") is None
    with pytest.raises(KubectlError, match=r"404 .*not found"):
        filled.get("pod", "three")
    with pytest.raises(KubectlError, match="no resource podlings"):
        filled.get("podlings")


def test_a_kind_that_came_later_is_found(filled: Kubectl) -> None:
    with pytest.raises(KubectlError):
        filled.get("latecomers")
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"plural": "latecomers", "singular": "latecomer", "kind": "Latecomer"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "test.edl.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    crd = "latecomers.test.edl.dev"
    filled.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": crd},
            "spec": spec,
        }
    )
    try:
        filled("wait", f"crd/{crd}", "--for=condition=Established", "--timeout=30s")
        assert filled.get("latecomers")["items"] == []
    finally:
        filled("delete", "crd", crd)
