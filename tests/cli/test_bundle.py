"""`edl doctor --bundle`: a stranger finds the planted faults in the archive, and nothing that is secret."""

import tarfile
from pathlib import Path
from typing import Any

import pytest

from edl.api.kubernetes import timestamp
from edl.doctor.redaction import REMOVED, redacted, redacted_text
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.resource import Resource
from edl.operator.resources import NAMESPACES, NODES, PODS, SECRETS, TRAINING_JOBS
from edl.operator.settings import LEASE, NAMESPACE
from tests.cli.conftest import Cluster
from tests.cli.test_jobs import training_job

Data = dict[str, Any]
PASSWORD = "correct-horse-battery"
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LONG_AGO = timestamp.micro_text(1_000_000_000.5)


def plant(cluster: Cluster) -> None:
    """Nobody leads; a pod's image cannot be fetched; a quota keeps a job from its pods. And secrets all over."""
    create = cluster.client.create
    cluster.do(create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
    spec = {"holderIdentity": "op-1", "renewTime": LONG_AGO, "leaseDurationSeconds": 15}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": spec}
    cluster.do(create(LEASES, lease, namespace=NAMESPACE))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": {"password": PASSWORD}}
    cluster.do(create(SECRETS, secret, namespace="default"))
    cluster.do(create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}))
    container = {"name": "main", "image": "any", "env": [{"name": "PASSWORD", "value": PASSWORD}]}
    template = {"spec": {"containers": [{**container, "name": "trainer"}]}}
    job = training_job("broken", trainer={"entrypoint": "true", "min-instance": 1, "template": template})
    made = cluster.do(create(TRAINING_JOBS, job, namespace="default"))
    told = {"type": "Refused", "status": "True", "reason": "Forbidden", "message": "pods: exceeded quota: few"}
    status = {"status": {"phase": "running", "conditions": [told]}}
    cluster.do(cluster.client.patch(TRAINING_JOBS, "broken", status, subresource="status", namespace="default"))
    _pod(cluster, container, made["metadata"]["uid"])


def _pod(cluster: Cluster, container: Data, uid: str) -> None:
    labels = {"edl.dev/job": "broken", "edl.dev/kind": "trainingjobs.paddlepaddle.org", "edl.dev/role": "trainer"}
    owner = {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "name": "broken",
        "uid": uid,
        "controller": True,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "broken-trainer-0", "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [container]},
    }
    cluster.do(cluster.client.create(PODS, pod, namespace="default"))
    waiting = {"reason": "ImagePullBackOff", "message": f"cannot pull https://user:{PASSWORD}@registry.example.com/any"}
    one = {
        "name": "main",
        "image": "any",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": waiting},
    }
    status = {"status": {"phase": "Pending", "containerStatuses": [one]}}
    cluster.do(cluster.client.patch(PODS, "broken-trainer-0", status, subresource="status", namespace="default"))


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        members = {member.name.removeprefix("edl-bundle/"): archive.extractfile(member) for member in archive}
        return {name: found.read().decode() for name, found in members.items() if found is not None}


@pytest.mark.parametrize("words", [[], ["broken"]], ids=["cluster", "one job"])
def test_a_reader_finds_the_faults_and_no_secret(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.conftest import api_alone, in_thread

    file = tmp_path / "report.tar.gz"
    with in_thread(lambda: api_alone(tmp_path)) as cluster:
        plant(cluster)
        assert cluster.edl("doctor", *words, "--bundle", str(file)) == 1
    found = unpacked(file)
    assert f"written: {file}" in capsys.readouterr().err
    assert "op-1 leads but has been silent" in found["findings.txt"]
    assert "renewTime: '2001-09-09T01:46:40" in found["installation/leases.yaml"]
    assert "exceeded quota: few" in found["cluster/trainingjobs.paddlepaddle.org.yaml"]
    assert "edl " in found["versions.txt"]
    assert "gitVersion" in found["versions.txt"]
    assert "default/broken" in found["plan.txt"]
    if words:
        assert "ImagePullBackOff" in found["findings.txt"]
        pods = found["job/default-broken/pods.yaml"]
        assert "reason: ImagePullBackOff" in pods
        assert f"name: PASSWORD\n      value: {REMOVED}" in pods
        assert "exceeded quota: few" in found["job/default-broken/job.yaml"]
    everything = "".join(found.values())
    assert PASSWORD not in everything
    assert "poddisruptionbudgets" in found["missing.txt"], "what could not be read is named"
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("postgresql://brain:secret@db:5432/brain", f"postgresql://brain:{REMOVED}@db:5432/brain"),
        ("Authorization: Bearer abcdefgh.ijklmnop", f"Authorization: Bearer {REMOVED}"),
        ("token edlb1.bnMvag.0.c2lnbmF0dXJl end", f"token {REMOVED} end"),
        ("jwt eyJhbGciOi.eyJpc3Mi.c2ln", f"jwt {REMOVED}"),
        ("a\n-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nb", f"a\n{REMOVED}\nb"),
        ("https://host/path is fine: 10:30", "https://host/path is fine: 10:30"),
    ],
)
def test_tokens_and_passwords_are_taken_out_of_texts(given: str, told: str) -> None:
    assert redacted_text(given) == told


def test_secrets_tell_the_names_of_their_keys_alone() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s", "managedFields": [1]}, "data": {"key": "c2VjcmV0"}}
    assert redacted(secret) == {"kind": "Secret", "metadata": {"name": "s"}, "data": {"key": REMOVED}}
    assert redacted({"env": {"A": "b"}, "other": {"data": {"k": "v"}}}) == {
        "env": {"A": REMOVED},
        "other": {"data": {"k": "v"}},
    }


def test_notes_count_when_they_are_asked_for(api: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A suspended job without any fault has a note."""
    job = training_job("held", suspend=True)
    api.do(api.client.create(TRAINING_JOBS, job, namespace="default"))
    spec = {"holderIdentity": "op-1", "renewTime": timestamp.micro_text(4e9 + 0.5), "leaseDurationSeconds": 15}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": spec}
    api.do(api.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
    api.do(api.client.create(LEASES, lease, namespace=NAMESPACE))
    assert api.edl("doctor", "held") == 0
    assert "note" in capsys.readouterr().out
    assert api.edl("doctor", "held", "--fail-on", "note") == 1
