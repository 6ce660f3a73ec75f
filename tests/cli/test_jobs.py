"""The job commands as users meet them, against an API server on which nothing happens by itself."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.api.kubernetes import timestamp
from edl.cli.connect.jobs import resource_of
from edl.cli.connect.pods import job_pods
from edl.cli.main import main
from edl.jobs.registry import PYTORCH_JOB, TRAINING_JOB
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from tests.cli.conftest import Cluster

TRAINING, PYTORCH = resource_of(TRAINING_JOB), resource_of(PYTORCH_JOB)
PODS, EVENTS = Resource("", "v1", "pods", "Pod"), Resource("", "v1", "events", "Event")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
BATCH_JOBS = Resource("batch", "v1", "jobs", "Job")
NAMESPACE = "default"

Data = dict[str, Any]
Output = pytest.CaptureFixture[str]


def training_job(name: str, **spec: Any) -> Data:
    trainer = {"entrypoint": "true", "min-instance": 2, "max-instance": 6, "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"trainer": trainer, **spec},
    }


def pytorch_job(name: str) -> Data:
    template = {"spec": {"containers": [{"name": "main", "image": "any"}]}}
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"minReplicas": 1, "maxReplicas": 2, "replicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
    }


def pod(name: str, job: str, role: str, index: int, **status: Any) -> Data:
    labels = {
        "edl.dev/job": job,
        "edl.dev/kind": "trainingjobs.paddlepaddle.org",
        "edl.dev/role": role,
        "edl.dev/index": str(index),
    }
    spec = {"nodeName": "n1", "containers": [{"name": role, "image": "any", "resources": {"requests": {"cpu": "1"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec, **status}


def owned(body: Data, owner: Data) -> Data:
    """With this object as its controller."""
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": uid, "controller": True}
    return body | {"metadata": body["metadata"] | {"ownerReferences": [reference]}}


@pytest.fixture
def tidy(api: Cluster) -> Iterator[Cluster]:
    yield api
    for resource in (TRAINING, PYTORCH, PODS, EVENTS):
        api.do(api.client.delete_collection(resource, namespace=NAMESPACE, grace=0))


def make(api: Cluster, resource: Resource, body: Data, status: Data | None = None) -> Data:
    made = api.do(api.client.create(resource, body, namespace=NAMESPACE if resource.namespaced else None))
    if status is not None:
        change = {"status": status}
        where = {"namespace": NAMESPACE} if resource.namespaced else {}
        made = api.do(
            api.client.patch(resource, made["metadata"]["name"], change, subresource="status", **where)  # type: ignore[arg-type]  # keywords
        )
    return made


def job(api: Cluster, name: str) -> Data:
    return api.do(api.client.get(TRAINING, name, namespace=NAMESPACE))


SCALED = {
    "phase": "scaling",
    "scale_status": {
        "current": 2,
        "target": 4,
        "reason": "+2: 8 of 8 CPU were free",
        "history": [{"from": 2, "to": 4, "reason": "+2: 8 of 8 CPU were free", "time": "2026-01-01T00:00:00Z"}],
    },
    "replica_statuses": [{"role": "trainer", "desired": 4, "active": 2, "pending": 2}],
}


def test_submit_then_get(tidy: Cluster, tmp_path: Path, capsys: Output) -> None:
    assert tidy.edl("get") == 0
    assert "no jobs in namespace default" in capsys.readouterr().out
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([training_job("a"), pytorch_job("b")]))
    assert tidy.edl("submit", str(file)) == 0
    assert "trainingjob/a submitted to namespace default" in capsys.readouterr().out
    assert tidy.edl("get") == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["JOB", "PHASE", "NOW", "TARGET", "MIN-MAX", "PROGRESS", "ETA", "AGE", "REASON"]
    assert first.split()[:5] == ["trainingjob/a", "new", "-", "-", "2-6"]
    assert second.split()[0] == "elasticjob/b"
    assert tidy.edl("get", "a", "-o", "json") == 0
    assert [one["metadata"]["name"] for one in json.loads(capsys.readouterr().out)] == ["a"]
    assert tidy.edl("get", "-A") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["default", "trainingjob/a"]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("-o", "name"), ["elasticjob/b", "trainingjob/a"]),
        (("-o", "name", "-l", "team=x"), ["trainingjob/a"]),
        (("-o", "name", "-l", "team!=x"), ["elasticjob/b"]),
    ],
)
def test_get_by_labels_as_names(
    tidy: Cluster, tmp_path: Path, capsys: Output, words: tuple[str, ...], shown: list[str]
) -> None:
    labelled = training_job("a")
    labelled["metadata"]["labels"] = {"team": "x"}
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([labelled, pytorch_job("b")]))
    assert tidy.edl("submit", "-f", str(file)) == 0
    capsys.readouterr()
    assert tidy.edl("get", *words) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == shown


def test_forms_of_get(tidy: Cluster, capsys: Output) -> None:
    progress = {"shown": "42%", "eta": "5m", "loss": 0.31, "throughput": 1234.5}
    make(tidy, TRAINING, training_job("a"), {**SCALED, "progress": progress})
    assert tidy.edl("get", "-o", "json") == 0
    assert "managedFields" not in capsys.readouterr().out
    assert tidy.edl("get", "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["name"] == "a"
    assert tidy.edl("get", "--no-headers") == 0
    (row,) = capsys.readouterr().out.splitlines()
    assert row.split()[:7] == ["trainingjob/a", "scaling", "2", "4", "2-6", "42%", "5m"]
    assert tidy.edl("get", "-o", "wide") == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[8:10] == ["LOSS", "SAMPLES/S"]
    assert row.split()[8:10] == ["0.31", "1234"]


def test_submit_wants_a_file(tidy: Cluster, capsys: Output) -> None:
    assert tidy.edl("submit") == 1
    assert "what to submit?" in capsys.readouterr().err


def test_get_shows_sizes_and_why(tidy: Cluster, capsys: Output) -> None:
    make(tidy, TRAINING, training_job("a"), SCALED)
    assert tidy.edl("get", "tj/a") == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[1:5] == ["scaling", "2", "4", "2-6"]
    assert row.endswith("+2: 8 of 8 CPU were free")


def test_a_job_that_exists_is_not_overwritten(tidy: Cluster, tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(training_job("a")))
    assert tidy.edl("submit", str(file)) == 0
    assert tidy.edl("submit", str(file)) == 1
    assert "trainingjob/a exists in namespace default; `edl delete a -n default` first" in capsys.readouterr().err


def test_nothing_is_submitted_unless_all_are_valid(tidy: Cluster, tmp_path: Path, capsys: Output) -> None:
    bad = training_job("bad")
    bad["spec"]["trainer"]["min-instance"] = 9
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([training_job("good"), bad]))
    assert tidy.edl("submit", str(file)) == 1
    said = capsys.readouterr().err
    assert "min-instance" in said
    assert "nothing was submitted" in said
    assert tidy.edl("get") == 0
    assert "no jobs" in capsys.readouterr().out


def test_a_namespace_that_is_not_there_is_named(tidy: Cluster, tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(training_job("a")))
    assert tidy.edl("submit", str(file), "-n", "nowhere") == 1
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("absent", "there is no job absent in namespace default"),
        ("pod/x", "'pod' is no kind of job"),
        ("twin", "several kinds have a job twin; say which: tj/twin or "),
    ],
)
def test_a_job_that_is_not_clear_is_not_guessed(tidy: Cluster, wanted: str, words: str, capsys: Output) -> None:
    make(tidy, TRAINING, training_job("twin"))
    make(tidy, PYTORCH, pytorch_job("twin"))
    assert tidy.edl("describe", wanted) == 1
    assert words in capsys.readouterr().err
    assert tidy.edl("describe", "trainingjob/twin") == 0


def test_describe_says_what_why_and_what_next(tidy: Cluster, capsys: Output) -> None:
    owner = make(tidy, TRAINING, training_job("a"), SCALED)
    waiting = {"phase": "Pending", "containerStatuses": [_container(waiting={"reason": "CrashLoopBackOff"})]}
    make(tidy, PODS, owned(pod("a-trainer-10", "a", "trainer", 10), owner), {"phase": "Running"})
    make(tidy, PODS, owned(pod("a-trainer-2", "a", "trainer", 2), owner), waiting)
    make(tidy, EVENTS, event("a-trainer-2", "BackOff"))
    make(tidy, EVENTS, event("another", "Started"))
    assert tidy.edl("describe", "a") == 0
    said = capsys.readouterr().out
    assert "Size:     2 now, 4 granted, 2..6 allowed" in said
    assert "Why:      +2: 8 of 8 CPU were free" in said
    assert said.index("a-trainer-2 ") < said.index("a-trainer-10 "), "by number, not by letter"
    assert "CrashLoopBackOff" in said
    assert "pod/a-trainer-2" in said
    assert "another" not in said
    assert "edl logs -f a" in said


def test_pods_are_a_jobs_own_by_their_controller_not_by_their_labels(tidy: Cluster) -> None:
    """Its own, those of a workload of its own, and not those of a workload that somebody else gave its labels."""
    mine, other = (make(tidy, TRAINING, training_job(name)) for name in ("a", "b"))
    labels = {"edl.dev/job": "a", "edl.dev/kind": TRAINING_JOB.crd_name}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "any"}]}}
    for name, owner in (("its-workload", mine), ("anothers-workload", other)):
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}}
        workload = make(tidy, BATCH_JOBS, owned(body | {"spec": {"template": template}}, owner))
        make(tidy, PODS, owned(pod(f"{name}-0", "a", "trainer", 0), workload))
    make(tidy, PODS, owned(pod("its-own-0", "a", "master", 0), mine))
    make(tidy, PODS, owned(pod("anothers-own-0", "a", "master", 0), other))
    make(tidy, PODS, pod("nobodys-0", "a", "trainer", 0))
    try:
        found = tidy.do(job_pods(tidy.client, TRAINING_JOB, NAMESPACE, "a"))
        assert [one["metadata"]["name"] for one in found] == ["its-own-0", "its-workload-0"]
    finally:
        tidy.do(tidy.client.delete_collection(BATCH_JOBS, namespace=NAMESPACE))


def _container(**state: Any) -> Data:
    return {
        "name": "trainer",
        "image": "any",
        "imageID": "",
        "ready": False,
        "restartCount": 1,
        "state": state,
        "lastState": {},
    }


def event(about: str, reason: str) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.{reason.lower()}"},
        "involvedObject": {"kind": "Pod", "name": about, "namespace": NAMESPACE},
        "reason": reason,
        "message": "two\nlines",
        "type": "Warning",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        ({}, "the operator has not seen this job yet"),
        ({"phase": "failed"}, "edl logs a --tail 50"),
        ({"phase": "succeeded"}, "edl delete a"),
        (
            {
                "phase": "creating",
                "conditions": [
                    {
                        "type": "Queued",
                        "status": "True",
                        "reason": "Waiting",
                        "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            },
            "it waits for room",
        ),
    ],
    ids=["new", "failed", "succeeded", "queued"],
)
def test_the_advice_fits_the_phase(tidy: Cluster, status: Data, advice: str, capsys: Output) -> None:
    make(tidy, TRAINING, training_job("a"), status or None)
    assert tidy.edl("describe", "a") == 0
    assert advice in capsys.readouterr().out.rpartition("Next\n")[2]


def test_a_failure_is_described_by_its_root_cause(tidy: Cluster, capsys: Output) -> None:
    cause = {"pod": "a-trainer-0", "exit_code": 3, "reason": "Error", "message": "Traceback\nKeyError: 'x'"}
    make(tidy, TRAINING, training_job("a"), {"phase": "failed", "root_cause": cause})
    assert tidy.edl("describe", "a") == 0
    said = capsys.readouterr().out
    assert "Cause:    pod a-trainer-0: Error, exit code 3" in said
    assert "| KeyError: 'x'" in said


def test_events_of_one_job_or_of_all(tidy: Cluster, capsys: Output) -> None:
    assert tidy.edl("events") == 0
    assert "no events" in capsys.readouterr().out
    make(tidy, TRAINING, training_job("a"))
    make(tidy, EVENTS, event("a-trainer-2", "BackOff"))
    make(tidy, EVENTS, event("ab", "Started"))
    assert tidy.edl("events", "a") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].split()[1:4] == ["Warning", "pod/a-trainer-2", "BackOff"]
    assert lines[1].endswith("two lines")
    assert tidy.edl("events") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.case("acceptance-10")
def test_scale_asks_for_a_size_within_the_range(tidy: Cluster, capsys: Output) -> None:
    make(tidy, TRAINING, training_job("a"))
    assert tidy.edl("scale", "a", "9") == 1
    assert "size 9 is outside 2..6" in capsys.readouterr().err
    assert tidy.edl("scale", "a", "3") == 0
    assert job(tidy, "a")["spec"]["trainer"]["replicas"] == 3
    [(name, request)] = job(tidy, "a")["metadata"]["annotations"].items()
    assert (name, request.partition("@")[0]) == ("edl.dev/scale-request", "3")
    assert "the operator has not taken it up yet" in capsys.readouterr().out, "there is none here"
    assert tidy.edl("scale", "a", "4", "--pin") == 0
    assert job(tidy, "a")["spec"]["trainer"]["replicas"] == 4
    assert job(tidy, "a")["metadata"]["annotations"]["edl.dev/pin"] == "true"


@pytest.mark.case("acceptance-10")
def test_resume_ends_a_hold_and_describe_tells_of_it(tidy: Cluster, capsys: Output) -> None:
    make(tidy, TRAINING, training_job("a"))
    until = timestamp.text(time.time() + 250)
    hold = {"phase": "running", "scale_status": {"target": 3, "hold": {"size": 3, "until": until}}}
    tidy.do(tidy.client.patch(TRAINING, "a", {"status": hold}, namespace="default", subresource="status"))
    assert tidy.edl("describe", "a") == 0
    told = capsys.readouterr().out
    assert "Held:     3 is held for 4 min" in told
    assert "`edl resume a` ends that" in told
    assert "`kubectl scale` to the number in the spec is no write" in told
    assert tidy.edl("resume", "a") == 0
    assert job(tidy, "a")["metadata"]["annotations"]["edl.dev/scale-request"].startswith("none@")


@pytest.mark.parametrize(("kind", "make_job"), [(TRAINING, training_job), (PYTORCH, pytorch_job)])
def test_a_size_is_asked_for_and_pinned_in_one_call(
    kind: Resource, make_job: Callable[[str], Data], tidy: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan between two calls would pin the size of before, or grow a job that is to be shrunk again."""
    make(tidy, kind, make_job("a"))
    asked: list[Data] = []
    patch = Client.patch

    async def recorded(*words: Any, **more: Any) -> Any:
        asked.append(words[3])
        return await patch(*words, **more)

    monkeypatch.setattr(Client, "patch", recorded)
    assert tidy.edl("scale", "a", "2", "--pin") == 0
    [change] = asked
    assert change["metadata"] == {"annotations": {"edl.dev/pin": "true"}}
    lead = change["spec"].get("trainer") or change["spec"]["replicaSpecs"]["Worker"]
    assert lead == {"replicas": 2}


