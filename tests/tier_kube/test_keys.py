"""Keys and authority are replaced, and EDL is removed, installed again and upgraded, under jobs of every kind.

Pods of all of them speak to the job service all the time, with the token and the authority that they were started with.
None is started anew, and those that come later are served, too.
"""

import base64
from collections.abc import Iterator

import pytest

from edl.api.kubernetes.core import Secret
from edl.jobs.core.kind import JobKind
from edl.jobs.registry import EASYDL_JOB, PYTORCH_JOB
from edl.operator.credentials.identity import ROTATE, Identity, read_identity
from edl.operator.resources import JOB_RESOURCES, resource_of
from edl.operator.settings import NAMESPACE, SECRET
from tests.tier_kube.cluster.kubectl import Kubectl, Manifest, eventually
from tests.tier_kube.installed import (
    LEASE,
    Installation,
    edl,
    install,
    operators,
    training_job,
    uninstall,
    until_phase,
)

TASKS = 600  # more than the first two trainers, of a second each, have time for
PACE = "case $(hostname) in fit-trainer-[01]*) export SECONDS_PER_TASK=1;; *) export SECONDS_PER_TASK=0.02;; esac"
pytestmark = [pytest.mark.case("attack-3"), pytest.mark.kube, pytest.mark.timeout(420), pytest.mark.xdist_group("ha")]
# Ends with 3 if nobody serves it for a minute.
CALLS = """
import json, os, ssl, sys, time, urllib.request
trust = ssl.create_default_context(cadata=os.environ["EDL_SERVICE_CA"])
where = "/v1/jobs/{EDL_JOB_NAMESPACE}/{EDL_JOB_NAME}/job".format(**os.environ)
ask = urllib.request.Request(os.environ["EDL_SERVICE_URL"] + where)
ask.add_header("Authorization", "Bearer " + os.environ["EDL_JOB_TOKEN"])
last = time.monotonic()
while time.monotonic() - last < 60:
    try:
        urllib.request.urlopen(ask, context=trust, timeout=5).read()
        last = time.monotonic()
        print("served", flush=True)
    except Exception as error:
        print(repr(error), flush=True)
    time.sleep(0.5)
sys.exit(3)
"""
WORKERS = {"torch": "torch-worker-0", "easy": "easy-worker-0"}


@pytest.fixture(scope="module")
def pair(cluster: Kubectl, installation: Installation) -> Iterator[Kubectl]:
    installation.present("--no-brain")
    yield cluster
    installation.absent()  # with options of its own


@pytest.fixture(scope="module")
def jobs(pair: Kubectl, image: str) -> Iterator[Kubectl]:
    pair("create", "namespace", "edl-keys")
    inside = pair.within("edl-keys")
    try:
        eventually(lambda: inside.find("serviceaccounts", "default"), within=20, what="the default service account")
        code, training = training_job(size=(2, 2))
        train = f"CHUNKS={TASKS} SAMPLES={2 * TASKS} BATCH=2 python /code/train.py"
        training["spec"] |= {"freezing_window": "0s"}
        training["spec"]["trainer"]["entrypoint"] = f"{PACE}; exec env {train}"
        inside.apply(code, training, *calling_jobs(image))
        until_phase(inside, "running")
        for pod in WORKERS.values():
            until_served(inside, pod)
        yield inside
    finally:
        pair("delete", "namespace", "edl-keys", "--wait=false")


