"""The operator asks for nothing that it may not do, and may do nothing that it does not do.

Runs last, so that the audit log holds what installed operators did in every story of the session; by itself it tells
the few that make them do everything.
"""

from pathlib import Path

import pytest

from edl.install.permissions import cluster_permissions, namespace_permissions
from edl.jobs.core.kind import JobKind
from edl.jobs.registry import EASYDL_JOB, PYTORCH_JOB
from edl.operator.resources import JOB_RESOURCES, resource_of
from edl.operator.settings import NAMESPACE
from tests.tier_kube.audit import Asked, asked, entries, forbidden, limited
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.cluster.kubectl import Kubectl, Manifest, eventually
from tests.tier_kube.clusters import OPERATOR
from tests.tier_kube.installed import Installation, leader, training_job, until_phase
from tests.tier_kube.manifests import SHELL_IMAGE
from tests.tier_kube.workers import shared, until_others_end

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900), pytest.mark.last, pytest.mark.case("attack-4")]

LOST_ANSWER = "after a creation whose answer was lost, to see whose the object is"
AGAIN = "an event that comes again is counted, and none comes again in so short a time"
ASKED_INSIDE = "API servers that guard owner references ask for it themselves, which no log shows"
HANDED_IN = "the trainer of an EasyDL job hands in a plan when it has measured something; here plans come by hand"
IN_PLACE = "a pod is resized in place where its node tells that it can, and is replaced where not"
NOBODY_COLLECTS = "metrics are asked for by nobody in these stories; test_keys does"
UNUSED = {
    Asked("authentication.k8s.io", "tokenreviews", "create"): NOBODY_COLLECTS,
    Asked("authorization.k8s.io", "subjectaccessreviews", "create"): NOBODY_COLLECTS,
    Asked("", "pods", "get"): LOST_ANSWER,
    Asked("", "services", "get"): LOST_ANSWER,
    Asked("apps", "replicasets", "get"): LOST_ANSWER,
    Asked("apps", "statefulsets", "get"): LOST_ANSWER,
    Asked("batch", "jobs", "get"): LOST_ANSWER,
    Asked("events.k8s.io", "events", "patch"): AGAIN,
    Asked("", "configmaps", "delete"): "a job that took the name of one whose remains were not collected yet",
    Asked("", "secrets", "update"): "a certificate is renewed after months, or in test_ha",
    Asked("", "pods/resize", "patch"): IN_PLACE,
    Asked("elastic.easydl.org", "jobresources", "get"): HANDED_IN,
    Asked("elastic.easydl.org", "jobresources", "create"): HANDED_IN,
    Asked("elastic.easydl.org", "jobresources", "update"): HANDED_IN,
}


def granted() -> set[Asked]:
    permissions = [*cluster_permissions(NAMESPACE), *namespace_permissions()]
    return {
        Asked(permission.group, name, verb)
        for permission in permissions
        for name in permission.resources
        for verb in permission.verbs
    }


def unused() -> dict[Asked, str]:
    """With what no log can show."""
    return UNUSED | {one: ASKED_INSIDE for one in granted() if one.resource.endswith("/finalizers")}


def test_what_is_done_is_allowed_and_what_is_allowed_is_done(
    own_cluster: Cluster, namespace: Kubectl, installation: Installation, request: pytest.FixtureRequest
) -> None:
    kubectl = own_cluster.kubectl
    installation.present("--no-brain")
    try:
        _tell_stories(kubectl, namespace)
    finally:
        installation.absent()  # which ends the watches
    until_others_end(request.config, within=600)
    done, denied = _looked_back(shared(request.config))
    print("\n".join(" ".join(one) for one in sorted(done)))

    assert denied == []
    assert sorted(granted() - done - set(unused())) == [], "granted, not used, and on no list"
    assert sorted(set(unused()) - granted()) == [], "on the list, but not granted"


def _looked_back(kept: Path | None) -> tuple[set[Asked], list[str]]:
    """What operators did, and what they were denied for good: a server that has just started knows no roles for a
    moment and denies everything, and Helm takes the permissions of operators that still end. A test that plays a thief
    uses their account, too, with kubectl, which no operator does. Elsewhere the policy has good reason to deny."""
    done, denied = set(), {}
    for entry in entries(kept):
        if entry["user"]["username"] == OPERATOR and not entry.get("userAgent", "").startswith("kubectl/"):
            at_home = entry["objectRef"].get("namespace") == NAMESPACE
            what = asked(entry), at_home
            if forbidden(entry) or (at_home and limited(entry)):
                denied[what] = f"{entry['verb']} {entry['requestURI']}"
            else:
                done.add(what)
    return {one for one, _ in done}, [words for what, words in denied.items() if what not in done]


