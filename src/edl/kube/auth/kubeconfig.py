"""Reads kubeconfig files as kubectl does: merged, relative to where they lie, with every error explained.

Not supported, and said so when met: auth-provider (gone since Kubernetes 1.26) and SOCKS proxies.
"""

import base64
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edl.kube.auth.credentials import (
    Auth,
    ClientConfig,
    CredentialsError,
    Login,
    TokenFile,
    fixed_auth,
    in_cluster_config,
    read,
    tls_context,
)
from edl.kube.auth.exec_plugin import ExecConfig, ExecPlugin


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class User(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(name="as", default="")


class Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Entry(msgspec.Struct):
    """A cluster, a user or a context, and its name."""

    name: str
    cluster: Cluster = Cluster()
    user: User | None = None
    context: Context = Context()
    directory: Path = Path()  # of the file it came from: its relative paths start there


class _File(msgspec.Struct, rename="kebab"):
    clusters: list[_Entry] | None = None
    users: list[_Entry] | None = None
    contexts: list[_Entry] | None = None
    current_context: str = ""


def load_client_config(
    kubeconfig: str | Path | None = None, *, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> ClientConfig:
    """The configuration of `kubeconfig`, else of $KUBECONFIG, else of ~/.kube/config, else of the pod we run in."""
    if kubeconfig is not None:
        return from_kubeconfig([Path(kubeconfig)], context=context)
    listed = [Path(entry) for entry in environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    present = [path for path in listed or [Path.home() / ".kube" / "config"] if path.exists()]
    if present:
        return from_kubeconfig(present, context=context)
    if listed:
        raise CredentialsError(f"$KUBECONFIG names {', '.join(map(str, listed))}, which does not exist")
    return in_cluster_config(environ=environ)


def from_kubeconfig(paths: Sequence[Path], *, context: str | None = None) -> ClientConfig:
    """Files in order; where two say something of the same name, the first one counts."""
    files = [_read(path) for path in paths]

    def find(what: str, name: str) -> _Entry:
        entries: list[_Entry] = [entry for file in files for entry in getattr(file, f"{what}s") or ()]
        for entry in entries:
            if entry.name == name:
                return entry
        where, known = ", ".join(map(str, paths)), ", ".join(entry.name for entry in entries) or "(none)"
        missing = "current-context" if what == "context" and not name else f"{what} {name!r}"
        raise CredentialsError(f"{where}: there is no {missing}; name one of: {known}")

    chosen = find("context", context or next(filter(None, (file.current_context for file in files)), "")).context
    cluster = find("cluster", chosen.cluster)
    user = find("user", chosen.user) if chosen.user else _Entry("")
    return _config(cluster, user, chosen.namespace or "default")


def _read(path: Path) -> _File:
    try:
        file = msgspec.convert(yaml.safe_load(read(path, "kubeconfig")) or {}, _File)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CredentialsError(f"kubeconfig {path} cannot be read: {error}") from error
    for entry in (*(file.clusters or ()), *(file.users or ())):
        entry.directory = path.resolve().parent
    return file


def _text(data: str, file: str, directory: Path, what: str) -> str | None:
    """Inline data counts before a file, as in kubectl."""
    try:
        if data:
            return base64.b64decode(data, validate=True).decode()
    except ValueError as error:
        raise CredentialsError(f"{what}-data is not base64 of a PEM text: {error}") from error
    return read(directory / file, what) if file else None


def _config(cluster: _Entry, user: _Entry, namespace: str) -> ClientConfig:
    settings, who = cluster.cluster, user.user or User()
    if not settings.server:
        raise CredentialsError(f"cluster {cluster.name!r} has no server; write server: https://host:port")
    if settings.proxy_url and not settings.proxy_url.startswith(("http://", "https://")):
        raise CredentialsError(
            f"cluster {cluster.name!r}: proxy-url {settings.proxy_url!r} must be http:// or https://"
        )
    authority = _text(
        settings.certificate_authority_data, settings.certificate_authority, cluster.directory, "certificate-authority"
    )
    certificate = _text(who.client_certificate_data, who.client_certificate, user.directory, "client-certificate")
    key = _text(who.client_key_data, who.client_key, user.directory, "client-key")
    if bool(certificate) != bool(key):
        raise CredentialsError(f"user {user.name!r}: client-certificate and client-key must come together")

    def tls(certificate: str | None, key: str | None) -> ssl.SSLContext:
        insecure = settings.insecure_skip_tls_verify
        return tls_context(authority=authority, certificate=certificate, key=key, insecure=insecure)

    login = _login(user, tls(certificate, key), tls, {"config": None, **_cluster_info(settings, authority)})
    return ClientConfig(
        settings.server,
        login,
        server_name=settings.tls_server_name or None,
        proxy=settings.proxy_url or None,
        namespace=namespace,
    )


def _login(user: _Entry, tls: ssl.SSLContext, tls_for: Any, cluster: Mapping[str, Any]) -> Login:
    who = user.user or User()
    headers = {"Impersonate-User": who.impersonate} if who.impersonate else {}
    if who.auth_provider is not None:
        raise CredentialsError(
            f"user {user.name!r} logs in by auth-provider, which Kubernetes dropped in 1.26; use an exec plugin"
        )
    if who.exec is not None:

        def present(token: str, certificate: str, key: str) -> Auth:
            bearer = {"Authorization": f"Bearer {token}"} if token else {}
            return Auth({**headers, **bearer}, tls_for(certificate, key) if certificate else tls)

        return ExecPlugin(who.exec, present=present, cluster=cluster, directory=user.directory)
    if who.token_file:
        return TokenFile(user.directory / who.token_file, tls, headers=headers)
    if who.token:
        headers["Authorization"] = f"Bearer {who.token}"
    elif who.username:
        pair = base64.b64encode(f"{who.username}:{who.password}".encode()).decode()
        headers["Authorization"] = f"Basic {pair}"
    return fixed_auth(Auth(headers, tls))


def _cluster_info(settings: Cluster, authority: str | None) -> dict[str, Any]:
    """The cluster as an exec plugin with provideClusterInfo receives it."""
    return {
        "server": settings.server,
        "tls-server-name": settings.tls_server_name,
        "insecure-skip-tls-verify": settings.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode((authority or "").encode()).decode(),
        "proxy-url": settings.proxy_url,
    }
