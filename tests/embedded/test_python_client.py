"""The official Python client of Kubernetes against the embedded cluster: exec with input, and ports forwarded.

It runs in a process of its own, because it leaves connections open that our tests would complain about.
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edl.embedded.cluster import embedded_cluster
from edl.embedded.streaming.channels import ports_of
from edl.kube.rest.client import Client
from tests.cli.conftest import in_thread

PROGRAM = r"""
import json, socket, sys, time
from kubernetes import client, config
from kubernetes.stream import portforward, stream

SERVER = '''
import socket
listener = socket.create_server(("", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data.upper())
    connection.close()
'''
core = client.CoreV1Api(config.new_client_from_config(sys.argv[1]))
container = {"name": "main", "image": "any", "command": ["python", "-c", SERVER]}
core.create_namespaced_pod("default", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})

def port():
    while True:
        try:
            if log := core.read_namespaced_pod_log("p", "default"):
                return int(log)
        except client.ApiException as error:
            assert error.status == 400, error  # it has not started yet
        time.sleep(0.1)

def command(words, given="", binary=False):
    session = stream(
        core.connect_get_namespaced_pod_exec, "p", "default", command=words, stdin=bool(given), stdout=True,
        stderr=True, tty=False, _preload_content=False, binary=binary,
    )
    if given:
        session.write_stdin(given.encode() if binary else given)
    session.run_forever(timeout=60)
    out, err = session.read_stdout(), session.read_stderr()
    return [out.decode() if binary else out, err.decode() if binary else err, session.returncode]

def exchange(connection, data):
    connection.settimeout(60)
    connection.sendall(data)
    found = b""
    while len(found) < len(data) and (more := connection.recv(65536)):
        found += more
    return found.decode()

def forwarded(port):
    forward = portforward(core.connect_get_namespaced_pod_portforward, "p", "default", ports=str(port))
    connection = forward.socket(port)
    first, second = exchange(connection, b"hello" * 1000), exchange(connection, b"again")
    connection.close()
    return [first, second, forward.error(port)]

def refused(port):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        unused = taken.getsockname()[1]
    forward = portforward(core.connect_get_namespaced_pod_portforward, "p", "default", ports=f"{unused},{port}")
    connection = forward.socket(unused)
    connection.settimeout(60)
    ended = connection.recv(100) == b""
    return [ended, forward.error(unused).replace(str(unused), "N"), exchange(forward.socket(port), b"works")]

number = port()
ASK = ["sh", "-c", 'read -r line; echo "got $line"; exit 7']
print(json.dumps({
    "whole": stream(core.connect_get_namespaced_pod_exec, "p", "default", command=["echo", "out"], stdout=True),
    "both": command(["sh", "-c", "echo out; echo err >&2"]),
    "text": command(ASK, "some wörds\n"),
    "binary": command(ASK, "some wörds\n", binary=True),
    "forwarded": forwarded(number),
    "refused": refused(number),
}))
"""


@asynccontextmanager
async def alone(root: Path) -> AsyncIterator[tuple[Client, Path]]:
    async with embedded_cluster(home=root, nodes=1, cpu="2", memory="2Gi", modes=("none",)) as cluster:
        yield cluster.client, cluster.kubeconfig


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client was told, by what it asked for."""
    with in_thread(lambda: alone(tmp_path_factory.mktemp("home"))) as cluster:
        words = [sys.executable, "-c", PROGRAM, str(cluster.config)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr
    answers: dict[str, Any] = json.loads(ran.stdout)
    return answers


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("whole", "out\n"),
        ("both", ["out\n", "err\n", 0]),
        ("text", ["got some wörds\n", "", 7]),
        ("binary", ["got some wörds\n", "", 7]),
    ],
)
def test_a_command_is_given_input_and_tells_output_and_exit_code(
    found: dict[str, Any], asked: str, told: object
) -> None:
    assert found[asked] == told


def test_a_port_is_forwarded(found: dict[str, Any]) -> None:
    assert found["forwarded"] == ["HELLO" * 1000, "AGAIN", None]


def test_a_port_that_nobody_listens_on_is_an_error_and_others_are_not(found: dict[str, Any]) -> None:
    ended, error, other = found["refused"]
    assert (ended, other) == (True, "WORKS")
    assert error.startswith("error forwarding port N: ")


@pytest.mark.parametrize(("values", "ports"), [(["80"], [80]), (["80,81", "82"], [80, 81, 82])])
def test_ports_are_named_in_either_way(values: list[str], ports: list[int]) -> None:
    assert ports_of(values) == ports


@pytest.mark.parametrize("values", [[], [""], ["70000"], ["0"], ["80,x"], ["-1"], ["8" * 5000]])
def test_what_is_no_port_is_refused(values: list[str]) -> None:
    with pytest.raises(ValueError, match="must name ports from 1 to 65535"):
        ports_of(values)