def calling_jobs(image: str) -> list[Manifest]:
    container = {"name": "main", "image": image, "command": ["python3", "-c", CALLS]}
    role = {"template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}}
    torch = {"minReplicas": 2, "maxReplicas": 2, "replicaSpecs": {"Worker": {"replicas": 2, **role}}}
    plan = {"selector": {"name": "easy"}, "worker": {"replicas": 2, "resource": {"cpu": "20m", "memory": 64}}}
    return [
        _of(PYTORCH_JOB, "torch", torch),
        _of(EASYDL_JOB, "easy", {"distributionStrategy": "AllreduceStrategy", "trainer": role, "worker": role}),
        {
            "apiVersion": JOB_RESOURCES.api_version,
            "kind": JOB_RESOURCES.kind,
            "metadata": {"name": "plan"},
            "spec": plan,
        },
    ]


def _of(kind: JobKind, name: str, spec: Manifest) -> Manifest:
    resource = resource_of(kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


def until_served(jobs: Kubectl, pod: str) -> None:
    """From now on, several times."""

    def served() -> int:
        return jobs("logs", pod).count("served")

    eventually(lambda: served() > 0, within=120, what=f"{pod} is served at all")
    before = served()
    eventually(lambda: served() > before + 4, within=90, what=f"{pod} is served")


def pods_of(jobs: Kubectl) -> dict[str, str]:
    """uid, start and restarts of every pod that runs, by name: the same again means that nothing happened to it."""
    return {
        pod["metadata"]["name"]: f"{pod['metadata']['uid']} {pod['status'].get('containerStatuses')}"
        for pod in jobs.get("pods")["items"]
        if pod["status"]["phase"] == "Running" and "edl.dev/job" in pod["metadata"]["labels"]
    }


def identity(pair: Kubectl) -> Identity:
    data = pair.within(NAMESPACE).get("secret", SECRET)["data"]
    found = read_identity(Secret(data=data))
    assert found is not None
    return found


def untouched(jobs: Kubectl, before: dict[str, str]) -> None:
    for pod in WORKERS.values():
        until_served(jobs, pod)
    assert pods_of(jobs) == before


def restarted(pair: Kubectl) -> None:
    pair.within(NAMESPACE)("rollout", "restart", "deployment/edl-operator")
    pair.within(NAMESPACE)("rollout", "status", "deployment/edl-operator", "--timeout=120s", timeout=130)


def test_another_authority_on_request(pair: Kubectl, jobs: Kubectl) -> None:
    before, old = pods_of(jobs), identity(pair)
    pair.within(NAMESPACE)("annotate", "secret", SECRET, f"{ROTATE}=now")
    restarted(pair)
    now = identity(pair)
    assert now.ca != old.ca
    assert now.previous is not None
    assert now.previous.ca == old.ca
    untouched(jobs, before)


def test_a_secret_of_a_job_follows(pair: Kubectl, jobs: Kubectl) -> None:
    def followed() -> bool:
        data = jobs.get("secret", "fit-tj-token")["data"]
        return bool(base64.b64decode(data["ca.crt"]).decode() == identity(pair).trusted)

    eventually(followed, within=60, what="the Secret names both authorities")


def test_removed_and_installed_again(pair: Kubectl, jobs: Kubectl, image: str) -> None:
    before, old = pods_of(jobs), identity(pair)
    assert f"Secret {SECRET} stays" in uninstall(pair)
    install(pair, image, "--lease", str(LEASE), "--no-brain")
    assert (identity(pair).key, identity(pair).ca) == (old.key, old.ca)
    untouched(jobs, before)


def test_a_secret_that_is_deleted_under_operators_comes_back(pair: Kubectl, jobs: Kubectl) -> None:
    """They hand over what they know when they end, also if a new one has made other keys meanwhile."""
    before, old = pods_of(jobs), identity(pair)
    oldest = (old.previous or old).ca
    pair.within(NAMESPACE)("delete", "secret", SECRET)
    restarted(pair)

    def known() -> bool:
        now = identity(pair)
        return oldest in now.trusted and old.key in (now.key, *(now.previous.keys if now.previous else ()))

    eventually(known, within=30, what="key and authority of running pods are known again")
    untouched(jobs, before)


def test_upgraded_with_other_options(pair: Kubectl, jobs: Kubectl, image: str) -> None:
    before, old = pods_of(jobs), set(operators(pair))
    install(pair, image, "--lease", str(LEASE + 1), "--no-brain")
    eventually(lambda: not set(operators(pair)) & old, within=60, what="the old operators are gone")
    untouched(jobs, before)


COLLECTS = """
import os, ssl, sys, urllib.error, urllib.request
trust = ssl.create_default_context(cadata=os.environ["EDL_SERVICE_CA"])
ask = urllib.request.Request("https://edl-operator.edl-system.svc:8444/metrics")
ask.add_header("Authorization", "Bearer " + sys.argv[1])
try:
    print(urllib.request.urlopen(ask, context=trust, timeout=10).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.mark.case("attack-13")
def test_metrics_are_for_accounts_that_may_get_them(pair: Kubectl, jobs: Kubectl) -> None:
    """Asked for by a pod of a job, with three tokens; the certificate is the job service's."""
    for name in ("collector", "stranger"):
        jobs("create", "serviceaccount", name)
    binding = ["--clusterrole=edl-metrics", "--serviceaccount=edl-keys:collector"]
    jobs("create", "clusterrolebinding", "edl-keys-collector", *binding)
    try:
        tokens = {name: jobs("create", "token", name) for name in ("collector", "stranger")}

        def told(token: str) -> str:
            return jobs("exec", WORKERS["torch"], "--", "python3", "-c", COLLECTS, token)

        assert 'edl_job_size{kind="tj",name="fit",namespace="edl-keys"}' in told(tokens["collector"])
        assert told(tokens["stranger"]) == "403"
        assert told("made-up") == "401"
    finally:
        jobs("delete", "clusterrolebinding", "edl-keys-collector")


def test_doctor_finds_nothing_wrong_with_the_keys(pair: Kubectl, jobs: Kubectl) -> None:
    said = edl("doctor", "--kubeconfig", str(pair.kubeconfig))
    assert "made under another key" not in said


def test_a_new_master_is_served_and_the_job_ends_well(jobs: Kubectl) -> None:
    """It reads the job's Secret, which once named an authority that was no more."""
    (master,) = jobs.get("pods", labels="edl.dev/job=fit,edl.dev/role=master")["items"]
    jobs("delete", "pod", master["metadata"]["name"], "--wait=false")
    for name in WORKERS:
        jobs("delete", f"{_kind(name)}/{name}", "--wait=false")
    jobs.patch("trainingjob/fit", {"spec": {"trainer": {"max-instance": 6}}})  # those that come are quick
    until_phase(jobs, "succeeded", within=180)
    assert f"trained {TASKS} chunks" in jobs("logs", "job/fit-trainer", "--tail=-1")
    status = jobs.get("trainingjob", "fit")["status"]
    assert status["replica_statuses"][-1].get("failed", 0) == 0


def _kind(name: str) -> str:
    return (PYTORCH_JOB if name == "torch" else EASYDL_JOB).crd_name
