"""EDL limited to some namespaces on a real cluster: jobs there train, those elsewhere are left alone, and what it may
do follows."""

import itertools
from collections.abc import Iterator

import pytest

from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, eventually
from tests.tier_kube.clusters import OPERATOR
from tests.tier_kube.installed import LEASE, Installation, edl, training_job, uninstall, until_phase
from tests.tier_kube.test_install_helm import CHART, Helm, HelmError, helm

__all__ = ["helm"]
pytestmark = [
    pytest.mark.case("attack-4"),
    pytest.mark.kube,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("cluster"),
]

NUMBERS = itertools.count()


@pytest.fixture
def inside(cluster: Kubectl, installation: Installation) -> Iterator[Kubectl]:
    """kubectl in the only namespace that the operator is for. Each has its own: one that is deleted takes a while."""
    name = f"edl-inside-{next(NUMBERS)}"
    cluster("create", "namespace", name)
    made = cluster.within(name)
    try:
        eventually(lambda: made.find("serviceaccounts", "default"), within=20, what="the default service account")
        installation.present("--no-brain", "--namespaces", name)
        yield made
    finally:
        installation.absent()
        cluster("delete", "namespace", name, "--wait=false")


def may(kubectl: Kubectl, verb: str, what: str) -> bool:
    try:
        return kubectl("auth", "can-i", verb, what, f"--as={OPERATOR}") == "yes"
    except KubectlError:
        return False


def test_jobs_there_train_and_others_are_left_alone(inside: Kubectl, namespace: Kubectl) -> None:
    namespace.apply(*training_job("other"))
    inside.apply(*training_job())
    until_phase(inside, "succeeded")
    where = ("-n", inside.namespace, "--kubeconfig", str(inside.kubeconfig))
    assert "trained 12 chunks" in edl("logs", "fit", "--role", "trainer", *where), "by the controllers of its pods"
    assert "status" not in namespace.get("trainingjob", "other")
    assert namespace.get("pods")["items"] == []
    assert [may(inside, "create", what) for what in ("pods", "secrets", "configmaps")] == [True, True, True]
    assert [may(namespace, "create", what) for what in ("pods", "secrets", "configmaps")] == [False, False, False]
    assert [may(namespace, "list", what) for what in ("pods", "trainingjobs", "secrets")] == [True, True, False]


@pytest.fixture
def beside(cluster: Kubectl, image: str, inside: Kubectl) -> Iterator[Kubectl]:
    """kubectl in the only namespace of a second installation."""
    cluster("create", "namespace", "edl-beside")
    made, config = cluster.within("edl-beside"), ("--kubeconfig", str(cluster.kubeconfig))
    try:
        eventually(lambda: made.find("serviceaccounts", "default"), within=20, what="the default service account")
        words = ("-n", "edl-second", "--namespaces", "edl-beside", "--image", image, "--lease", str(LEASE))
        edl("install", "--apply", "--no-brain", *words, *config)
        second = cluster.within("edl-second")
        second("rollout", "status", "deployment/edl-operator", "--timeout=90s", timeout=100)
        yield made
    finally:
        uninstall(cluster, "-n", "edl-second")
        cluster("delete", "namespace", "edl-beside", "--wait=false")


def test_a_second_one_for_other_namespaces_is_a_neighbour(
    cluster: Kubectl, inside: Kubectl, beside: Kubectl, helm: Helm
) -> None:
    def trusted() -> bool:
        found = cluster.get("validatingwebhookconfigurations", "edl-operator-edl-second")["webhooks"]
        return all(one["clientConfig"].get("caBundle") for one in found)

    beside.apply(*training_job())
    until_phase(beside, "succeeded")
    eventually(trusted, within=30, what="its webhook is its own")
    config = ("--set", "namespace=edl-third,crds=false", "--kubeconfig", str(cluster.kubeconfig))
    with pytest.raises(HelmError, match=r"EDL is in namespace edl-.* of this cluster already"):
        helm("install", "third", str(CHART), *config)
    with pytest.raises(HelmError, match="EDL in namespace edl-second has jobs in edl-beside already"):
        helm("install", "third", str(CHART), *config, "--set", "namespaces=edl-beside")

    uninstall(cluster, "-n", "edl-second")
    names = cluster("get", "clusterroles,clusterrolebindings,validatingwebhookconfigurations", "-o", "name")
    assert "edl-second" not in names
    inside.apply(*training_job("after"))
    until_phase(inside, "succeeded", "after")
