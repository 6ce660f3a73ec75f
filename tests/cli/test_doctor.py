"""`edl doctor`: findings about a cluster and a job, each problem by itself and on a running cluster."""

import copy
import time
from collections.abc import Iterator
from typing import Any

import pytest

from edl.api.kubernetes import timestamp
from edl.doctor.cluster import ClusterObjects, examine_cluster, examine_leader
from edl.doctor.finding import Finding
from edl.doctor.job import examine_job
from edl.jobs.crds import crds
from edl.kube.rest.errors import ApiError
from edl.operator.resources import TRAINING_JOBS
from tests.cli.conftest import Cluster
from tests.cli.test_jobs import training_job

NOW = float(int(time.time()))  # whole seconds, as timestamps are
Data = dict[str, Any]


def registered(**changes: Any) -> dict[str, Data | None]:
    established = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
    return {crd["metadata"]["name"]: crd | established | changes for crd in crds()}


def node(name: str = "n1", *, ready: str = "True", **spec: Any) -> Data:
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def lease(holder: str = "op-1", ago: float = 1.0) -> Data:
    return {"spec": {"holderIdentity": holder, "renewTime": timestamp.text(NOW - ago), "leaseDurationSeconds": 15}}


def job(name: str = "j", phase: str = "running", age: float = 100.0, **conditions: Any) -> Data:
    made = timestamp.text(NOW - age)
    listed = [{"type": kind, "status": "True", "reason": "R", "message": words} for kind, words in conditions.items()]
    body = training_job(name)
    body["metadata"] |= {"namespace": "ml", "creationTimestamp": made, "generation": 1}
    return body | {"status": {"phase": phase, "conditions": listed, "observedGeneration": 1} if phase else {}}


def seen(**changes: Any) -> ClusterObjects:
    healthy: Data = {"version": "v1.36.3", "kinds": registered(), "lease": lease(), "nodes": [node()]}
    return ClusterObjects(**(healthy | changes))


def wrongs(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.level == "wrong"]


def test_a_healthy_cluster_is_well() -> None:
    found = examine_cluster(seen(jobs=[job(), job("k")]), NOW)
    assert {one.level for one in found} == {"ok"}
    assert [one.message for one in found if one.about == "jobs"] == ["2 running"]
    assert "op-1 leads" in [one.message for one in found]


