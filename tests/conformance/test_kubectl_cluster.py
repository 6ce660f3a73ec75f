"""kubectl on a whole cluster, with controllers and nodes: on `edl up` by default, on a real Kubernetes in the kube
tier."""

import itertools
import os
import pty
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kubectl import Kubectl, program
from tests.conformance.samples import Object, made
from tests.tier_kube.cluster.kubectl import Kubectl as KubeTierKubectl
from tests.tier_kube.cluster.kubectl import existing_kubeconfig
from tests.tier_kube.manifests import SHELL_IMAGE

pytestmark = [
    pytest.mark.may_skip(
        "kubectl is neither on PATH nor in the tool cache, or the image of the kube tier lacks a tool"
    ),
    pytest.mark.timeout(240),
]
_numbers = itertools.count(1)
PATIENCE = 60.0


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("up")
    env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"EDL_HOME": str(home)}
    edl = [sys.executable, "-m", "edl.cli.main"]
    up = [*edl, "up", "--nodes", "2", "--cpu", "8", "--memory", "8Gi", "--gpu", "4", "--no-operator"]
    done = subprocess.run(up, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    yield str(home / "kubeconfig")
    down = subprocess.run([*edl, "down"], env=env, capture_output=True, text=True, timeout=90, check=False)
    assert down.returncode == 0, down.stderr


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> str:
    cluster: KubeTierKubectl = request.getfixturevalue("cluster")
    return str(cluster.kubeconfig)


REAL = pytest.param("real", marks=[pytest.mark.kube, pytest.mark.xdist_group("cluster")])


@pytest.fixture(scope="module", params=["embedded", REAL])
def outside(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    binary = program()
    if binary is None:
        pytest.skip("no kubectl")
    return Kubectl(binary, request.getfixturevalue(request.param), tmp_path_factory.mktemp("home"))


@pytest.fixture
def k(outside: Kubectl) -> Iterator[Kubectl]:
    name = f"k{os.getpid()}-{next(_numbers)}"
    outside("create", "namespace", name)
    inside = outside.within(name)
    reading = KubeTierKubectl(Path(inside.kubeconfig), inside.binary, name)
    eventually(lambda: reading.find("serviceaccounts", "default"))
    yield inside
    # To remove a namespace a cluster asks for every kind there is; one that goes as a whole may keep an empty one.
    if existing_kubeconfig():
        outside("delete", "namespace", name, "--wait=false")
    else:
        inside("delete", "all", "--all", "--wait=false")


def eventually(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)
    return found


def pod(name: str, script: str, **spec: Any) -> Object:
    container = {
        "name": "main",
        "image": SHELL_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
    }
    body = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **spec}
    return made("Pod", name, spec=body)


SLEEP = "trap 'kill $!; exit 0' TERM; sleep 3600 & wait"


def ready(k: Kubectl, *pods: Object) -> None:
    for one in pods:
        k("apply", "-f", "-", stdin=one)
    for one in pods:
        k("wait", "pod", one["metadata"]["name"], "--for=condition=Ready", "--timeout=60s", timeout=90)


def finished(k: Kubectl, *pods: Object, phase: str = "Succeeded") -> None:
    for one in pods:
        k("apply", "-f", "-", stdin=one)
    for one in pods:
        name = one["metadata"]["name"]
        k("wait", "pod", name, f"--for=jsonpath={{.status.phase}}={phase}", "--timeout=60s", timeout=90)


def deployment(name: str = "web", replicas: int = 2, word: str = "one") -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("x", SLEEP, restartPolicy="Always")["spec"]}
    template["spec"]["containers"][0]["env"] = [{"name": "WORD", "value": word}]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return made("Deployment", name, "apps/v1", spec=spec)


# -- logs
# ---------------------------------------------------------------------------------------------------------------


def test_logs(k: Kubectl) -> None:
    finished(k, pod("p", "for n in 1 2 3 4 5; do echo line $n; done"), pod("e", "echo wrong >&2"))
    lines = k("logs", "p").lines
    assert lines == ["line 1", "line 2", "line 3", "line 4", "line 5"]
    assert k("logs", "e").out == "wrong\n"
    assert len(k("logs", "p", "--tail=2").lines) == 2
    assert k("logs", "p", "--since=1h").lines == lines
    assert re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d) line 1$", k("logs", "p", "--timestamps").lines[0]
    )
    assert k("logs", "p", "--limit-bytes=6").out == "line 1"


def test_logs_of_one_container_of_several(k: Kubectl) -> None:
    containers = [
        {"name": name, "image": SHELL_IMAGE, "command": ["sh", "-c", f"echo from {name}"]} for name in ("a", "b")
    ]
    finished(k, pod("p", "", containers=containers))
    assert k("logs", "p", "-c", "b").out == "from b\n"
    assert k("logs", "p", "--all-containers", "--prefix").out.count("from ") == 2
    assert "container nobody is not valid for pod p" in k.run("logs", "p", "-c", "nobody").err


