"""Two operators in pods on real nodes: whatever happens to the leader while it scales a job, the other one goes on.

The job trains for real, with a master whose queue lives in the job service: it must neither stop nor lose anything.
"""

import base64
import json
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edl.certificates import Authority, Pair
from edl.operator.credentials.identity import RENEW_BEFORE
from edl.operator.settings import NAMESPACE, SECRET
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.cluster.kubectl import Kubectl, Manifest, eventually
from tests.tier_kube.clusters import OPERATOR
from tests.tier_kube.disturbance import cut_off, node_of, process_in, stopped
from tests.tier_kube.installed import (
    LEASE,
    Installation,
    leader,
    operators,
    running_trainers,
    training_job,
    until_phase,
)

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240), pytest.mark.xdist_group("ha")]
TASKS = 600
# The first three trainers take their time, so that there is something left to train however long the tests take; those
# that come for the end are quick.
PACE = "case $(hostname) in fit-trainer-[012]*) export SECONDS_PER_TASK=1;; *) export SECONDS_PER_TASK=0.02;; esac"


@pytest.fixture(scope="module")
def pair(own_cluster: Cluster, installation: Installation) -> Kubectl:
    installation.present("--no-brain")
    return own_cluster.kubectl


@pytest.fixture(scope="module")
def job(pair: Kubectl) -> Iterator[Kubectl]:
    """A namespace with a job that trains, two trainers to begin with."""
    pair("create", "namespace", "edl-ha")
    inside = pair.within("edl-ha")
    try:
        eventually(lambda: inside.find("serviceaccounts", "default"), within=20, what="the default service account")
        code, manifest = training_job(size=(1, 2))
        manifest["spec"]["freezing_window"] = "0s"
        train = f"CHUNKS={TASKS} SAMPLES={2 * TASKS} BATCH=2 python /code/train.py"
        manifest["spec"]["trainer"]["entrypoint"] = f"{PACE}; exec env {train}"
        inside.apply(code, manifest)
        until_size(inside, 2)
        age_certificate(pair)
        yield inside
    finally:
        pair("delete", "namespace", "edl-ha", "--wait=false")


def resize(job: Kubectl, most: int) -> None:
    job.patch("trainingjob/fit", {"spec": {"trainer": {"max-instance": most}}})


def until_size(job: Kubectl, size: int, name: str = "fit") -> dict[str, str]:
    def settled() -> dict[str, str] | None:
        trainers = running_trainers(job, name)
        phase = job.get("trainingjob", name).get("status", {}).get("phase")
        return trainers if (len(trainers), phase) == (size, "running") else None

    found: dict[str, str] = eventually(settled, within=60, what=f"{size} trainers run")
    return found


@contextmanager
def killed(cluster: Cluster, pod: Manifest) -> Iterator[None]:
    process_in(cluster, pod, "edl operator").signal(signal.SIGKILL)
    yield


def disturbed(how: str, cluster: Cluster, pod: Manifest) -> AbstractContextManager[None]:
    if how == "kill -9":
        return killed(cluster, pod)
    if how == "SIGSTOP":
        return stopped(process_in(cluster, pod, "edl operator"))
    return cut_off(cluster, pod)


@pytest.mark.parametrize(("how", "size"), [("kill -9", 3), ("SIGSTOP", 2), ("no network", 3)])
def test_the_other_leads_when_the_lease_is_over(
    own_cluster: Cluster, pair: Kubectl, job: Kubectl, how: str, size: int
) -> None:
    before, old = running_trainers(job), both_ready(pair)
    starts = restarts(pair, old)
    resize(job, size)
    with disturbed(how, own_cluster, operators(pair)[old]):
        eventually(lambda: taken_over(pair, old), within=LEASE + 30, what="the other one leads")
        after = until_size(job, size)
    # Who lost the lease starts anew. Until it has, there is nobody to take over from the other.
    eventually(lambda: restarts(pair, old) > starts, within=90, what="the old one has started anew")
    assert vacancy(own_cluster, old) <= LEASE + 1
    assert len(before.items() & after.items()) == min(len(before), size), "trainers that stay were not touched"


@pytest.mark.case("acceptance-28")
def test_after_a_clean_stop_the_other_leads_at_once(own_cluster: Cluster, pair: Kubectl, job: Kubectl) -> None:
    before, old = running_trainers(job), both_ready(pair)
    resize(job, 2)
    pair.within(NAMESPACE)("delete", "pod", old, "--wait=false")
    eventually(lambda: taken_over(pair, old), within=LEASE + 30, what="the other one leads")
    after = until_size(job, 2)
    given_back, taken = handover(own_cluster, old)
    assert _holder(given_back) == "", f"{old} gave the lease back, and wrote nothing to it after that"
    seconds = _between(given_back, taken)
    print(f"nobody led for {seconds:.2f} s")
    # At once where the machine has time; a lease that was not seen to be free runs out first.
    assert seconds < LEASE / 2
    assert after.items() <= before.items()


