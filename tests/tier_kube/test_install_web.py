"""The page as `edl install --web` puts it on real nodes, and `edl ui` that leads to it through a real API server."""

import asyncio
import http.client
import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from edl.install.options import WEB
from edl.kube.auth.kubeconfig import load_client_config
from edl.operator.settings import NAMESPACE
from edl.web.tunnel import NoPageError, Tunnel
from tests.tier_kube.cluster.kubectl import Kubectl, eventually
from tests.tier_kube.installed import LEASE, apply, edl
from tests.tier_kube.test_install_brain import WAITS

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240), pytest.mark.xdist_group("cluster")]
KIND = "trainingjobs.paddlepaddle.org"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def _with_web(image: str) -> str:
    return edl("install", "--image", image, "--lease", str(LEASE), "--web")


@pytest.fixture
def page(installed: Kubectl, _with_web: str) -> Iterator[Kubectl]:
    """kubectl in the page's namespace. It joins what is installed, and goes again."""
    inside = installed.within(NAMESPACE)
    apply(installed, _with_web)
    try:
        inside("rollout", "status", f"deployment/{WEB}", "--timeout=90s", timeout=100)
        yield inside
    finally:
        inside("delete", "deployment,service,serviceaccount,role,networkpolicy", WEB, "--ignore-not-found")
        inside("delete", "clusterrole,clusterrolebinding", WEB, "--ignore-not-found")


@pytest.fixture
def other(cluster: Kubectl) -> Iterator[Kubectl]:
    """A namespace that the viewer may not look into."""
    name = f"edl-test-{uuid.uuid4().hex[:8]}"
    cluster("create", "namespace", name)
    yield cluster.within(name)
    cluster("delete", "namespace", name, "--wait=false")


def account(namespace: Kubectl, name: str, directory: Path, *, role: str = "") -> Path:
    """A kubeconfig with the token of a new account, which may view this namespace, or what the role there allows."""
    granted = f"--role={role}" if role else "--clusterrole=view"
    namespace("create", "serviceaccount", name)
    namespace("create", "rolebinding", name, granted, f"--serviceaccount={namespace.namespace}:{name}")
    config = yaml.safe_load(namespace.kubeconfig.read_text())
    chosen = next(one["context"] for one in config["contexts"] if one["name"] == config["current-context"])
    config["users"] = [{"name": chosen["user"], "user": {"token": namespace("create", "token", name)}}]
    file = directory / name
    file.write_text(yaml.safe_dump(config))
    return file


class Browser:
    """What a page would ask, through the address that `edl ui` printed."""

    def __init__(self, printed: str) -> None:
        parts = urlsplit(printed)
        self._at = parts.hostname or "", parts.port
        self._headers = {"EDL-Request": "1"}
        status, found = self.ask("login", {"code": parts.fragment.removeprefix("code=")})
        assert status == 200, found
        self._headers["EDL-Token"] = found["session"]

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(*self._at, timeout=PATIENCE)
        try:
            method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
            connection.request(method, f"/api/v1/{path}", sent, self._headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def names(self) -> list[str]:
        status, found = self.ask("jobs")
        assert status == 200, found
        return sorted(row["name"] for row in found["rows"])


@contextmanager
def edl_ui(kubeconfig: Path) -> Iterator[str]:
    """What it prints; ended as Ctrl-C ends it."""
    command = [sys.executable, "-m", "edl.cli.main", "ui", "--print", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("serving ").strip()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


def test_a_viewer_gets_to_it_and_sees_their_namespace_alone(
    page: Kubectl, namespace: Kubectl, other: Kubectl, tmp_path: Path
) -> None:
    (pod,) = page.get("pods", labels=f"app.kubernetes.io/name={WEB}")["items"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    labels = page("get", "namespace", NAMESPACE, "-o", "jsonpath={.metadata.labels}")
    assert '"pod-security.kubernetes.io/enforce":"restricted"' in labels
    namespace.apply({**WAITS, "metadata": {"name": "mine"}})
    other.apply({**WAITS, "metadata": {"name": "theirs"}})
    rita = account(namespace, "rita", tmp_path)
    subject = f"--serviceaccount={namespace.namespace}:rita"
    page("create", "rolebinding", "viewers", f"--role={WEB}", subject)
    try:
        eventually(lambda: may_pass(rita), within=PATIENCE, what="rita has the way in")
        with edl_ui(rita) as printed:
            assert printed.startswith("http://127.0.0.1:")
            browser = Browser(printed)
            status, me = browser.ask("session")
            assert status == 200
            assert me["user"] == f"system:serviceaccount:{namespace.namespace}:rita"
            assert (me["namespaces"], me["cluster"]) == ([namespace.namespace], False)
            eventually(lambda: browser.names() == ["mine"], within=PATIENCE, what="her job, and no other")
            assert browser.ask("cluster")[0] == 403
            assert browser.ask(f"jobs/{KIND}/{other.namespace}/theirs")[0] == 404
            assert browser.ask(f"jobs/{KIND}/{namespace.namespace}/mine")[0] == 200
            assert "kind: TrainingJob" in browser.ask(f"jobs/{KIND}/{namespace.namespace}/mine/manifest")[1]["yaml"]
            namespace("delete", "trainingjob", "mine")
            eventually(lambda: browser.names() == [], within=PATIENCE, what="that it went")
    finally:
        page("delete", "rolebinding", "viewers")


def test_who_has_no_way_in_is_told_what_it_takes(page: Kubectl, namespace: Kubectl, tmp_path: Path) -> None:
    bob = account(namespace, "bob", tmp_path)
    with pytest.raises(NoPageError, match="services/proxy of edl-web in namespace edl-system; its Role edl-web"):
        asyncio.run(_check(bob))


def may_pass(kubeconfig: Path) -> bool:
    try:
        asyncio.run(_check(kubeconfig))
    except NoPageError:
        return False
    return True


async def _check(kubeconfig: Path) -> None:
    tunnel = Tunnel(load_client_config(kubeconfig), NAMESPACE)
    try:
        await tunnel.check()
    finally:
        await tunnel.close()
