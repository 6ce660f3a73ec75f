"""EasyDL on real nodes with EDL installed, through kubectl alone: the samples of design 003, mended and made small,
and a job whose own trainer plans it, and plans again when the kernel has killed a worker for its memory.
"""

from functools import partial
from typing import Any

import pytest
import yaml

from tests.stories.easydl_planned import WORKER, hungry_job
from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, Manifest, eventually
from tests.tier_kube.image import REPOSITORY

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240)]
EXAMPLES = REPOSITORY / "examples"
JOB, PLAN = "elastic-deepctr-job", "elastic-training-resource"
KIND = "elasticjobs.elastic.iml.github.io"
WAITS = ["sh", "-c", "trap 'exit 143' TERM; while :; do sleep 0.5; done"]


# The samples.


def samples(image: str) -> tuple[Manifest, Manifest]:
    """As they stand but for their image, their command and their appetite: without memory of their own, so that pods
    which get some are of another class of service and cannot be resized in place. The updates come later."""
    job, plan = (
        yaml.safe_load((EXAMPLES / f"easydl-{name}.yaml").read_text()) for name in ("elasticjob", "jobresource")
    )
    spec = job["spec"]
    spec["trainer"] = {"template": {"spec": {"containers": [{"name": "main"}]}}}
    for role in ("trainer", "worker", "parameterServer"):
        spec[role]["template"]["spec"]["containers"][0] |= {"image": image, "command": WAITS}
        spec[role]["template"]["spec"]["terminationGracePeriodSeconds"] = 2
    for role in ("worker", "parameter_server", "evaluator"):
        few = min(2, plan["spec"][role]["replicas"])
        plan["spec"][role] = {"replicas": few, "resource": {"cpu": "20m"}}
    del plan["spec"]["resource_updation"]
    return job, plan