def test_logs_follow_to_the_end(k: Kubectl) -> None:
    ready(k, pod("p", "n=0; while [ $n -lt 20 ]; do n=$((n+1)); echo tick $n; sleep 0.1; done"))
    following = k.start("logs", "-f", "p")
    out, _ = following.communicate(timeout=60)
    assert out.splitlines()[-1] == "tick 20"
    assert following.returncode == 0


def test_logs_of_the_previous_run(k: Kubectl) -> None:
    script = "if [ -e /data/again ]; then echo second; sleep 100; else touch /data/again; echo first; exit 3; fi"
    mount = [{"name": "d", "mountPath": "/data"}]
    body = pod("p", script, restartPolicy="Always", volumes=[{"name": "d", "emptyDir": {}}])
    body["spec"]["containers"][0]["volumeMounts"] = mount
    k("apply", "-f", "-", stdin=body)
    eventually(lambda: k.run("logs", "p").out == "second\n")
    assert k("logs", "p", "--previous").out == "first\n"
    assert k("get", "pod", "p").rows[1][:3] == ["p", "1/1", "Running"]
    assert k("get", "pod", "p").rows[1][3] == "1"


# -- exec, cp, port-forward
# ---------------------------------------------------------------------------------------------


def test_exec(k: Kubectl) -> None:
    ready(k, pod("p", SLEEP))
    assert k("exec", "p", "--", "echo", "hello world").out == "hello world\n"
    failed = k.run("exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (failed.code, failed.out) == (7, "out\n")
    assert "err" in failed.err
    assert k("exec", "-i", "p", "--", "cat", stdin="through\nand through\n").out == "through\nand through\n"
    assert k.run("exec", "p", "--", "no-such-program").code in (1, 126, 127)
    assert k.run("exec", "nobody", "--", "ls").code == 1


def test_exec_with_a_terminal(k: Kubectl) -> None:
    ready(k, pod("p", SLEEP))
    ours, theirs = pty.openpty()
    command = [*k.base, "exec", "-it", "p", "--", "sh", "-c", "test -t 0 && echo is a terminal; exit 4"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=k.environment)
    os.close(theirs)
    heard = b""
    while True:
        try:
            heard += os.read(ours, 1000)
        except OSError:  # the other side has closed
            break
    os.close(ours)
    assert process.wait(30) == 4
    assert b"is a terminal\r\n" in heard


def test_large_output_of_exec(k: Kubectl) -> None:
    ready(k, pod("p", SLEEP))
    out = k(
        "exec",
        "p",
        "--",
        "sh",
        "-c",
        "yes abcdefghi | head -c 3000000" if _has(k, "head") else "yes abcdefghi | sed 300000q",
    ).out
    assert len(out) == 3_000_000


def _has(k: Kubectl, tool: str) -> bool:
    return k.run("exec", "p", "--", tool, "--help").code == 0


def test_cp(k: Kubectl, tmp_path: Path) -> None:
    ready(k, pod("p", SLEEP))
    if not _has(k, "tar"):
        pytest.skip("the image has no tar")
    where = k("exec", "p", "--", "sh", "-c", "mkdir -p /tmp/cp-$$ && echo /tmp/cp-$$").out.strip()
    (tmp_path / "there").write_bytes(os.urandom(200_000))
    k("cp", str(tmp_path / "there"), f"p:{where}/file")
    k("cp", f"p:{where}/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()
    k("exec", "p", "--", "rm", "-r", where)


def test_port_forward(k: Kubectl) -> None:
    serve = "if command -v python3; then exec python3 -m http.server 8123; else exec httpd -f -p 8123 -h /etc; fi"
    body = pod("p", serve)
    body["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8123}, "periodSeconds": 1}
    ready(k, body)
    forwarding = k.start("port-forward", "pod/p", ":8123")
    try:
        assert forwarding.stdout is not None
        port = int(re.search(r"127\.0\.0\.1:(\d+) -> 8123", forwarding.stdout.readline())[1])  # type: ignore[index]
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(b"GET /nothing HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda connection=connection: connection.recv(4096), b""))  # type: ignore[misc]
            assert answer.startswith((b"HTTP/1.0 404", b"HTTP/1.1 404"))
    finally:
        forwarding.terminate()
        forwarding.communicate()


def test_run_to_the_end(k: Kubectl) -> None:
    k(
        "run",
        "p",
        f"--image={SHELL_IMAGE}",
        "--image-pull-policy=IfNotPresent",
        "--restart=Never",
        "--",
        "sh",
        "-c",
        "echo done",
    )
    k("wait", "pod", "p", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", timeout=90)
    assert k("logs", "p").out == "done\n"
    assert k("get", "pod", "p").rows[1][1:3] == ["0/1", "Completed"]


# -- controllers
# --------------------------------------------------------------------------------------------------------


def test_rollout(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=deployment())
    assert (
        'deployment "web" successfully rolled out'
        in k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90).out
    )
    first = k.get("rs")["items"][0]["metadata"]["name"]
    k("apply", "-f", "-", stdin=deployment(word="two"))
    k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90)
    assert {rs["metadata"]["name"]: rs["spec"]["replicas"] for rs in k.get("rs")["items"]}[first] == 0
    assert [line.split()[0] for line in k("rollout", "history", "deployment/web").lines[2:] if line] == ["1", "2"]
    k("rollout", "undo", "deployment/web")
    k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90)
    assert k.get("rs", first)["spec"]["replicas"] == 2


def test_scale_and_wait(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=deployment(replicas=1))
    k("scale", "deployment/web", "--replicas=3")
    k("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s", timeout=90)
    assert k("get", "deployment", "web").rows[1][1] == "3/3"
    k("scale", "deployment/web", "--replicas=0")
    eventually(lambda: k("get", "pods", "-l", "app=web", "-o", "name").out == "")


def owned(k: Kubectl) -> list[str]:
    return k("get", "rs,pods", "-l", "app=web", "-o", "name").lines


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_delete_takes_what_is_owned(k: Kubectl, cascade: str) -> None:
    k("apply", "-f", "-", stdin=deployment())
    k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90)
    k("delete", "deployment", "web", f"--cascade={cascade}", timeout=90)
    if cascade == "foreground":
        assert not [name for name in owned(k) if name.startswith("replicaset")]
    eventually(lambda: owned(k) == [])


def test_delete_that_orphans(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=deployment())
    k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90)
    before = owned(k)
    k("delete", "deployment", "web", "--cascade=orphan", timeout=90)
    assert owned(k) == before
    assert all("ownerReferences" not in rs["metadata"] for rs in k.get("rs")["items"])


