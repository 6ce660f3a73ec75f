"""kubeconfig, exec plugins and service accounts: credentials, their renewal, and the messages when they are wrong."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from edl.kube.auth.credentials import CredentialsError, in_cluster_config
from edl.kube.auth.exec_plugin import VERSIONS
from edl.kube.auth.kubeconfig import from_kubeconfig, load_client_config
from edl.kube.rest.errors import UntrustedServerError
from tests.kube.certificates import Authority
from tests.kube.client_configs import encoded, kubeconfig, presented, tls_server, whoami
from tests.virtual_time import virtual


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
    account = load_client_config(environ=environ)
    assert await presented(account) == "Bearer one", "current-context and user of the first file"
    assert account.namespace == "team"
    other = load_client_config(context="y", environ=environ)
    assert await presented(other) == "Bearer relative", "paths are relative to the file they are in"
    assert load_client_config(second, environ={}).namespace == "default"


ALPHA = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}
ALWAYS = {"command": "x", "apiVersion": VERSIONS[0], "interactiveMode": "Always"}
ERRORS = [
    ({"current-context": ""}, "there is no current-context; name one of: x"),
    ({"current-context": "nope"}, "there is no context 'nope'; name one of: x"),
    ({"clusters": []}, "there is no cluster 'c'; name one of: (none)"),
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
        load_client_config(tmp_path / "nowhere")
    with pytest.raises(CredentialsError, match=r"\$KUBECONFIG names .*nowhere, which does not exist"):
        load_client_config(environ={"KUBECONFIG": str(tmp_path / "nowhere")})
    (tmp_path / "bad").write_text("clusters: [")
    with pytest.raises(CredentialsError, match=r"(?s)bad cannot be read: .*line 1"):
        load_client_config(tmp_path / "bad")


@virtual
async def test_a_service_account_token_is_read_again_as_it_rotates(tmp_path: Path, authority: Authority) -> None:
    for name, text in (("token", "one"), ("ca.crt", authority.pem), ("namespace", "edl-system\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    account = in_cluster_config(directory=tmp_path, environ=environ)
    assert (account.server, account.namespace) == ("https://[fd00::1]:6443", "edl-system")
    assert await presented(account) == "Bearer one"
    (tmp_path / "token").write_text("two")
    await asyncio.sleep(59)
    assert await presented(account) == "Bearer one", "the file is not read for every request"
    await asyncio.sleep(2)
    assert await presented(account) == "Bearer two"
    (tmp_path / "token").write_text("three")
    refused = await account.login(None)
    assert (await account.login(refused)).headers["Authorization"] == "Bearer three", "at once after a refusal"


def test_outside_of_a_pod_this_is_said(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="--kubeconfig"):
        in_cluster_config(directory=tmp_path, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def says(version: str, given: str) -> str:
    return f'echo \'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {given}}}\''