def running(namespace: Kubectl, job: str = JOB) -> dict[str, Manifest]:
    """Pods that run and are not asked to go, by name."""
    pods = namespace.get("pods", labels=f"edl.dev/job={job}")["items"]
    return {
        pod["metadata"]["name"]: pod
        for pod in pods
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def until_pods(namespace: Kubectl, *names: str) -> dict[str, Manifest]:
    """These run, and no others."""
    wanted = {f"{JOB}-{name}" for name in names}

    def look() -> dict[str, Manifest]:
        found = running(namespace)
        if set(found) != wanted:
            raise KubectlError(f"{sorted(found)} do")  # which is told when it never comes true
        return found

    found: dict[str, Manifest] = eventually(look, within=60, what=f"{sorted(wanted)} run")
    return found


def update(namespace: Kubectl, state: str, **resources: dict[str, Any]) -> None:
    """Edits the plan's list of updates, and waits until all of them have come so far."""
    names = {f"{JOB}-{slot.replace('_', '-')}": resource for slot, resource in resources.items()}
    updates = [{"name": name, "resource": resource} for name, resource in names.items()]
    namespace.patch(f"jobresource/{PLAN}", {"spec": {"resource_updation": updates}})
    generation = namespace.get("jobresource", PLAN)["metadata"]["generation"]

    def look() -> bool:
        status = namespace.get("jobresource", PLAN).get("status", {})
        reported = {one["name"]: one["state"] for one in status.get("updates", ())}
        if status.get("observedGeneration") == generation and reported == dict.fromkeys(names, state):
            return True
        raise KubectlError(f"they are {status.get('updates')}")

    eventually(look, within=90, what=f"updates of {sorted(names)} are {state}")


def limits(pod: Manifest) -> Manifest:
    """What its node says that it gives."""
    found: Manifest = pod["status"]["containerStatuses"][0]["resources"]["limits"]
    return found


def lives(pod: Manifest) -> tuple[str, int]:
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


def test_the_samples_on_real_nodes(installed: Kubectl, image: str, namespace: Kubectl) -> None:
    job, plan = samples(image)
    namespace.apply(job)
    until_pods(namespace, "trainer")
    namespace.apply(plan)
    before = until_pods(namespace, "trainer", "ps-0", "ps-1", "worker-0", "worker-1", "evaluator-0")
    assert before[f"{JOB}-worker-0"]["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"

    update(namespace, "done", ps_0={"cpu": "40m", "memory": 32}, ps_1={"cpu": "80m", "memory": 32})
    moved = until_pods(namespace, "trainer", "ps-0-1", "ps-1-1", "worker-0", "worker-1", "evaluator-0")
    assert limits(moved[f"{JOB}-ps-1-1"]) == {"cpu": "80m", "memory": "32Mi"}
    eventually(lambda: leads_to(namespace, "ps-1") == [f"{JOB}-ps-1-1"], within=30, what="its address is the new pod's")

    update(namespace, "resized", ps_0={"cpu": "60m", "memory": 64}, ps_1={"cpu": "120m", "memory": 64})
    resized = until_pods(namespace, "trainer", "ps-0-1", "ps-1-1", "worker-0", "worker-1", "evaluator-0")
    for name, cpu in ((f"{JOB}-ps-0-1", "60m"), (f"{JOB}-ps-1-1", "120m")):
        assert lives(resized[name]) == lives(moved[name]), "it is the same process as before"
        assert limits(resized[name]) == {"cpu": cpu, "memory": "64Mi"}

    namespace("scale", f"jobresource/{PLAN}", "--replicas=1")
    until_pods(namespace, "trainer", "ps-0-1", "ps-1-1", "worker-0", "evaluator-0")
    for event in ("Planned", "Replacing", "Resizing", "Leaving"):
        eventually(partial(tells, namespace, event), within=30, what=f"kubectl describe tells of {event}")
    namespace("delete", KIND, JOB)
    eventually(lambda: not running(namespace), within=60, what="its pods are gone")


def tells(namespace: Kubectl, event: str) -> bool:
    return f" {event} " in namespace("describe", f"{KIND}/{JOB}")


def leads_to(namespace: Kubectl, slot: str) -> list[str]:
    slices = namespace.get("endpointslices", labels=f"kubernetes.io/service-name={JOB}-{slot}")["items"]
    return [end["targetRef"]["name"] for one in slices for end in one["endpoints"]]


def test_the_designs_own_slip_is_refused(installed: Kubectl, namespace: Kubectl) -> None:
    plan = yaml.safe_load((EXAMPLES / "easydl-jobresource.yaml").read_text())
    plan["spec"]["selector"]["name"] += "  // Job Name"
    with pytest.raises(KubectlError, match=r"spec.selector.name"):
        namespace.apply(plan)


# A job that plans for itself.


def in_containers(image: str) -> list[Manifest]:
    """The job, with its script in a ConfigMap."""
    places = {"FOLDER": "/tmp", "LEDGER": "/tmp/ledger", "EDL_CHECKPOINT_DIR": "/tmp/checkpoints"}
    job = hungry_job(REPOSITORY, image, **places)
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    worker = job["spec"]["worker"]["template"]["spec"]
    worker["volumes"] = [{"name": "code", "configMap": {"name": "code"}}]
    mount = {"volumeMounts": [{"name": "code", "mountPath": "/code"}], "command": ["python", "/code/worker.py"]}
    worker["containers"][0] |= mount
    return [code | {"data": {"worker.py": WORKER.read_text()}}, job]


def may(namespace: Kubectl, verb: str, resource: str) -> bool:
    """Whether the job's own pods may do this: they have the account that the namespace gives everybody."""
    account = f"system:serviceaccount:{namespace.namespace}:default"
    try:
        return namespace("auth", "can-i", verb, resource, f"--as={account}") == "yes"
    except KubectlError:  # so says kubectl no
        return False


def test_a_worker_that_the_kernel_kills_for_its_memory_gets_more_from_its_trainer(
    installed: Kubectl, image: str, namespace: Kubectl
) -> None:
    namespace.apply(*in_containers(image))
    plan = eventually(lambda: namespace.get("jobresource", "hungry"), within=60, what="the trainer's first plan")
    assert plan["spec"]["worker"] == {"replicas": 1, "resource": {"cpu": 0.5, "memory": 128}}
    assert not may(namespace, "create", "jobresources.elastic.easydl.org"), "the operator wrote it for the trainer"

    def over() -> bool:
        status = namespace.get(KIND, "hungry").get("status", {})
        assert status.get("phase") != "Failed", status
        return bool(status.get("phase") == "Succeeded")

    eventually(over, within=120, what="the job succeeds")
    plan = namespace.get("jobresource", "hungry")
    assert plan["spec"]["worker"]["resource"]["memory"] >= 256
    log = namespace("logs", "hungry-trainer")
    assert "hungry-worker-0 (OOMKilled)" in log, "which was the kernel's doing"
    assert "plans are made by local rules" in log
