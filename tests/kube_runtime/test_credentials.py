"""kubeconfig, exec plugins and service accounts: who we are, how it is renewed, and what is said when it is wrong."""

import asyncio
import base64
import json
import os
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web

from edl.kube.client import Client
from edl.kube.credentials import Account, CredentialsError, in_cluster
from edl.kube.errors import UntrustedServerError
from edl.kube.exec_plugin import VERSIONS, ExecConfig, ExecPlugin
from edl.kube.kubeconfig import from_kubeconfig, load_account
from edl.kube.transport import Auth, HttpTransport
from tests.kube_runtime.certificates import Authority
from tests.virtual_time import virtual


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(
    path: Path, *, cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None, **fields: Any
) -> Path:
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": dict(user or {})}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **fields,
    }
    path.write_text(yaml.safe_dump(whole))
    return path


async def presented(account: Account) -> str:
    return dict((await account.current()).headers).get("Authorization", "")


@asynccontextmanager
async def tls_server(authority: Authority, *names: str) -> AsyncIterator[str]:
    """Answers with the client's certificate name and its token; asks for a certificate, insists on none."""
    certificate, key = authority.issue("server", *names)

    async def whoami(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        subject = {name: value for ((name, value),) in peer.get("subject", ())}
        answer = {"certificate": subject.get("commonName", ""), "token": request.headers.get("Authorization", "")}
        return web.json_response({**answer, "as": request.headers.get("Impersonate-User", "")})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.pem)
    _load(context, certificate, key)
    app = web.Application()
    app.router.add_get("/whoami", whoami)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate + key)
        file.flush()
        context.load_cert_chain(file.name)


async def whoami(account: Account) -> dict[str, str]:
    client = Client(HttpTransport(account), timeout=20.0)
    try:
        return json.loads((await client.raw("GET", "/whoami")).body)  # type: ignore[no-any-return]  # as above
    finally:
        await client.close()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


# TLS.


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "files"])
async def test_certificates_inline_and_by_file(authority: Authority, tmp_path: Path, inline: bool) -> None:
    certificate, key = authority.issue("alice")
    if inline:
        cluster = {"certificate-authority-data": encoded(authority.pem)}
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    else:
        for name, text in (("ca.pem", authority.pem), ("cert.pem", certificate), ("key.pem", key)):
            (tmp_path / name).write_text(text)
        cluster = {"certificate-authority": "ca.pem"}
        user = {"client-certificate": "cert.pem", "client-key": str(tmp_path / "key.pem")}
    async with tls_server(authority, "api.example") as url:
        settings = {"server": url, "tls-server-name": "api.example", **cluster}
        account = from_kubeconfig([kubeconfig(tmp_path / "config", cluster=settings, user={**user, "as": "bob"})])
        assert await whoami(account) == {"certificate": "alice", "token": "", "as": "bob"}


async def test_a_server_that_cannot_be_trusted_is_not(authority: Authority, tmp_path: Path) -> None:
    trusted = {"certificate-authority-data": encoded(authority.pem)}
    async with tls_server(authority, "api.example") as url:
        for cluster in ({}, trusted, {"tls-server-name": "other", **trusted}):
            account = from_kubeconfig([kubeconfig(tmp_path / "config", cluster={"server": url, **cluster})])
            with pytest.raises(UntrustedServerError, match=r"certificate verify failed.*check certificate-authority"):
                await whoami(account)
        insecure = {"server": url, "insecure-skip-tls-verify": True}
        assert await whoami(from_kubeconfig([kubeconfig(tmp_path / "config", cluster=insecure)]))


async def test_requests_go_through_the_proxy(tmp_path: Path) -> None:
    seen: list[str] = []

    async def proxy(request: web.BaseRequest) -> web.Response:
        seen.append(str(request.url))
        return web.json_response({})

    server = web.Server(proxy)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cluster = {"server": "http://nowhere.invalid:6443", "proxy-url": f"http://127.0.0.1:{runner.addresses[0][1]}"}
    await whoami(from_kubeconfig([kubeconfig(tmp_path / "config", cluster=cluster)]))
    await runner.cleanup()
    assert seen == ["http://nowhere.invalid:6443/whoami"]


# kubeconfig.


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, ""),
        ({"token": "secret"}, "Bearer secret"),
        ({"username": "me", "password": "pass"}, "Basic " + encoded("me:pass")),
        ({"tokenFile": "token.txt", "token": "other"}, "Bearer from-file"),
    ],
)
async def test_what_is_presented(tmp_path: Path, user: dict[str, Any], header: str) -> None:
    (tmp_path / "token.txt").write_text("from-file\n")
    account = from_kubeconfig([kubeconfig(tmp_path / "config", user=user)])
    assert await presented(account) == header