def test_job(k: Kubectl) -> None:
    template = {"spec": pod("x", "echo worked")["spec"]}
    k(
        "apply",
        "-f",
        "-",
        stdin=made("Job", "j", "batch/v1", spec={"completions": 2, "parallelism": 2, "template": template}),
    )
    k("wait", "job/j", "--for=condition=Complete", "--timeout=60s", timeout=90)
    assert k("get", "job", "j").rows[1][:3] == ["j", "Complete", "2/2"]
    assert k("logs", "-l", "job-name=j", "--tail=-1").out == "worked\nworked\n"


def test_failing_job(k: Kubectl) -> None:
    template = {"spec": pod("x", "exit 5")["spec"]}
    k("apply", "-f", "-", stdin=made("Job", "j", "batch/v1", spec={"backoffLimit": 0, "template": template}))
    k("wait", "job/j", "--for=condition=Failed", "--timeout=60s", timeout=90)
    failed = next(c for c in k.get("job", "j")["status"]["conditions"] if c["type"] == "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"


def test_cordon_and_drain(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=deployment(replicas=4))
    k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90)
    node = k("get", "nodes", "-o", "name").lines[0].partition("/")[2]
    try:
        k(
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--pod-selector=app=web",
            "--timeout=60s",
            timeout=90,
        )
        assert k.get("node", node)["spec"]["unschedulable"] is True
        k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90)
        placed = {
            p["spec"]["nodeName"]
            for p in k.get("pods", "-l", "app=web")["items"]
            if "deletionTimestamp" not in p["metadata"]
        }
        assert node not in placed
    finally:
        k("uncordon", node)


def test_events_and_describe(k: Kubectl) -> None:
    ready(k, pod("p", SLEEP))
    eventually(lambda: "Started" in k("events", "--for=pod/p").out)
    text = k("describe", "pod", "p").out
    assert re.search(r"Normal\s+Scheduled\s", text)
    assert re.search(r"State:\s+Running", text)
    assert re.search(r"Conditions:\n\s+Type\s+Status\n(.*\n)*\s+Ready\s+True", text)
    node = k.get("pod", "p")["spec"]["nodeName"]
    assert re.search(rf"\s{re.escape(k.namespace)}\s+p\s", k("describe", "node", node).out)


def test_unschedulable(k: Kubectl) -> None:
    body = pod("p", SLEEP)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9999"}}
    k("apply", "-f", "-", stdin=body)
    condition = eventually(
        lambda: next(
            (c for c in k.get("pod", "p")["status"].get("conditions") or () if c["type"] == "PodScheduled"), None
        )
    )
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert re.match(r"0/\d+ nodes are available: \d+ Insufficient cpu", condition["message"])


def test_service_and_its_endpoints(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=deployment())
    k("expose", "deployment", "web", "--port=80")
    k("rollout", "status", "deployment/web", "--timeout=60s", timeout=90)

    def addresses() -> bool:
        slices = k.get("endpointslices", "-l", "kubernetes.io/service-name=web")["items"]
        return (
            len([a for s in slices for e in s["endpoints"] or () if e["conditions"]["ready"] for a in e["addresses"]])
            == 2
        )

    eventually(addresses)


def test_deleting_a_namespace_empties_it(outside: Kubectl) -> None:
    name = f"k{os.getpid()}-{next(_numbers)}-gone"
    outside("create", "namespace", name)
    inside = outside.within(name)
    inside("create", "configmap", "c")
    eventually(lambda: inside.run("get", "serviceaccount", "default").code == 0)
    inside("apply", "-f", "-", stdin=deployment(replicas=1))
    outside("delete", "namespace", name, "--timeout=60s", timeout=90)
    assert outside.run("get", "namespace", name).code == 1
