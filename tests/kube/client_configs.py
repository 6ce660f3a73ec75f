"""Kubeconfigs, a TLS server that says who came, and an authority of the tests' own."""

import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from edl.kube.auth.credentials import ClientConfig
from edl.kube.rest.client import Client
from edl.kube.rest.transport import HttpTransport, Request
from tests.kube.certificates import Authority


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


async def presented(account: ClientConfig) -> str:
    return dict((await account.login(None)).headers).get("Authorization", "")


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate + key)
        file.flush()
        context.load_cert_chain(file.name)


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


async def whoami(account: ClientConfig) -> dict[str, str]:
    client = Client(HttpTransport(account), timeout=20.0)
    try:
        return json.loads((await client.raw(Request("GET", "/whoami"))).body)  # type: ignore[no-any-return]  # as above
    finally:
        await client.close()
