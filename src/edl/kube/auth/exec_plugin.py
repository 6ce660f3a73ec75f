"""Credentials from a program (client.authentication.k8s.io v1 and v1beta1), as clouds and SSO systems give them.

The program is run without a terminal, outside the event loop, once for all who wait, and again when what it gave has
expired or was refused. It may give a token, a client certificate, or both.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from edl.kube.auth.credentials import Auth, CredentialsError

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EARLY = timedelta(seconds=10)  # a token must not expire between us and the server


class Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    command: str
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class _Given(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Given


class ExecPlugin:
    """`present(token, certificate, key)` makes what a request carries; `cluster` is passed on if the program asks."""

    def __init__(
        self,
        config: ExecConfig,
        *,
        present: Callable[[str, str, str], Auth],
        cluster: Mapping[str, Any],
        directory: Path,
        timeout: float = 60.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if config.api_version not in VERSIONS:
            raise CredentialsError(
                f"exec plugin {config.command}: apiVersion {config.api_version!r} is not supported; "
                f"use one of {', '.join(VERSIONS)} (update the plugin, then write its kubeconfig anew)"
            )
        if config.interactive_mode == "Always":
            raise CredentialsError(
                f"exec plugin {config.command} needs a terminal (interactiveMode: Always); we have none"
            )
        self._config, self._present, self._cluster, self._now = config, present, cluster, now
        self._command = str(directory / config.command) if "/" in config.command else config.command
        self._timeout = timeout
        self._auth: Auth | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()

    async def __call__(self, refused: Auth | None) -> Auth:
        async with self._running:
            expired = self._expires is not None and self._now() >= self._expires - EARLY
            if self._auth is None or expired or refused is self._auth:
                given = self._read(await self._run())
                self._auth = self._present(given.token, given.client_certificate_data, given.client_key_data)
                self._expires = given.expiration_timestamp
            return self._auth

    async def _run(self) -> bytes:
        config = self._config
        spec: dict[str, Any] = {"interactive": False}
        if config.provide_cluster_info:
            spec["cluster"] = self._cluster
        info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        environ = {**os.environ, **{variable.name: variable.value for variable in config.env or ()}}
        environ["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                self._command, *(config.args or ()), env=environ, stdin=none, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            hint = f"\n{config.install_hint}" if config.install_hint else ""
            raise CredentialsError(f"exec plugin {self._command}: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(self._timeout):
                output, complaint = await process.communicate()
        except TimeoutError as error:
            raise CredentialsError(f"exec plugin {self._command} gave nothing within {self._timeout:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = complaint.decode(errors="replace").strip()[-1000:]
            raise CredentialsError(f"exec plugin {self._command} ended with code {process.returncode}: {said}")
        return output

    def _read(self, output: bytes) -> _Given:
        try:
            credential = msgspec.json.decode(output, type=_Credential)
        except msgspec.DecodeError as error:
            raise CredentialsError(f"exec plugin {self._command} did not print an ExecCredential: {error}") from error
        given = credential.status
        if credential.kind != "ExecCredential" or credential.api_version != self._config.api_version:
            raise CredentialsError(
                f"exec plugin {self._command} printed {credential.kind} {credential.api_version}, "
                f"the kubeconfig asks for ExecCredential {self._config.api_version}"
            )
        if bool(given.client_certificate_data) != bool(given.client_key_data) or not (
            given.token or given.client_certificate_data
        ):
            raise CredentialsError(f"exec plugin {self._command} gave neither a token nor a certificate with its key")
        return given