def test_kinds_of_another_version_are_told() -> None:
    kinds = registered()
    (name, first), *_ = kinds.items()
    assert first is not None
    later = copy.deepcopy(first)
    schema = later["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["invented"] = {"type": "string"}
    (told,) = [one for one in examine_cluster(seen(kinds=kinds | {name: later}), NOW) if one.level == "note"]
    assert told.message.startswith(f"newer than this edl: {name}")
    assert "spec.invented" in told.message
    stored = copy.deepcopy(first)
    stored["status"]["storedVersions"] = ["v9"]
    (told,) = wrongs(examine_cluster(seen(kinds=kinds | {name: stored}), NOW))
    assert told.message == f"{name} may be stored as v9, which this edl does not know"


HOOK = {"webhooks": [{"clientConfig": {"caBundle": ""}}]}
DEPLOYED = {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}
WAITING = {"spec": {"resources": {}}, "status": {"phase": "Pending"}}  # a claim that no class serves


@pytest.mark.parametrize(
    ("changes", "about", "words"),
    [
        ({"version": "v1.31.2"}, "Kubernetes", "managedBy"),
        ({"kinds": {"trainingjobs.paddlepaddle.org": None}}, "kinds", "not registered: trainingjobs"),
        ({"kinds": registered(status={})}, "kinds", "not served"),
        ({"kinds": registered(spec={"versions": [{"name": "v1"}]})}, "kinds", "older than this edl"),
        ({"lease": None}, "operator", "none has ever led"),
        ({"lease": lease(holder="")}, "operator", "none leads"),
        ({"lease": lease(ago=90)}, "operator", "silent for 90 s"),
        ({"deployment": DEPLOYED}, "job service", "no EndpointSlice"),
        ({"brain": {"status": {}}, "claim": WAITING}, "Brain", "no default StorageClass"),
        ({"nodes": []}, "nodes", "none takes pods"),
        ({"nodes": [node(unschedulable=True)]}, "nodes", "none takes pods"),
        ({"jobs": [job(phase="", age=60)]}, "jobs", "no operator has looked at ml/j"),
        ({"jobs": [job(NameTaken="x")]}, "jobs", "names that others have: ml/j"),
        ({"jobs": [job(Refused="x")]}, "jobs", "refused by the API server: ml/j"),
        ({"jobs": [job(Stalled="x")]}, "jobs", "run without progress: ml/j"),
        ({"jobs": [job(), job("k", phase="failed")]}, "jobs", "failed: ml/k (no reason is known)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_keeps_a_cluster_from_working_is_wrong_and_has_a_fix(changes: Data, about: str, words: str) -> None:
    (found,) = wrongs(examine_cluster(seen(**changes), NOW))
    assert found.about == about
    assert words in found.message
    assert found.fix


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"webhook": HOOK}, "not trusted yet"),
        ({"deployment": DEPLOYED | {"status": {}}, "service": {}}, "0 of 2 replicas"),
        ({"deployment": DEPLOYED | {"spec": {"replicas": 1}}, "service": {}}, "a single replica"),
        ({"brain": {"status": {}}}, "trainers plan by local rules"),
        ({"brain": {}, "claim": WAITING | {"spec": {"storageClassName": "slow"}}}, "it is not ready"),
        ({"nodes": [node(), node("n2", ready="Unknown")]}, "not ready: n2"),
        ({"denied": ["nodes"], "nodes": []}, "may not read nodes"),
    ],
)
def test_what_is_worth_knowing_is_a_note(changes: Data, words: str) -> None:
    found = examine_cluster(seen(**changes), NOW)
    assert not wrongs(found)
    assert [one for one in found if one.level == "note" and words in one.message]


def test_a_job_that_was_just_made_is_given_time() -> None:
    assert not wrongs(examine_cluster(seen(jobs=[job(phase="", age=5)]), NOW))


@pytest.mark.case("acceptance-27")
def test_a_failed_job_is_wrong_and_told_with_its_cause() -> None:
    bodies = [job(f"f{number}", phase="Failed") for number in range(4)]
    for body in bodies:
        body["status"]["reason"] = "trainer 0\nexited with 3"
    (found,) = wrongs(examine_cluster(seen(jobs=bodies), NOW))
    assert found.message.startswith("failed: ml/f0 (trainer 0 exited with 3); ml/f1")
    assert found.message.endswith("; and 1 more")
    assert found.fix.startswith("edl doctor f0 -n ml;")


def test_a_lease_that_may_not_be_read_is_no_missing_operator() -> None:
    found = examine_cluster(seen(denied=["leases/edl-operator"], lease=None), NOW)
    assert not wrongs(found)


# One job.


@pytest.mark.case("acceptance-27")
@pytest.mark.parametrize("phase", ["", "running"])
@pytest.mark.parametrize("missing", [None, lease(holder=""), lease(ago=90)], ids=["never", "stopped", "silent"])
def test_a_job_without_an_operator_is_not_as_it_should_be(phase: str, missing: Data | None) -> None:
    found = examine_job(job(phase=phase, age=1.0), [], [], leader=examine_leader(missing, NOW))
    assert [(one.level, one.about) for one in found] == [("wrong", "operator")]


@pytest.mark.parametrize("leader", [None, examine_leader(lease(), NOW)], ids=["unknown", "leads"])
def test_an_operator_that_leads_or_may_not_be_known_is_no_problem_of_a_job(leader: Finding | None) -> None:
    assert [one.level for one in examine_job(job(), [], [], leader=leader)] == ["ok"]


def test_a_job_that_has_ended_needs_no_operator() -> None:
    assert not wrongs(examine_job(job(phase="succeeded"), [], [], leader=examine_leader(None, NOW)))