def test_pause_and_resume(tidy: Cluster, capsys: Output) -> None:
    make(tidy, TRAINING, training_job("a", pause=True))
    assert tidy.edl("pause", "a") == 0
    assert job(tidy, "a")["metadata"]["annotations"] == {"edl.dev/pause": "true"}
    capsys.readouterr()
    assert tidy.edl("resume", "a") == 0
    assert not job(tidy, "a")["metadata"].get("annotations")
    assert "spec.pause is true in its manifest and still holds it" in capsys.readouterr().out


def test_delete_deletes_what_was_named(tidy: Cluster, capsys: Output) -> None:
    for name in ("a", "b", "c"):
        make(tidy, TRAINING, training_job(name))
    assert tidy.edl("delete", "a", "tj/c") == 0
    assert tidy.edl("get") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-1:]] == ["trainingjob/b"]


def test_logs_of_a_job_without_pods_say_so(tidy: Cluster, capsys: Output) -> None:
    make(tidy, TRAINING, training_job("a"))
    assert tidy.edl("logs", "a", "--role", "master") == 1
    assert "trainingjob/a has no pod of role master now" in capsys.readouterr().err


@pytest.mark.case("acceptance-27")
def test_top_shows_nodes_jobs_and_the_rest(tidy: Cluster, capsys: Output) -> None:
    assert tidy.edl("top") == 0
    assert "the cluster has no nodes" in capsys.readouterr().out
    ready = {"type": "Ready", "status": "True", "reason": "", "message": ""}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    for name in ("n1", "n2"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        make(tidy, NODES, node, {"capacity": amounts, "allocatable": amounts, "conditions": [ready]})
    tidy.do(tidy.client.patch(NODES, "n2", {"spec": {"unschedulable": True}}))
    made = make(tidy, TRAINING, training_job("a"), SCALED)
    make(tidy, PODS, owned(pod("a-trainer-0", "a", "trainer", 0), made), {"phase": "Running"})
    make(tidy, PODS, pod("other", "", "web", 0), {"phase": "Running"})
    assert tidy.edl("top") == 0
    cluster, nodes, jobs = (part.splitlines() for part in capsys.readouterr().out.strip().split("\n\n"))
    assert cluster[1].split()[:3] == ["cpu", "2", "4"]
    assert cluster[1].endswith("50%")
    assert nodes[1].split()[:4] == ["n1", "2", "of", "4"]
    assert nodes[1].endswith("ready")
    assert not nodes[2].endswith("ready"), "it takes nothing new"
    assert jobs[1].split()[:2] == ["default/a", "active"]
    assert jobs[1].split()[4] == "1"
    assert jobs[2].split()[-2] == "1"
    ended = {**SCALED, "phase": "failed", "reason": "trainer 0 exited with 3"}
    make(tidy, TRAINING, training_job("b"), ended)
    make(tidy, TRAINING, training_job("c"), {**SCALED, "phase": "succeeded", "reason": "all is trained"})
    assert tidy.edl("top") == 0
    jobs = capsys.readouterr().out.strip().split("\n\n")[2].splitlines()
    (failed,) = (line for line in jobs if line.startswith("default/b"))
    assert failed.split()[1] == "failed"
    assert failed.endswith("trainer 0 exited with 3")
    (done,) = (line for line in jobs if line.startswith("default/c"))
    assert done.split()[1] == "succeeded"


def test_a_cluster_that_is_not_there_is_code_3_and_a_hint(tmp_path: Path, capsys: Output) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    )
    assert main(["get", "--kubeconfig", str(config)]) == 3
    assert "`edl up` starts one on this machine" in capsys.readouterr().err