def restarts(pair: Kubectl, name: str) -> int:
    return int(operators(pair)[name]["status"]["containerStatuses"][0]["restartCount"])


def both_ready(pair: Kubectl) -> str:
    """The leader's name, once both operators are as they should be."""
    pair.within(NAMESPACE)("rollout", "status", "deployment/edl-operator", "--timeout=90s", timeout=100)
    name: str = eventually(lambda: leader(pair), within=30, what="an operator leads")
    return name


def taken_over(pair: Kubectl, old: str) -> bool:
    """Whether another pod than the old one holds the lease."""
    holder = pair.within(NAMESPACE).get("lease", "edl-operator")["spec"].get("holderIdentity", "")
    return bool(holder) and not holder.startswith(f"{old}-")


def vacancy(cluster: Cluster, old: str) -> float:
    """Seconds for which nobody led, after the old leader was gone."""
    return _between(*handover(cluster, old))


def handover(cluster: Cluster, old: str) -> tuple[Manifest, Manifest]:
    """The last time that the old leader renewed the lease, or gave it back, and the next time that another one asked
    for it."""
    asked = [entry for entry in entries(cluster) if _holder(entry) is not None]
    asked.sort(key=_received)
    mine = [number for number, entry in enumerate(asked) if _pod(entry) == old]
    last, next_one = asked[mine[-1]], asked[mine[-1] + 1]
    assert _holder(next_one), f"{_pod(next_one)} leads next"
    return last, next_one


def _between(last: Manifest, next_one: Manifest) -> float:
    """As the API server saw it, which is after the one was done and before the other was."""
    return _received(next_one) - _seconds(last["stageTimestamp"])


def _pod(entry: Manifest) -> str:
    """Of the operator that asked."""
    (name,) = entry["user"]["extra"]["authentication.kubernetes.io/pod-name"]
    return str(name)


def certificate(pair: Kubectl) -> tuple[Pair, Authority]:
    """What the operators present, and who vouches for it."""
    data = pair.within(NAMESPACE).get("secret", SECRET)["data"]
    found = {name: base64.b64decode(value) for name, value in data.items()}
    return Pair(found["tls.crt"], found["tls.key"]), Authority(Pair(found["ca.crt"], found["ca.key"]))


def age_certificate(pair: Kubectl) -> None:
    """As if months had passed."""
    now, authority = certificate(pair)
    old = authority.issue("edl job service", hosts=sorted(now.hosts), lifetime=timedelta(days=30))
    data = {"tls.crt": base64.b64encode(old.certificate).decode(), "tls.key": base64.b64encode(old.key).decode()}
    pair.within(NAMESPACE).patch(f"secret/{SECRET}", {"data": data})


def test_a_certificate_that_ends_soon_was_renewed(pair: Kubectl, job: Kubectl) -> None:
    """By the first operator that was started since."""
    assert certificate(pair)[0].ends - datetime.now(UTC) > RENEW_BEFORE


def test_nothing_was_lost(pair: Kubectl, job: Kubectl) -> None:
    """Every task was trained; master and parameter server are the processes that they were."""
    resize(job, 8)
    try:
        until_phase(job, "succeeded", within=120)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{account(job)}") from None
    assert f"trained {TASKS} chunks" in job("logs", "job/fit-trainer", "--tail=-1")
    status = job.get("trainingjob", "fit")["status"]
    assert status["replica_statuses"][-1].get("failed", 0) == 0
    for pod in job.get("pods")["items"]:
        assert all(one["restartCount"] == 0 for one in pod["status"]["containerStatuses"]), pod["metadata"]["name"]


def account(job: Kubectl) -> str:
    """How things stand, for the message of a failure."""
    names = job("get", "pods", "-o", "name").split()
    logs = (f"--- {name}\n{job('logs', name, '--tail=8', '--ignore-errors')}" for name in names)
    return "\n".join([job("get", "trainingjob,pods", "-o", "wide"), job("describe", "trainingjob", "fit"), *logs])


def test_no_write_could_harm(own_cluster: Cluster, pair: Kubectl, job: Kubectl) -> None:
    """Each names what it was decided on, and was made by whoever led at that time."""
    writes = [entry for entry in entries(own_cluster) if entry["verb"] in ("create", "update", "patch", "delete")]
    work = [entry for entry in writes if entry["objectRef"]["resource"] not in ("events", "leases")]
    assert {entry["verb"] for entry in work} == {"create", "update", "patch", "delete"}
    assert ("secrets", "update") in {(entry["objectRef"]["resource"], entry["verb"]) for entry in work}
    assert [_told(entry) for entry in work if not _is_guarded(entry)] == []
    mine = [entry for entry in work if _is_for_jobs(entry)]
    made = [_told(entry) for entry in mine if (entry["verb"], entry["objectRef"]["resource"]) == ("create", "pods")]
    assert len(made) == len(set(made)), "no pod was made twice"
    assert [_told(entry) for entry in _out_of_turn(writes)] == []


