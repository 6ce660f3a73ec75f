"""Design 003's samples, mended and made small, on real nodes and with kubectl alone: the trainer, pods by JobResource,
parameter servers that are replaced, and one that its kubelet resizes in place.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.cluster.kubectl import Kubectl, KubectlError, Manifest, eventually

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240)]
EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = "elastic-deepctr-job"
WAITS = ["sh", "-c", "trap 'exit 143' TERM; while :; do sleep 0.5; done"]


def samples(image: str) -> tuple[Manifest, Manifest]:
    """As they stand but for their image, their command and their appetite."""
    job, plan = (
        yaml.safe_load((EXAMPLES / f"easydl-{name}.yaml").read_text()) for name in ("elasticjob", "jobresource")
    )
    spec = job["spec"]
    spec["trainer"] = {"template": {"spec": {"containers": [{"name": "main"}]}}}
    for role in ("trainer", "worker", "parameterServer"):
        spec[role]["template"]["spec"]["containers"][0] |= {"image": image, "command": WAITS}
        spec[role]["template"]["spec"]["terminationGracePeriodSeconds"] = 2
    for role in ("worker", "parameter_server", "evaluator"):
        plan["spec"][role] = {"replicas": min(2, plan["spec"][role]["replicas"]), "resource": _small(cpu="20m")}
    del plan["spec"]["resource_updation"]
    return job, plan


def _small(**resource: Any) -> dict[str, Any]:
    return {"cpu": "20m", "memory": 32} | resource


def running(namespace: Kubectl) -> dict[str, Manifest]:
    """Pods that run and are not asked to go, by name."""
    pods = namespace.get("pods", "-l", f"edl.dev/job={JOB}")["items"]
    return {
        pod["metadata"]["name"]: pod
        for pod in pods
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def until_pods(namespace: Kubectl, *names: str) -> dict[str, Manifest]:
    wanted = {f"{JOB}-{name}" for name in names}

    def look() -> dict[str, Manifest] | None:
        found = running(namespace)
        return found if set(found) == wanted else None

    found: dict[str, Manifest] = eventually(look, within=60, what=f"{sorted(wanted)} run")
    return found


def until_updates(namespace: Kubectl, **states: str) -> None:
    wanted = {f"{JOB}-{name.replace('_', '-')}": state for name, state in states.items()}

    def look() -> bool:
        status = namespace.get("jobresource", "elastic-training-resource").get("status", {})
        found = status.get("updates", ())
        if {one["name"]: one["state"] for one in found} == wanted:
            return True
        raise KubectlError(f"they are {found}")  # which is told when it never comes true

    eventually(look, within=60, what=f"updates are {wanted}")


def restarts(pod: Manifest) -> tuple[str, int]:
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


def test_the_samples_on_real_nodes(installed: Kubectl, image: str, namespace: Kubectl) -> None:
    job, plan = samples(image)
    namespace.apply(job)
    until_pods(namespace, "trainer")
    namespace.apply(plan)
    before = until_pods(namespace, "trainer", "ps-0", "ps-1", "worker-0", "worker-1", "evaluator-0")
    assert before[f"{JOB}-worker-0"]["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"

    updates = [
        {"name": f"{JOB}-ps-0", "resource": {"cpu": "40m", "memory": 64}},
        {"name": f"{JOB}-ps-1", "resource": {"disk": 64}},
    ]
    namespace.patch("jobresource/elastic-training-resource", {"spec": {"resource_updation": updates}})
    until_updates(namespace, ps_0="resized", ps_1="done")
    after = until_pods(namespace, "trainer", "ps-0", "ps-1-1", "worker-0", "worker-1", "evaluator-0")
    resized = after[f"{JOB}-ps-0"]
    assert restarts(resized) == restarts(before[f"{JOB}-ps-0"])
    assert resized["status"]["containerStatuses"][0]["resources"]["limits"] == {"cpu": "40m", "memory": "64Mi"}
    limits = after[f"{JOB}-ps-1-1"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "20m", "memory": "32Mi", "ephemeral-storage": "64Mi"}
    slices = namespace.get("endpointslices", "-l", f"kubernetes.io/service-name={JOB}-ps-1")["items"]
    assert [end["targetRef"]["name"] for one in slices for end in one["endpoints"]] == [f"{JOB}-ps-1-1"]

    namespace("scale", "jobresource/elastic-training-resource", "--replicas=1")
    until_pods(namespace, "trainer", "ps-0", "ps-1-1", "worker-0", "evaluator-0")
    assert "Replacing" in namespace("events", "--for", f"elasticjobs.elastic.iml.github.io/{JOB}")
    namespace("delete", "elasticjobs.elastic.iml.github.io", JOB)
    eventually(lambda: not running(namespace), within=60, what="its pods are gone")


def test_the_designs_own_slip_is_refused(installed: Kubectl, namespace: Kubectl) -> None:
    plan = yaml.safe_load((EXAMPLES / "easydl-jobresource.yaml").read_text())
    plan["spec"]["selector"]["name"] = f"{JOB}  // Job Name"
    with pytest.raises(KubectlError, match=r"spec.selector.name"):
        namespace.apply(plan)