def _tell_stories(kubectl: Kubectl, namespace: Kubectl) -> None:
    """A job that trains; one that grows, shrinks, is suspended, loses its owners and goes; and a change of leaders."""
    namespace.apply(*training_job())
    idle = {"name": "etcd", "command": ["sh", "-c", "sleep 3600"]}
    etcd = {"image": SHELL_IMAGE, "template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [idle]}}}
    namespace.apply(_job("all", {"etcd": etcd, "ttl_seconds_after_finished": 1}))
    namespace.apply(_pytorch_job(), _easydl_job(), _plan(workers=2))
    until_phase(namespace, "running", "all", within=60)
    _disown(namespace, "pod/all-trainer-0", "service/all-trainer")
    namespace.patch("trainingjob/all", {"spec": {"trainer": {"max-instance": 1}}})
    eventually(lambda: _size(namespace) == 1, within=60, what="the job is smaller")
    old = leader(kubectl)
    kubectl.within(NAMESPACE)("delete", "pod", old, "--wait=false")
    eventually(lambda: leader(kubectl) not in ("", old), within=60, what="another operator leads")
    namespace.patch("trainingjob/all", {"spec": {"suspend": True}})
    eventually(lambda: not _pods(namespace), within=60, what="no trainer is left")
    namespace.patch("trainingjob/all", {"spec": {"suspend": False, "trainer": {"entrypoint": "true"}}})
    eventually(lambda: not namespace.find("trainingjobs", "all"), within=60, what="the job is over and gone")
    _end_the_others(namespace)
    until_phase(namespace, "succeeded")


def _end_the_others(namespace: Kubectl) -> None:
    """Both have a time to live after their end."""
    eventually(lambda: _runs(namespace, "easy-worker-1"), within=60, what="the plan is followed")
    namespace.apply(_plan(workers=1))
    eventually(lambda: not namespace.find("services", "easy-worker-1"), within=60, what="its place is given up")
    namespace("exec", "easy-trainer", "--", "touch", "/tmp/end")
    for kind, name in ((PYTORCH_JOB, "torch"), (EASYDL_JOB, "easy")):
        eventually(lambda at=(kind.crd_name, name): not namespace.find(*at), within=90, what=f"{name} is over and gone")  # type: ignore[misc]


def _job(name: str, spec: Manifest) -> Manifest:
    trainer = {"entrypoint": "sleep 3600", "min-instance": 1, "max-instance": 2}
    trainer["template"] = {"spec": {"terminationGracePeriodSeconds": 0}}
    body = {"image": SHELL_IMAGE, "fault_tolerant": True, "master": {}, "trainer": trainer, **spec}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": body}


def _template(script: str) -> Manifest:
    container = {"name": "main", "image": SHELL_IMAGE, "command": ["sh", "-c", script]}
    return {"template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}}


def _of(kind: JobKind, name: str, spec: Manifest) -> Manifest:
    resource = resource_of(kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


def _pytorch_job() -> Manifest:
    worker = {"replicas": 2, **_template("exit 0")}
    spec = {"minReplicas": 1, "maxReplicas": 2, "replicaSpecs": {"Worker": worker}, "ttlSecondsAfterFinished": 1}
    return _of(PYTORCH_JOB, "torch", spec)


def _easydl_job() -> Manifest:
    until_told = _template("until [ -e /tmp/end ]; do sleep 0.2; done")
    idle = _template("sleep 3600")
    spec = {"trainer": until_told, "worker": idle, "parameterServer": idle, "ttlSecondsAfterFinished": 1}
    return _of(EASYDL_JOB, "easy", spec)


def _plan(*, workers: int) -> Manifest:
    role = {"replicas": workers, "resource": {"cpu": "50m", "memory": 32}}
    return {
        "apiVersion": JOB_RESOURCES.api_version,
        "kind": JOB_RESOURCES.kind,
        "metadata": {"name": "plan"},
        "spec": {"selector": {"name": "easy"}, "worker": role, "parameter_server": {**role, "replicas": 1}},
    }


def _runs(namespace: Kubectl, pod: str) -> bool:
    found = namespace.find("pods", pod)
    return found is not None and found["status"]["phase"] == "Running"


def _disown(namespace: Kubectl, *objects: str) -> None:
    """Somebody's hand removes the owner; the operator takes its own back."""
    for name in objects:
        namespace.patch(name, {"metadata": {"ownerReferences": None}})
        kind, _, bare = name.partition("/")
        eventually(
            lambda kind=kind, bare=bare: namespace.get(kind, bare)["metadata"].get("ownerReferences"),  # type: ignore[misc]  # bound now
            within=30,
            what=f"{name} has its owner again",
        )


def _pods(namespace: Kubectl) -> list[Manifest]:
    found: list[Manifest] = namespace.get("pods", labels="edl.dev/job=all,edl.dev/role=trainer")["items"]
    return found


def _size(namespace: Kubectl) -> int:
    return sum("deletionTimestamp" not in each["metadata"] for each in _pods(namespace))
