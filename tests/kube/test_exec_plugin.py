"""Credentials that a program gives: when it is run, what it may say, and how its failures read."""

import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edl.kube.auth.credentials import Auth, CredentialsError
from edl.kube.auth.exec_plugin import VERSIONS, ExecConfig, ExecPlugin
from edl.kube.auth.kubeconfig import from_kubeconfig
from tests.kube.certificates import Authority
from tests.kube.client_configs import encoded, kubeconfig, presented, tls_server, whoami

PLUGIN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = os.path.join(os.path.dirname(__file__), "count")
runs = int(open(count).read()) + 1 if os.path.exists(count) else 1
open(count, "w").write(str(runs))
status = {"token": f"{os.environ['WHO']}-{sys.argv[1]}-{runs}"}
status.update(json.loads(os.environ.get("EXTRA", "{}")))
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status, "spec": info["spec"]}))
"""


def plugin(tmp_path: Path, *, version: str = VERSIONS[0], extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    env = [{"name": "WHO", "value": "me"}, {"name": "EXTRA", "value": json.dumps(extra or {})}]
    args = [str(tmp_path / "plugin.py"), "arg"]
    return {"apiVersion": version, "command": sys.executable, "args": args, "env": env, "interactiveMode": "Never"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_plugin_is_run_once_for_all_and_again_when_refused(tmp_path: Path, version: str) -> None:
    account = from_kubeconfig([kubeconfig(tmp_path / "config", user={"exec": plugin(tmp_path, version=version)})])
    given = await asyncio.gather(*(presented(account) for _ in range(5)))
    assert set(given) == {"Bearer me-arg-1"}
    refused = await account.login(None)
    again = await asyncio.gather(*(account.login(refused) for _ in range(5)))
    assert {auth.headers["Authorization"] for auth in again} == {"Bearer me-arg-2"}


async def test_a_plugin_is_run_again_when_what_it_gave_expires(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    config = msgspec.convert(plugin(tmp_path, extra={"expirationTimestamp": "2030-01-01T01:00:00Z"}), ExecConfig)
    clock = [now]
    login = ExecPlugin(
        config,
        present=lambda token, certificate, key: Auth({"Authorization": token}),
        cluster={},
        directory=tmp_path,
        now=lambda: clock[0],
    )
    assert (await login(None)).headers["Authorization"] == "me-arg-1"
    clock[0] = now + timedelta(minutes=59, seconds=49)
    assert (await login(None)).headers["Authorization"] == "me-arg-1"
    clock[0] = now + timedelta(minutes=59, seconds=51)
    assert (await login(None)).headers["Authorization"] == "me-arg-2", "a little early, not a little late"


async def test_a_plugin_can_give_a_certificate(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("carol")
    config = plugin(tmp_path, extra={"clientCertificateData": certificate, "clientKeyData": key})
    async with tls_server(authority, "api.example") as url:
        cluster = {
            "server": url,
            "tls-server-name": "api.example",
            "certificate-authority-data": encoded(authority.pem),
        }
        account = from_kubeconfig([kubeconfig(tmp_path / "config", cluster=cluster, user={"exec": config})])
        assert await whoami(account) == {"certificate": "carol", "token": "Bearer me-arg-1", "as": ""}


async def test_a_plugin_is_told_of_the_cluster_if_it_asks(tmp_path: Path) -> None:
    (tmp_path / "tell.sh").write_text('#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" > "$0.info"; exit 3\n')
    (tmp_path / "tell.sh").chmod(0o755)
    config = {"apiVersion": VERSIONS[0], "command": "./tell.sh", "provideClusterInfo": True}
    account = from_kubeconfig([kubeconfig(tmp_path / "config", user={"exec": config})])
    with pytest.raises(CredentialsError, match="ended with code 3"):
        await account.login(None)
    variables = json.loads((tmp_path / "tell.sh.info").read_text())
    assert variables["spec"]["interactive"] is False
    assert variables["spec"]["cluster"]["server"] == "https://example:6443"


def says(version: str, given: str) -> str:
    return f'echo \'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {given}}}\''


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo oh no >&2; exit 7", "ended with code 7: oh no"),
        ("echo hello", "did not print an ExecCredential"),
        (says("x/v9", '{"token": "t"}'), "asks for ExecCredential"),
        (says(VERSIONS[0], "{}"), "neither a token nor"),
        ("exec sleep 600", "gave nothing within 0.5 s"),
    ],
)
async def test_plugins_that_fail_say_how(tmp_path: Path, script: str, complaint: str) -> None:
    config, timeout = ExecConfig("/bin/sh", VERSIONS[0], ("-c", script)), 0.5 if "sleep" in script else 30.0
    login = ExecPlugin(config, present=lambda *given: Auth(), cluster={}, directory=tmp_path, timeout=timeout)
    with pytest.raises(CredentialsError, match=complaint):
        await login(None)


async def test_a_plugin_that_is_not_installed_comes_with_its_hint(tmp_path: Path) -> None:
    config = ExecConfig("no-such-plugin", VERSIONS[1], install_hint="get it from the cupboard")
    login = ExecPlugin(config, present=lambda *given: Auth(), cluster={}, directory=tmp_path)
    with pytest.raises(CredentialsError, match=r"(?s)no-such-plugin: No such file.*get it from the cupboard"):
        await login(None)