async def test_several_files_are_merged_and_the_first_one_counts(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "first", user={"token": "one"}, contexts=[])
    (tmp_path / "sub").mkdir()
    second = kubeconfig(
        tmp_path / "sub" / "second",
        user={"token": "two"},
        users=[{"name": "u", "user": {"token": "two"}}, {"name": "v", "user": {"tokenFile": "mine"}}],
        contexts=[
            {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "y", "context": {"cluster": "c", "user": "v"}},
        ],
        **{"current-context": "y"},  # type: ignore[arg-type]  # a field of the file, not of ours
    )
    (tmp_path / "sub" / "mine").write_text("relative")
    environ = {"KUBECONFIG": os.pathsep.join([str(first), str(tmp_path / "absent"), str(second)])}
    account = load_account(environ=environ)
    assert await presented(account) == "Bearer one", "current-context and user of the first file"
    assert account.namespace == "team"
    other = load_account(context="y", environ=environ)
    assert await presented(other) == "Bearer relative", "paths are relative to the file they are in"
    assert load_account(second, environ={}).namespace == "default"


ALPHA = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}
ALWAYS = {"command": "x", "apiVersion": VERSIONS[0], "interactiveMode": "Always"}
ERRORS = [
    ({"current-context": ""}, "there is no current-context; name one of: x"),
    ({"current-context": "nope"}, "there is no context 'nope'; there are: x"),
    ({"clusters": []}, "there is no cluster 'c'; there are: (none)"),
    ({"users": []}, "there is no user 'u'"),
    ({"cluster": {"server": ""}}, "has no server"),
    ({"cluster": {"proxy-url": "socks5://x"}}, "must be http:// or https://"),
    ({"cluster": {"certificate-authority": "no.pem"}}, "certificate-authority: cannot read"),
    ({"cluster": {"certificate-authority-data": "%%%"}}, "certificate-authority-data is not base64"),
    ({"cluster": {"certificate-authority-data": encoded("junk")}}, "not valid PEM"),
    ({"user": {"client-certificate-data": encoded("x")}}, "must come together"),
    ({"user": {"auth-provider": {"name": "gcp"}}}, "dropped in 1.26"),
    ({"user": {"token": 7}}, "users[0].user.token"),
    ({"user": {"exec": ALPHA}}, "v1alpha1"),
    ({"user": {"exec": ALWAYS}}, "terminal"),
]


@pytest.mark.parametrize(("fields", "says"), ERRORS)
def test_errors_name_the_field_and_the_way_out(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    path = kubeconfig(tmp_path / "config", **fields)
    with pytest.raises(CredentialsError) as caught:
        from_kubeconfig([path])
    assert says in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"cannot read .*nowhere"):
        load_account(tmp_path / "nowhere")
    with pytest.raises(CredentialsError, match=r"\$KUBECONFIG names .*nowhere, which does not exist"):
        load_account(environ={"KUBECONFIG": str(tmp_path / "nowhere")})
    (tmp_path / "bad").write_text("clusters: [")
    with pytest.raises(CredentialsError, match=r"(?s)bad cannot be read: .*line 1"):
        load_account(tmp_path / "bad")


# Token files and service accounts.


@virtual
async def test_a_service_account_token_is_read_again_as_it_rotates(tmp_path: Path, authority: Authority) -> None:
    for name, text in (("token", "one"), ("ca.crt", authority.pem), ("namespace", "edl-system\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    account = in_cluster(directory=tmp_path, environ=environ)
    assert (account.server, account.namespace) == ("https://[fd00::1]:6443", "edl-system")
    assert await presented(account) == "Bearer one"
    (tmp_path / "token").write_text("two")
    await asyncio.sleep(59)
    assert await presented(account) == "Bearer one", "the file is not read for every request"
    await asyncio.sleep(2)
    assert await presented(account) == "Bearer two"
    (tmp_path / "token").write_text("three")
    refused = await account.current()
    assert (await account.current(refused=refused)).headers["Authorization"] == "Bearer three", (
        "at once after a refusal"
    )


def test_outside_of_a_pod_this_is_said(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="--kubeconfig"):
        in_cluster(directory=tmp_path, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


# Exec plugins: real programs.

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
    refused = await account.current()
    again = await asyncio.gather(*(account.current(refused=refused) for _ in range(5)))
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
        await account.current()
    told = json.loads((tmp_path / "tell.sh.info").read_text())
    assert told["spec"]["interactive"] is False
    assert told["spec"]["cluster"]["server"] == "https://example:6443"


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