def patient_job(name: str) -> Manifest:
    """Trainers that only wait, two of which fill a node; the first that fails by itself would fail the job."""
    script = "trap 'kill $!; exit 143' TERM; sleep 3600 & wait"
    trainer = {"entrypoint": script, "min-instance": 2, "max-instance": 4, "resources": {"requests": {"cpu": "800m"}}}
    spec = {
        "fault_tolerant": False,
        "freezing_window": "0s",
        "master": {"command": ["sh", "-c", script], "resources": {"requests": {"cpu": "10m"}}},
        "trainer": trainer,
    }
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


def test_a_node_that_is_lost_takes_no_job_with_it(own_cluster: Cluster, pair: Kubectl, job: Kubectl) -> None:
    """Its kubelet, its containerd and all containers die at once, the leading operator among them."""
    old = both_ready(pair)
    lost = node_of(own_cluster, operators(pair)[old])
    job.apply(patient_job("calm"))
    before = until_size(job, 4, "calm")
    lost.kill()
    try:
        eventually(lambda: taken_over(pair, old), within=LEASE + 30, what="the other one leads")
        after = eventually(lambda: _fewer(job, before, lost.name), within=90, what="the loss is noticed")
    finally:
        lost.revive()
    assert vacancy(own_cluster, old) <= LEASE + 1
    status = job.get("trainingjob", "calm")["status"]
    assert status["phase"] in ("running", "scaling")
    assert len(after) == 2
    assert after.items() <= before.items(), "trainers of the other node were not touched"
    assert after.items() <= until_size(job, 4, "calm").items()
    assert job.get("trainingjob", "calm")["status"]["replica_statuses"][-1].get("failed", 0) == 0


def _fewer(job: Kubectl, before: dict[str, str], lost: str) -> dict[str, str] | None:
    """Those that are left, once those of the lost node are on their way out."""
    pods = {
        one["metadata"]["name"]: one for one in job.get("pods", labels="edl.dev/job=calm,edl.dev/role=trainer")["items"]
    }
    there = [pods[name] for name in before if name in pods and pods[name]["spec"]["nodeName"] == lost]
    if any("deletionTimestamp" not in one["metadata"] for one in there):
        return None
    return {
        name: word for name, word in running_trainers(job, "calm").items() if pods[name]["spec"]["nodeName"] != lost
    }


def _is_guarded(entry: Manifest) -> bool:
    body = entry.get("requestObject") or {}
    if not body and entry["responseStatus"]["code"] >= 400:
        return True  # whoever sent it died over it: nothing was written
    if entry["verb"] == "delete":
        return bool(body.get("preconditions", {}).get("uid"))
    if entry["verb"] == "create":
        return True
    if isinstance(body, list):
        owned = any((step["op"], step["path"]) == ("test", "/metadata/ownerReferences/0/uid") for step in body)
        return owned or any(step["path"] == "/metadata/resourceVersion" and step["value"] for step in body)
    return bool(body.get("metadata", {}).get("resourceVersion"))


def _out_of_turn(writes: list[Manifest]) -> Iterator[Manifest]:
    """Writes for jobs by an operator while another one held the lease."""
    holder = ""
    for entry in sorted(writes, key=_received):
        if entry["objectRef"]["resource"] == "leases":
            holder = _holder(entry) or holder
        elif _is_for_jobs(entry) and not holder.startswith(f"{_pod(entry)}-"):
            yield entry


def _is_for_jobs(entry: Manifest) -> bool:
    about = entry["objectRef"]
    return bool(about.get("namespace") == "edl-ha" and about["resource"] != "events")


def _holder(entry: Manifest) -> str | None:
    if entry["objectRef"]["resource"] != "leases" or entry["verb"] == "get":
        return None
    holder: str | None = (entry.get("requestObject") or {}).get("spec", {}).get("holderIdentity")
    return holder


def entries(cluster: Cluster) -> list[Manifest]:
    """What the operators asked for and got since the module began."""
    found: list[Manifest] = []
    for line in cluster.control_plane.audit_log.read_text().splitlines():
        entry: dict[str, Any] = json.loads(line)
        mine = entry["user"]["username"] == OPERATOR and "objectRef" in entry
        if mine and entry["responseStatus"]["code"] < 300:
            found.append(entry)
    return found


def _told(entry: Manifest) -> str:
    about = entry["objectRef"]
    return f"{entry['verb']} {about['resource']}/{about.get('subresource', '')} {about.get('name', '')}"


def _received(entry: Manifest) -> float:
    return _seconds(entry["requestReceivedTimestamp"])


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
