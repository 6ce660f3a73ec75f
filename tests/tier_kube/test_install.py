"""EDL installed as users install it, on real nodes: it trains, has no privilege, is upgraded under jobs, and goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.operator.settings import NAMESPACE
from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, eventually
from tests.tier_kube.installed import (
    Installation,
    apply,
    edl,
    install,
    leader,
    operators,
    running_trainers,
    training_job,
    uninstall,
    until_phase,
)
from tests.tier_kube.manifests import pod

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240), pytest.mark.xdist_group("cluster")]
PREVIOUS = Path(__file__).with_name("previous_install.yaml")
PASSING = ("events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io")


@pytest.fixture(scope="module")
def before(cluster: Kubectl, installation: Installation) -> set[str]:
    """What there was before EDL was."""
    installation.absent()
    return everything(cluster)


@pytest.fixture(scope="module")
def installed(before: set[str], cluster: Kubectl, image: str, installation: Installation) -> Iterator[Kubectl]:
    """As it is by default, for the tests of this module alone, which change and remove it."""
    try:
        install(cluster, image)
        yield cluster
    finally:
        installation.absent()


def test_a_job_trains_to_the_end(before: set[str], installed: Kubectl, namespace: Kubectl) -> None:
    namespace.apply(*training_job())
    status = until_phase(namespace, "succeeded")

    scale = status["scale_status"]
    assert max(change["to"] for change in scale["history"]) == 3
    assert "target" not in scale, "a job that is over claims no size"
    assert "trained 12 chunks" in namespace("logs", "job/fit-trainer")
    assert namespace("wait", "job/fit-trainer", "--for=condition=complete", "--timeout=10s")


def test_operators_are_apart_ready_and_restricted(installed: Kubectl) -> None:
    pods = operators(installed)
    assert len({each["spec"]["nodeName"] for each in pods.values()}) == len(pods) == 2
    assert leader(installed) in pods
    with pytest.raises(KubectlError, match='violates PodSecurity "restricted:latest"'):
        installed.within(NAMESPACE).apply(pod("any-other"))


def test_people_may_do_with_jobs_what_they_may_do_in_their_namespace(installed: Kubectl, namespace: Kubectl) -> None:
    namespace("create", "rolebinding", "editors", "--clusterrole=edit", "--user=alice")
    namespace("create", "rolebinding", "viewers", "--clusterrole=view", "--user=bob")

    def may(user: str, verb: str, part: str = "") -> bool:
        try:
            return namespace("auth", "can-i", verb, "trainingjobs", f"--subresource={part}", f"--as={user}") == "yes"
        except KubectlError:
            return False

    eventually(lambda: may("bob", "list"), within=20, what="the roles are aggregated")
    asked = [("create", ""), ("patch", "scale"), ("patch", "status")]
    assert [may("alice", *one) for one in asked] == [True, True, False]
    assert [may("bob", *one) for one in asked] == [False, False, False]


def test_the_webhook_tells_every_error_before_a_job_is_stored(installed: Kubectl, namespace: Kubectl) -> None:
    """The API server's own rules come first, so these are errors that it cannot see."""
    _, job = training_job("bad")
    job["spec"]["trainer"]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    job["spec"]["master"]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}

    def refused() -> str:
        try:
            namespace.apply(job)
        except KubectlError as error:
            return str(error)
        namespace("delete", "trainingjob", "bad")
        return ""

    words = eventually(refused, within=30, what="the webhook is trusted and answers")
    assert "spec.master.resources.requests.cpu: 2 is more than the limit 1" in words
    assert "spec.trainer.resources.requests.cpu: 2 is more than the limit 1" in words


def test_without_the_webhook_the_status_says_the_same(installed: Kubectl, namespace: Kubectl, image: str) -> None:
    installed("delete", "validatingwebhookconfiguration", "edl-operator")
    try:
        _, job = training_job("bad")
        job["spec"]["trainer"]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
        namespace.apply(job)

        def reported() -> str:
            conditions = namespace.get("trainingjob", "bad").get("status", {}).get("conditions", [])
            return next(
                (one["message"] for one in conditions if (one["type"], one["status"]) == ("Valid", "False")), ""
            )

        assert "spec.trainer.resources" in eventually(reported, within=30, what="the status refuses it")
    finally:
        install(installed, image)


def test_a_second_apply_changes_nothing(installed: Kubectl, image: str) -> None:
    def found() -> tuple[list[str], str]:
        (hook,) = installed.get("validatingwebhookconfiguration", "edl-operator")["webhooks"]
        pods = sorted(each["metadata"]["uid"] for each in operators(installed).values())
        return pods, hook["clientConfig"].get("caBundle", "")

    eventually(lambda: found()[1], within=30, what="API servers are told to trust the webhook")
    before = found()
    install(installed, image)
    assert found() == before, "and they go on trusting it"


def test_a_removal_and_an_upgrade_leave_jobs_running(installed: Kubectl, namespace: Kubectl, image: str) -> None:
    """Operators go; others come by an older version's manifests and are upgraded to ours. Trainers never notice."""
    namespace.apply(*training_job(seconds_per_task=3, size=(2, 2)))
    until_phase(namespace, "running")
    before = running_trainers(namespace)
    assert len(before) == 2

    assert "the kinds stay" in uninstall(installed)
    assert running_trainers(namespace) == before
    apply(installed, PREVIOUS.read_text().replace("IMAGE", image))
    assert running_trainers(namespace) == before
    old = set(operators(installed))
    install(installed, image)
    eventually(lambda: not set(operators(installed)) & old, within=30, what="the old operators are gone")
    assert running_trainers(namespace) == before
    assert until_phase(namespace, "running")["scale_status"]["target"] == 2


def everything(kubectl: Kubectl) -> set[str]:
    """All objects of all kinds that are not passing by nature."""
    kinds = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    columns = "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name"
    wanted = ",".join(set(kinds) - set(PASSING))
    listing = kubectl("get", wanted, "-A", "--ignore-not-found", "-o", columns, "--no-headers")
    return {" ".join(line.split()) for line in listing.splitlines() if "edl-test-" not in line}


def test_removal_leaves_nothing(before: set[str], installed: Kubectl, image: str) -> None:
    """The last one here: it takes the module's installation away."""
    edl("install", "--apply", "--image", image, "--kubeconfig", str(installed.kubeconfig))
    assert any(NAMESPACE in line for line in everything(installed) - before)
    said = uninstall(installed, "--crds")
    assert f"Namespace {NAMESPACE} removed" in said
    assert everything(installed) - before == set()