def pod(name: str = "j-trainer-0", **changes: Any) -> Data:
    labels = {"edl.dev/job": "j", "edl.dev/role": "trainer"}
    whole = {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": "n1"}, "status": {"phase": "Pending"}}
    return whole | changes


def waiting(reason: str, **last: Any) -> Data:
    state = {"state": {"waiting": {"reason": reason, "message": "words"}}, "lastState": last}
    return {"status": {"phase": "Pending", "containerStatuses": [state]}}


UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


@pytest.mark.parametrize(
    ("changes", "words", "fix"),
    [
        (waiting("ImagePullBackOff"), "ImagePullBackOff: words", "check its name"),
        (waiting("CreateContainerConfigError"), "CreateContainerConfigError", "Secret"),
        (waiting("CrashLoopBackOff"), "CrashLoopBackOff", "kubectl logs --previous j-trainer-0 -n ml"),
        (waiting("CrashLoopBackOff", terminated={"reason": "OOMKilled"}), "CrashLoopBackOff", "limits.memory"),
        (waiting("SomethingNew"), "SomethingNew", "kubectl describe pod j-trainer-0 -n ml"),
        ({"status": {"phase": "Pending", "conditions": [UNPLACED]}}, "no node takes it: 0/3 nodes", "free room"),
        ({"spec": {"nodeName": "gone"}}, "its node gone is not ready", "kubectl describe node gone"),
    ],
)
def test_a_pod_that_does_not_come_up(changes: Data, words: str, fix: str) -> None:
    nodes = [node(), node("gone", ready="Unknown")]
    (found,) = wrongs(examine_job(job(), [pod(**changes)], nodes, " -n ml"))
    assert found.about == "pod j-trainer-0"
    assert words in found.message
    assert fix in found.fix


def test_pods_that_come_up_or_have_ended_are_no_trouble() -> None:
    ended = pod("b", status={"phase": "Failed"}, spec={"nodeName": "gone"})
    found = examine_job(job(), [pod(**waiting("ContainerCreating")), ended], [node("gone", ready="False"), node()])
    assert [(one.level, one.message) for one in found] == [("ok", "running: as it should be")]


CONDITIONS = [
    ("Queued", "queue"),
    ("NameTaken", "names"),
    ("WaitsForState", "state"),
    ("Refused", "API server"),
    ("Stalled", "progress"),
]


@pytest.mark.case("acceptance-23")
@pytest.mark.parametrize(("kind", "about"), CONDITIONS)
def test_what_a_condition_says_is_told(kind: str, about: str) -> None:
    said: Data = {kind: "the very words"}
    (found,) = wrongs(examine_job(job(**said), [], []))
    assert found.about == about
    assert "the very words" in found.message


def test_every_error_of_the_spec_is_told() -> None:
    body = job()
    body["spec"]["trainer"] |= {"min-instance": 5, "max-instance": 2}
    (found,) = wrongs(examine_job(body, [], []))
    assert "max-instance" in found.message


def test_what_its_owner_may_have_forgotten_is_a_note() -> None:
    body = job()
    body["spec"] |= {"suspend": True, "pause": True}
    body["metadata"] |= {"annotations": {"edl.dev/pin": "true"}, "generation": 2}
    found = examine_job(body, [], [])
    words = " ".join(one.message for one in found if one.level == "note")
    assert all(word in words for word in ("suspended", "paused", "pinned", "last edit"))
    assert not wrongs(found)


@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        ({"pod": "p", "exit_code": 127}, "the program is not in it"),
        ({"pod": "p", "exitCode": 137}, "limits.memory"),
        ({"pod": "p", "reason": "OOMKilled", "exit_code": 137}, "make the batch smaller"),
        ({"pod": "p", "exit_code": 3}, "mend what its last lines say"),
    ],
)
def test_a_failed_job_has_its_cause_and_a_way_on(cause: Data, fix: str) -> None:
    body = job(phase="failed")
    body["status"] |= {"reason": "trainer p failed", "root_cause": cause | {"message": "one\ntwo"}}
    found = examine_job(body, [], [])
    (reported,) = wrongs(found)
    assert "trainer p failed" in reported.message
    assert fix in reported.fix
    assert [one.message for one in found if one.about == "last lines"] == ["two"]


