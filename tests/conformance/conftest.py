"""API servers that the suite runs against: ours in the default tier, a real one in the kube tier, or any by kubeconfig.

pytest tests/conformance                             the embedded server
pytest tests/conformance -m kube                     a real kube-apiserver and etcd of the suite's own
EDL_CONFORMANCE_SERVER=KUBECONFIG pytest ...         whatever is there
EDL_CONFORMANCE_RECORD=1 pytest -n0 -m kube ...      write what the real one says into expected/
"""

import base64
import http
import itertools
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.conformance.kubectl import Kubectl, program
from tests.conformance.trace import Endpoint, Json, Trace
from tests.tier_kube.cluster.cluster import Cluster, provide

_EXPECTED = Path(__file__).parent / "expected"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def embedded_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An embedded API server as a process of its own; the directory holds its kubeconfig."""
    directory = tmp_path_factory.mktemp("embedded")
    command = [sys.executable, "-m", "edl.embedded.server", str(directory), "0", "conformance-token"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("https://")
    yield directory
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()


@pytest.fixture(scope="session")
def real_kubeconfig() -> Iterator[Path]:
    """kube-apiserver and etcd, without the controllers, whose writes would mix with the cases'."""
    provide(nodes=False)
    cluster = Cluster(f"conformance-{os.getpid()}", nodes=0, controllers=False)
    cluster.start()
    yield cluster.kubeconfig
    cluster.stop()


REAL = pytest.param("real", marks=[pytest.mark.kube, pytest.mark.xdist_group("conformance")])


@pytest.fixture(scope="session", params=["embedded", REAL])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    given = os.environ.get("EDL_CONFORMANCE_SERVER")
    if given:
        return _endpoint("real", Path(given))
    if request.param == "embedded":
        directory: Path = request.getfixturevalue("embedded_directory")
        return _endpoint("embedded", directory / "kubeconfig")
    return _endpoint("real", request.getfixturevalue("real_kubeconfig"))


def _endpoint(kind: str, kubeconfig: Path) -> Endpoint:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return Endpoint(kind, cluster["server"], user["token"], str(kubeconfig))


@pytest.fixture(scope="session")
def trust(endpoint: Endpoint) -> ssl.SSLContext:
    cluster = yaml.safe_load(Path(endpoint.kubeconfig).read_text())["clusters"][0]["cluster"]
    if "certificate-authority-data" in cluster:
        return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    return ssl.create_default_context(cafile=cluster["certificate-authority"])


@pytest.fixture
async def session(trust: ssl.SSLContext) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as client:
        yield client


def differences(observed: Json, recorded: Json, path: str = "") -> Iterator[str]:
    """The differences of two responses, one line each."""
    if isinstance(observed, dict) and isinstance(recorded, dict):
        for key in sorted({*observed, *recorded}):
            yield from differences(observed.get(key, "<absent>"), recorded.get(key, "<absent>"), f"{path}.{key}")
    elif isinstance(observed, list) and isinstance(recorded, list) and len(observed) == len(recorded):
        for index, pair in enumerate(zip(observed, recorded, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif observed != recorded or type(observed) is not type(recorded):
        yield f"{path}:\n  {json.dumps(observed)}\n  {json.dumps(recorded)}"


class Recorded:
    """The steps of one case in `expected/<module>.json`; where we differ on purpose, `differences.json` has our own."""

    def __init__(self, module: str, case: str, *, kind: str, record: bool) -> None:
        self._file, self._case, self._kind, self._record = (
            _EXPECTED / f"{module}.json",
            f"{module}::{case}",
            kind,
            record,
        )
        self._name = case
        self._steps: list[Json] = [] if record else self._load()
        self._position = 0

    def _load(self) -> list[Json]:
        ours = json.loads((_EXPECTED / "differences.json").read_text()) if self._kind == "embedded" else {}
        if self._case in ours:
            return list(ours[self._case]["steps"])
        return list(json.loads(self._file.read_text()).get(self._name, []))

    def step(self, request: str, observed: Json) -> None:
        if self._record:
            self._steps.append({"request": request, **observed})
            return
        assert self._position < len(self._steps), f"no recorded answer for {request}: it must be recorded first"
        expected = self._steps[self._position]
        self._position += 1
        found = list(differences({"request": request, **observed}, expected))
        assert not found, "\n".join([f"{request} (observed, recorded):", *found])

    def finish(self) -> None:
        if self._record:
            everything = json.loads(self._file.read_text()) if self._file.exists() else {}
            everything[self._name] = self._steps
            text = json.dumps(dict(sorted(everything.items())), indent=1, sort_keys=True, ensure_ascii=False)
            self._file.write_text(text + "\n")
        else:
            assert self._position == len(self._steps), "the recording has more steps than the case"


@pytest.fixture
async def t(request: pytest.FixtureRequest, endpoint: Endpoint, session: aiohttp.ClientSession) -> AsyncIterator[Trace]:
    """A trace in a namespace of its own, where pods can be created."""
    case = (
        request.node.name.replace("embedded-", "").replace("[embedded]", "").replace("real-", "").replace("[real]", "")
    )
    record = bool(os.environ.get("EDL_CONFORMANCE_RECORD")) and endpoint.kind == "real"
    expected = Recorded(request.module.__name__.rpartition(".")[2], case, kind=endpoint.kind, record=record)
    trace = Trace(endpoint, session, f"c{os.getpid()}-{next(_numbers)}", expected)
    await trace.send("POST", "/api/v1/namespaces", _object("Namespace", trace.namespace))
    await trace.send("POST", f"{trace.core}/serviceaccounts", _object("ServiceAccount", "default"))
    yield trace
    await trace.send("DELETE", f"/api/v1/namespaces/{trace.namespace}")
    if request.node.stash.get(_passed, True):
        expected.finish()


def _object(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


_passed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_passed] = report.passed
    return report


@pytest.fixture
def k(endpoint: Endpoint, trust: ssl.SSLContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl in a namespace of its own."""
    binary = program()
    if binary is None:
        pytest.skip("no kubectl")
    home = tmp_path_factory.getbasetemp() / f"kubectl-home-{endpoint.kind}"
    home.mkdir(exist_ok=True)
    name = f"k{os.getpid()}-{next(_numbers)}"
    _call(endpoint, trust, "POST", "/api/v1/namespaces", _object("Namespace", name))
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    _call(endpoint, trust, "POST", accounts, _object("ServiceAccount", "default"))
    yield Kubectl(binary, endpoint.kubeconfig, home).within(name)
    _call(endpoint, trust, "DELETE", f"/api/v1/namespaces/{name}")


def _call(endpoint: Endpoint, trust: ssl.SSLContext, method: str, path: str, body: Json = None) -> None:
    """A request that is no part of the case: kubectl would take a tenth of a second for each."""
    headers = {"Authorization": f"Bearer {endpoint.token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{endpoint.url}{path}", data, headers, method=method)
    try:
        urllib.request.urlopen(request, context=trust).close()
    except urllib.error.HTTPError as error:
        with error:
            if error.code != http.HTTPStatus.CONFLICT:  # a server with controllers has made it
                raise
