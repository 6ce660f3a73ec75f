"""EDL limited to some namespaces on a real cluster: jobs there train, those elsewhere are left alone, and what it may
do follows."""

from collections.abc import Iterator

import pytest

from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, eventually
from tests.tier_kube.clusters import OPERATOR
from tests.tier_kube.installed import Installation, edl, training_job, until_phase

pytestmark = [
    pytest.mark.case("attack-4"),
    pytest.mark.kube,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("cluster"),
]


@pytest.fixture
def inside(cluster: Kubectl, installation: Installation) -> Iterator[Kubectl]:
    """kubectl in the only namespace that the operator is for."""
    cluster("create", "namespace", "edl-inside")
    made = cluster.within("edl-inside")
    try:
        eventually(lambda: made.find("serviceaccounts", "default"), within=20, what="the default service account")
        installation.present("--no-brain", "--namespaces", "edl-inside")
        yield made
    finally:
        installation.absent()
        cluster("delete", "namespace", "edl-inside", "--wait=false")


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