# The command.


def test_on_a_server_where_nothing_runs(api: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert api.edl("doctor") == 1
    output = capsys.readouterr().out
    assert "WRONG operator" in output
    assert "none has ever led here" in output
    assert "-> edl install" in output
    assert "registered" in output, "the kinds are well"


@pytest.mark.case("acceptance-27")
def test_a_job_that_nobody_looks_after(api: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    api.do(api.client.create(TRAINING_JOBS, training_job("orphan"), namespace="default"))
    try:
        assert api.edl("doctor", "orphan") == 1
    finally:
        api.do(api.client.delete(TRAINING_JOBS, "orphan", namespace="default"))
    assert "none has ever led here" in capsys.readouterr().out


@pytest.fixture
def tidy(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    cluster.do(cluster.client.delete_collection(TRAINING_JOBS, namespace="default"))


def test_on_a_cluster_that_runs(tidy: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    big = training_job("big")
    big["spec"]["trainer"] |= {"min-instance": 50, "max-instance": 50}
    tidy.do(tidy.client.create(TRAINING_JOBS, big, namespace="default"))
    until(lambda: "Queued" in str(status_of(tidy, "big")))
    assert tidy.edl("doctor") == 0, capsys.readouterr().out
    output = capsys.readouterr().out
    assert "leads" in output
    assert "2 of 2 take pods" in output
    assert "1 creating" in output
    assert tidy.edl("doctor", "big") == 1
    output = capsys.readouterr().out
    assert "WRONG queue" in output
    assert "CPU" in output


def test_a_job_whose_command_is_not_there(tidy: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    body = training_job("lost", fault_tolerant=False)
    body["spec"]["trainer"] |= {"entrypoint": "no-such-command", "min-instance": 1, "max-instance": 1}
    tidy.do(tidy.client.create(TRAINING_JOBS, body, namespace="default"))
    until(
        lambda: (
            tidy.do(tidy.client.get(TRAINING_JOBS, "lost", namespace="default")).get("status", {}).get("phase")
            == "failed"
        )
    )
    assert tidy.edl("doctor", "lost") == 1
    output = capsys.readouterr().out
    assert "the program is not in it" in output
    assert "not found" in output


def test_a_job_that_is_not_there(api: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert api.edl("doctor", "nobody") == 1
    assert "nobody" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer(tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    from edl.cli.main import main
    from edl.embedded.kubeconfig import kubeconfig

    config = tmp_path / "kubeconfig"
    config.write_bytes(kubeconfig("http://127.0.0.1:9", b"", "t"))
    assert main(["doctor", "--kubeconfig", str(config)]) == 3
    assert "edl up" in capsys.readouterr().err


def status_of(cluster: Cluster, name: str) -> Data:
    found: Data = cluster.do(cluster.client.get(TRAINING_JOBS, name, namespace="default")).get("status") or {}
    return found


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def test_what_may_not_be_read_is_said(api: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    from edl.kube.rest.client import Client

    async def refuse(self: Client, resource: Any, **more: Any) -> Any:
        body = b'{"kind":"Status","message":"no","reason":"Forbidden","code":403}'
        raise ApiError.from_answer(403, {}, body, "GET")

    monkeypatch.setattr(Client, "list", refuse)
    assert api.edl("doctor") == 1
    assert "you may not read nodes" in capsys.readouterr().out


def test_this_machines_sandbox_is_told_of_beside_its_own_cluster(
    api: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from edl.cli.main import main

    monkeypatch.setenv("EDL_HOME", str(api.config.parent))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    main(["doctor"])
    assert "this machine" in capsys.readouterr().out
