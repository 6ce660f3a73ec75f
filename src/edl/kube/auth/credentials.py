"""Credentials that stay valid while tokens and certificates change.

A ClientConfig says where the server is and how to log in. A login is asked before every request and after every refusal
(401), so it is a cache: a token file is read again every minute, an exec plugin is run again when what it gave expires.
"""

import asyncio
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from edl.kube.rest.errors import KubeError


class Auth(msgspec.Struct, frozen=True):
    """What one attempt presents: headers (a token), and the TLS context (which may hold a client certificate)."""

    headers: Mapping[str, str] = {}
    tls: ssl.SSLContext | bool = True


Login = Callable[[Auth | None], Awaitable[Auth]]
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialsError(KubeError):
    """There are no usable credentials. The message names the file or field, and what to do."""


class ClientConfig(msgspec.Struct, frozen=True):
    """The server's address, and `login(refused)`: credentials to present now, given those just refused (or None)."""

    server: str
    login: Login
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"


def fixed_auth(auth: Auth) -> Login:
    async def login(refused: Auth | None) -> Auth:
        return auth

    return login


class TokenFile:
    """A bearer token that somebody else renews in place, as the kubelet does."""

    def __init__(self, path: Path, tls: ssl.SSLContext | bool, *, headers: Mapping[str, str] | None = None) -> None:
        self._path, self._tls, self._headers = path, tls, headers or {}
        self._auth: Auth | None = None
        self._read_at = 0.0

    async def __call__(self, refused: Auth | None) -> Auth:
        now = asyncio.get_running_loop().time()
        if self._auth is None or refused is self._auth or now - self._read_at >= 60.0:
            token = read(self._path, "token").strip()
            self._auth = Auth({**self._headers, "Authorization": f"Bearer {token}"}, self._tls)
            self._read_at = now
        return self._auth


def in_cluster_config(*, directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> ClientConfig:
    """The service account of the pod that this process runs in."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (directory / "token").exists():
        raise CredentialsError(
            f"this is no pod with a service account (KUBERNETES_SERVICE_HOST or {directory}/token is missing); "
            "give a kubeconfig with --kubeconfig or $KUBECONFIG"
        )
    where = f"[{host}]" if ":" in host else host
    tls = tls_context(authority=read(directory / "ca.crt", "CA certificate"))
    namespace = directory / "namespace"
    name = read(namespace, "namespace").strip() if namespace.exists() else "default"
    return ClientConfig(f"https://{where}:{port}", TokenFile(directory / "token", tls), namespace=name)


def tls_context(
    *, authority: str | None = None, certificate: str | None = None, key: str | None = None, insecure: bool = False
) -> ssl.SSLContext:
    """From PEM texts. Without an authority the system's are trusted; `insecure` trusts anybody."""
    try:
        context = ssl.create_default_context(cadata=authority or None)
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate and key:
            with _on_disk(certificate + "\n" + key) as path:
                context.load_cert_chain(path, password=lambda: b"")  # an encrypted key must fail, not ask
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            f"a certificate or key is not valid PEM, or they do not belong together: {error}"
        ) from error
    return context


@contextmanager
def _on_disk(pem: str) -> Iterator[str]:
    """OpenSSL reads a key from files only; ours exists for that moment, readable by us alone."""
    handle, path = tempfile.mkstemp(prefix="edl-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)


def read(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise CredentialsError(f"{what}: cannot read {path}: {error.strerror}") from error
