"""kubectl's daily commands on an API server without controllers or nodes. Expectations hold on a real one too."""

import re

import pytest
import yaml

from tests.conformance.kubectl import Kubectl
from tests.conformance.samples import config, container, made, pod, template, workload

pytestmark = pytest.mark.may_skip("kubectl is neither on PATH nor in the tool cache")


DEPLOYMENT = workload("Deployment", replicas=2)


def test_apply_create_change_nothing(k: Kubectl) -> None:
    assert k("apply", "-f", "-", stdin=DEPLOYMENT).out == "deployment.apps/w created\n"
    assert k("apply", "-f", "-", stdin=DEPLOYMENT).out == "deployment.apps/w unchanged\n"
    changed = workload("Deployment", replicas=2, template=template(containers=[container(image="new:1")]))
    assert k("apply", "-f", "-", stdin=changed).out == "deployment.apps/w configured\n"
    assert k.get("deployment", "w")["spec"]["template"]["spec"]["containers"][0]["image"] == "new:1"


def test_apply_takes_out_what_was_taken_out(k: Kubectl) -> None:
    two = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    k("apply", "-f", "-", stdin=workload("Deployment", template=template(containers=[container(env=two)])))
    k("set", "env", "deployment/w", "C=3")
    k("apply", "-f", "-", stdin=workload("Deployment", template=template(containers=[container(env=two[:1])])))
    found = k.get("deployment", "w")["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [variable["name"] for variable in found] == ["A", "C"]


def test_apply_server_side_and_its_conflicts(k: Kubectl) -> None:
    assert k("apply", "--server-side", "-f", "-", stdin=config(a="1")).out == "configmap/m serverside-applied\n"
    refused = k.run("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=config(a="2"))
    assert refused.code == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refused.err
    k("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=config(a="2"))
    assert k.get("configmap", "m")["data"] == {"a": "2"}


def test_server_side_apply_takes_over_from_client_side(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=config(a="1", b="1"))
    k("apply", "--server-side", "-f", "-", stdin=config(a="2"))
    assert k.get("configmap", "m")["data"] == {"a": "2"}


def test_apply_refuses_unknown_fields(k: Kubectl) -> None:
    refused = k.run("apply", "-f", "-", stdin={**config(), "nonsense": 1})
    assert refused.code == 1
    assert 'strict decoding error: unknown field "nonsense"' in refused.err
    assert k("apply", "--validate=false", "-f", "-", stdin={**config(), "nonsense": 1}).out == "configmap/m created\n"


def test_apply_prints_the_reason_of_a_refusal(k: Kubectl) -> None:
    refused = k.run("apply", "-f", "-", stdin=workload("Deployment", replicas=-1))
    assert refused.code == 1
    assert (
        'The Deployment "w" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
        in refused.err
    )


def test_diff(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=config(a="1"))
    assert k("diff", "-f", "-", stdin=config(a="1")).out == ""
    changed = k.run("diff", "-f", "-", stdin=config(a="2"))
    assert changed.code == 1
    assert '-  a: "1"' in changed.out
    assert '+  a: "2"' in changed.out


def test_create_kinds(k: Kubectl) -> None:
    """Typed clients: these arrive as protobuf."""
    assert k("create", "configmap", "c", "--from-literal=a=b").out == "configmap/c created\n"
    assert k("create", "secret", "generic", "s", "--from-literal=a=b").out == "secret/s created\n"
    assert k("create", "deployment", "d", "--image=i", "--replicas=2").out == "deployment.apps/d created\n"
    assert k("create", "job", "j", "--image=i", "--", "sleep", "1").out == "job.batch/j created\n"
    assert k("create", "quota", "q", "--hard=pods=3").out == "resourcequota/q created\n"
    assert k("create", "role", "r", "--verb=get", "--resource=pods").out == "role.rbac.authorization.k8s.io/r created\n"
    k("create", "service", "clusterip", "v", "--tcp=80:81")
    assert k.get("secret", "s")["data"] == {"a": "Yg=="}
    assert k.get("job", "j")["spec"]["template"]["spec"]["containers"][0]["command"] == ["sleep", "1"]
    assert k.get("service", "v")["spec"]["ports"][0]["targetPort"] == 81
    assert k.get("deployment", "d")["spec"]["replicas"] == 2


def test_create_what_exists(k: Kubectl) -> None:
    k("create", "configmap", "c")
    refused = k.run("create", "configmap", "c")
    assert (refused.code, refused.err.strip()) == (
        1,
        'error: failed to create configmap: configmaps "c" already exists',
    )


def test_get_tables(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    header, row = k("get", "deployments").rows
    assert header == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row[:4] == ["w", "0/2", "0", "0"]
    header, row = k("get", "deploy", "-o", "wide").rows
    assert header[-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert row[-3:] == ["c", "busybox:1", "app=a"]
    assert k("get", "deploy", "--no-headers", "-o", "name").out == "deployment.apps/w\n"


def test_get_nothing(k: Kubectl) -> None:
    assert k("get", "pods").err.strip() == f"No resources found in {k.namespace} namespace."
    missing = k.run("get", "pod", "nobody")
    assert (missing.code, missing.err.strip()) == (1, 'Error from server (NotFound): pods "nobody" not found')
    unknown = k.run("get", "nonsense")
    assert (unknown.code, unknown.err.strip()) == (1, 'error: the server doesn\'t have a resource type "nonsense"')


def test_get_formats(k: Kubectl) -> None:
    k("create", "configmap", "c", "--from-literal=a=b")
    assert k("get", "cm", "c", "-o", "jsonpath={.data.a}").out == "b"
    assert k("get", "cm", "c", "-o", "custom-columns=N:.metadata.name,A:.data.a").rows == [["N", "A"], ["c", "b"]]
    assert k("get", "cm", "c", "-o", "go-template={{.data.a}}").out == "b"
    shown = yaml.safe_load(k("get", "cm", "c", "-o", "yaml").out)
    assert (shown["kind"], shown["apiVersion"], shown["data"]) == ("ConfigMap", "v1", {"a": "b"})
    assert "managedFields" not in shown["metadata"]
    assert k.get("cm", "c", "--show-managed-fields")["metadata"]["managedFields"][0]["manager"] == "kubectl-create"


def test_get_selectors(k: Kubectl) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {})):
        k("apply", "-f", "-", stdin=config(name, labels))
    assert k("get", "cm", "-l", "x", "-o", "name").out == "configmap/a\nconfigmap/b\n"
    assert k("get", "cm", "-l", "x in (2)", "-o", "name").out == "configmap/b\n"
    assert k("get", "cm", "--field-selector", "metadata.name=c", "-o", "name").out == "configmap/c\n"
    assert "field label not supported" in k.run("get", "pods", "--field-selector", "spec.x=y").err
    assert k("get", "cm", "-l", "x", "--show-labels").rows[1][-1] == "x=1"
    assert k("get", "cm", "-l", "x", "-L", "x").rows[2][-1] == "2"
    assert k("get", "cm", "-l", "x", "--sort-by=.metadata.labels.x", "-o", "name").out == "configmap/a\nconfigmap/b\n"


def test_get_watch(k: Kubectl) -> None:
    k("create", "configmap", "a")
    watching = k.start("get", "cm", "-w", "-o", "name", "--field-selector=metadata.name!=kube-root-ca.crt")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "configmap/a\n"
        k("create", "configmap", "b")
        assert watching.stdout.readline() == "configmap/b\n"
        k("label", "cm", "a", "x=y")
        assert watching.stdout.readline() == "configmap/a\n"
    finally:
        watching.kill()
        watching.communicate()


def test_get_watch_of_a_table(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=workload("ReplicaSet", replicas=1))
    watching = k.start("get", "rs", "-w")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split() == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
        assert watching.stdout.readline().split()[:4] == ["w", "1", "0", "0"]
        k("scale", "rs", "w", "--replicas=3")
        assert watching.stdout.readline().split()[:4] == ["w", "3", "0", "0"]
    finally:
        watching.kill()
        watching.communicate()


def test_get_all_and_all_namespaces(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=workload("ReplicaSet", replicas=0))
    k("create", "service", "clusterip", "v", "--tcp=80")
    assert {line.split()[0] for line in k("get", "all", "--no-headers").lines if line} == {
        "service/v",
        "replicaset.apps/w",
    }
    assert [k.namespace, "w"] in [row[:2] for row in k("get", "rs", "-A").rows]


def test_describe_pod(k: Kubectl) -> None:
    full = pod(
        "p",
        labels={"a": "b"},
        containers=[
            container(command=["sleep", "1"], env=[{"name": "A", "value": "1"}], resources={"limits": {"cpu": "1"}})
        ],
    )
    k("apply", "-f", "-", stdin=full)
    about = {"kind": "Pod", "name": "p", "namespace": k.namespace, "uid": k.get("pod", "p")["metadata"]["uid"]}
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}
    k(
        "create",
        "-f",
        "-",
        stdin=made(
            "Event",
            "e",
            involvedObject=about,
            reason="Because",
            message="it did",
            type="Normal",
            source={"component": "me"},
            **times,
        ),
    )
    text = k("describe", "pod", "p").out
    for line in (
        r"Name:\s+p\n",
        r"Labels:\s+a=b\n",
        r"Status:\s+Pending\n",
        r"Image:\s+busybox:1\n",
        r"A:\s+1\n",
        r"cpu:\s+1\n",
        r"QoS Class:\s+Burstable\n",
        r"Normal\s+Because\s+\S+\s+me\s+it did",
    ):
        assert re.search(line, text), f"{line} is not in\n{text}"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "deployment",
            [r"Replicas:\s+2 desired \| 0 updated", r"StrategyType:\s+RollingUpdate", r"Image:\s+busybox:1"],
        ),
        ("configmap", [r"Data\n====", r"a:\n----\n1"]),
        ("service", [r"Type:\s+ClusterIP", r"TargetPort:\s+80/TCP", r"Endpoints:"]),
        ("quota", [r"Resource\s+Used\s+Hard"]),
        ("namespace", [r"Status:\s+Active"]),
    ],
)
def test_describe(k: Kubectl, kind: str, expected: list[str]) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    k("apply", "-f", "-", stdin=config("w", a="1"))
    k("create", "service", "clusterip", "w", "--tcp=80")
    k("create", "quota", "w", "--hard=pods=3")
    text = k("describe", kind, k.namespace if kind == "namespace" else "w").out
    for line in expected:
        assert re.search(line, text), f"{line} is not in\n{text}"
