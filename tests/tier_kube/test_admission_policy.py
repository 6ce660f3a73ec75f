"""Writes of a thief of the operator's token: tried as that account, by dry runs against a real API server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from edl.install.manifests import manifests
from edl.install.options import InstallOptions
from edl.jobs.registry import EASYDL_JOB, TRAINING_JOB
from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.transport import HttpTransport
from edl.operator.resources import SECRETS
from edl.operator.settings import BRAIN, LEASE, LEDGER, NAMESPACE, SECRET, SERVICE, WEBHOOK
from tests.tier_kube.account import operator_kubeconfig
from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, Manifest, eventually, kubectl_of

pytestmark = [pytest.mark.kube, pytest.mark.timeout(180), pytest.mark.case("attack-4")]
LABELS = {"edl.dev/job": "j", "edl.dev/job-uid": "uid-1"}


def owner(kind: str = "TrainingJob", version: str = "paddlepaddle.org/v1", *, controller: bool = True) -> Manifest:
    return {"apiVersion": version, "kind": kind, "name": "j", "uid": "uid-1", "controller": controller}


OURS = [owner()]
TORCH = [owner("ElasticJob", "elastic.pytorch.org/v1")]
BATCH = [owner("Job", "batch/v1")]
DEPLOYMENT = [owner("ReplicaSet", "apps/v1")]


def pod(name: str = "p", **spec: Any) -> Manifest:
    """Restricted by Pod Security's terms, so that this is not what refuses it."""
    least = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "main", "image": "x", "command": ["true"], "securityContext": least}
    whole = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    body = {"containers": [container], "securityContext": whole, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def plain(kind: str, version: str = "v1", name: str = "p", **more: Any) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


SERVICE_BODY = plain("Service", spec={"clusterIP": "None", "selector": {"app": "x"}})
HOST: Manifest = {"hostPID": True, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
WORKLOAD = {
    "selector": {"matchLabels": {"app": "x"}},
    "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod()["spec"]},
}


@pytest.fixture(scope="module")
def thief(api: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl of whoever has the operator's token."""
    found = operator_kubeconfig(api.kubeconfig, tmp_path_factory.mktemp("thief") / "kubeconfig")
    policy = [body for body in manifests(InstallOptions()) if body["kind"].startswith("ValidatingAdmission")]
    api.apply(*policy)
    thief = kubectl_of(Path(found))
    eventually(lambda: _refused(thief), within=30, what="the policy is enforced")
    return thief


def _refused(thief: Kubectl) -> bool:
    try:
        make(thief, "default", pod())
    except KubectlError as error:
        return "controller is a job" in str(error)
    return False


def make(kubectl: Kubectl, namespace: str, body: Manifest, owners: list[Manifest] | None = None) -> None:
    metadata = {**body["metadata"], "ownerReferences": owners or []}
    whole = json.dumps({**body, "metadata": metadata})
    kubectl.within(namespace)("create", "--dry-run=server", "--validate=false", "-f", "-", stdin=whole)


def make_or_find(kubectl: Kubectl, namespace: str, body: Manifest) -> None:
    """Admission comes before the name is looked up: on a cluster with an operator the object may be there already."""
    try:
        make(kubectl, namespace, body)
    except KubectlError as error:
        if "(AlreadyExists)" not in str(error):
            raise


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", NAMESPACE])
@pytest.mark.parametrize("owners", [[], OURS, BATCH], ids=["nobody's", "a job's", "a batch Job's"])
@pytest.mark.parametrize(
    "body",
    [
        pod("thief", **HOST),
        pod(),
        plain("Secret"),
        plain("ConfigMap"),
        SERVICE_BODY,
        plain("ReplicaSet", "apps/v1", spec=WORKLOAD),
    ],
    ids=["host", "pod", "secret", "configmap", "service", "replicaset"],
)
def test_nothing_can_be_made_beside_the_cluster_s_own(
    thief: Kubectl, namespace: str, body: Manifest, owners: list[Manifest]
) -> None:
    with pytest.raises(KubectlError, match=r"nothing in kube-|only what is its own by name|violates PodSecurity"):
        make(thief, namespace, body, owners)


@pytest.mark.parametrize(
    "owners",
    [[], DEPLOYMENT, [owner(controller=False)], [owner("TrainingJob", "elsewhere.org/v1")]],
    ids=["nobody's", "somebody's", "not its controller", "another group"],
)
@pytest.mark.parametrize(
    "body", [pod(**HOST), plain("Secret"), plain("ConfigMap"), SERVICE_BODY], ids=["pod", "secret", "map", "service"]
)
def test_elsewhere_only_what_belongs_to_a_job_can_be_made(
    thief: Kubectl, body: Manifest, owners: list[Manifest]
) -> None:
    with pytest.raises(KubectlError, match="only objects whose controller is a job of EDL"):
        make(thief, "default", body, owners)


@pytest.mark.parametrize("body", [plain("Secret"), plain("ConfigMap"), SERVICE_BODY], ids=["secret", "map", "service"])
def test_a_batch_job_owns_pods_and_nothing_else(thief: Kubectl, body: Manifest) -> None:
    with pytest.raises(KubectlError, match="only objects whose controller is a job of EDL"):
        make(thief, "default", body, BATCH)


@pytest.mark.parametrize(
    ("body", "owners"),
    [
        (pod(), TORCH),
        (pod(), BATCH),
        (plain("Secret"), OURS),
        (plain("ConfigMap"), OURS),
        (SERVICE_BODY, OURS),
        (plain("ReplicaSet", "apps/v1", spec=WORKLOAD), OURS),
        (plain("StatefulSet", "apps/v1", spec={**WORKLOAD, "serviceName": "x"}), OURS),
    ],
)
def test_what_a_job_needs_can_be_made(thief: Kubectl, body: Manifest, owners: list[Manifest]) -> None:
    make(thief, "default", body, owners)


def test_no_account_s_token_can_be_had_by_a_secret(thief: Kubectl) -> None:
    """API servers fill one of this type with the token of any account of the namespace; a patch would show it."""
    body = plain("Secret", type="kubernetes.io/service-account-token")
    body["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    with pytest.raises(KubectlError, match="no Secret of a type that API servers fill"):
        make(thief, "default", body, OURS)


def test_its_own_by_name_can_be_made(thief: Kubectl) -> None:
    for name in (SECRET, BRAIN):
        make_or_find(thief, NAMESPACE, plain("Secret", name=name))
    make_or_find(thief, NAMESPACE, plain("ConfigMap", name=LEDGER))
    make_or_find(thief, NAMESPACE, plain("Lease", "coordination.k8s.io/v1", LEASE))
    make_or_find(
        thief, NAMESPACE, plain("EndpointSlice", "discovery.k8s.io/v1", SERVICE, addressType="IPv4", endpoints=[])
    )
    for body in (
        plain("Secret", name="other"),
        plain("ConfigMap", name="other"),
        plain("Lease", "coordination.k8s.io/v1", "kube-scheduler"),
        plain("EndpointSlice", "discovery.k8s.io/v1", "other", addressType="IPv4", endpoints=[]),
    ):
        with pytest.raises(KubectlError, match="only what is its own by name"):
            make(thief, NAMESPACE, body)


def test_what_is_not_a_job_s_can_be_neither_changed_nor_deleted(
    api: Kubectl, api_namespace: Kubectl, thief: Kubectl
) -> None:
    """A patch of a Secret answers with what it holds."""
    inside = thief.within(api_namespace.namespace)
    for body in (pod(), plain("Secret", name="theirs"), SERVICE_BODY):
        api_namespace(
            "create", "-f", "-", stdin=json.dumps({**body, "metadata": {**body["metadata"], "labels": LABELS}})
        )
    api_namespace.patch("pod/p", {"metadata": {"labels": {"edl.dev/job-uid": None}}})
    mine = {"metadata": {"ownerReferences": OURS}}
    with pytest.raises(KubectlError, match="only objects whose controller is a job of EDL"):
        inside("patch", "pod/p", "--type=merge", f"--patch={json.dumps(mine)}", "--dry-run=server")
    with pytest.raises(ApiError, match="only objects whose controller is a job of EDL"):
        asyncio.run(_patch(inside, "theirs", {"metadata": {"labels": {"a": "b"}}}))
    with pytest.raises(KubectlError, match="only objects whose controller is a job of EDL"):
        inside("delete", "pod/p", "--wait=false", "--dry-run=server")
    inside("patch", "service/p", "--type=merge", f"--patch={json.dumps(mine)}", "--dry-run=server")  # a lost child


def test_a_restored_state_can_be_taken_up_and_nobody_else_s(api_namespace: Kubectl, thief: Kubectl) -> None:
    """A backup's ConfigMap has lost its owner, and names its job; which of them is a job's is told by their seals."""
    inside = thief.within(api_namespace.namespace)
    for name, labels in (("restored", LABELS), ("theirs", {})):
        body = plain("ConfigMap", name=name)
        body["metadata"]["labels"] = labels
        api_namespace("create", "-f", "-", stdin=json.dumps(body))
        body["metadata"]["ownerReferences"] = OURS
        words = ("replace", "--dry-run=server", "-f", "-")
        if labels:
            inside(*words, stdin=json.dumps(body))
        else:
            with pytest.raises(KubectlError, match="only objects whose controller is a job of EDL"):
                inside(*words, stdin=json.dumps(body))


async def _patch(kubectl: Kubectl, secret: str, change: Manifest) -> None:
    """As a thief would, without reading it first as kubectl does."""
    transport = HttpTransport(from_kubeconfig([kubectl.kubeconfig]))
    try:
        await Client(transport).patch(SECRETS, secret, change, namespace=kubectl.namespace)
    finally:
        await transport.close()


def test_no_secret_of_anybody_can_be_read(api_namespace: Kubectl, thief: Kubectl) -> None:
    api_namespace("create", "secret", "generic", "theirs", "--from-literal=key=value")
    inside = thief.within(api_namespace.namespace)
    with pytest.raises(KubectlError, match="cannot get resource"):
        inside("get", "--raw", f"/api/v1/namespaces/{api_namespace.namespace}/secrets/theirs")
    with pytest.raises(KubectlError, match="cannot list resource"):
        inside("get", "secrets")


def test_its_webhook_configuration_alone_can_be_changed_and_reviews_be_asked_for(api: Kubectl, thief: Kubectl) -> None:
    for name in (WEBHOOK, "other"):
        body = plain("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", name, webhooks=[])
        api.apply(body)
    change = '--patch={"metadata":{"annotations":{"a":"b"}}}'
    thief("patch", f"validatingwebhookconfiguration/{WEBHOOK}", "--type=merge", change, "--dry-run=server")
    with pytest.raises(KubectlError, match="cannot get resource"):
        thief("patch", "validatingwebhookconfiguration/other", "--type=merge", change, "--dry-run=server")
    review = plain("TokenReview", "authentication.k8s.io/v1", "", spec={"token": "x"})
    thief("create", "--validate=false", "-f", "-", stdin=json.dumps({**review, "metadata": {}}))


def test_events_are_about_jobs(thief: Kubectl) -> None:
    times = {"eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "X", "action": "X"}
    who = {"reportingController": "edl.dev/operator", "reportingInstance": "x"}
    for kind in (TRAINING_JOB, EASYDL_JOB):
        about = {"apiVersion": kind.api_versions[0], "kind": kind.name, "name": "j", "namespace": "default"}
        make(thief, "default", plain("Event", "events.k8s.io/v1", "e", regarding=about, **times, **who))
    about = {"apiVersion": "v1", "kind": "Pod", "name": "j", "namespace": "default"}
    with pytest.raises(KubectlError, match="only objects whose controller is a job of EDL"):
        make(thief, "default", plain("Event", "events.k8s.io/v1", "e", regarding=about, **times, **who))
