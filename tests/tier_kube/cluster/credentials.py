"""Credentials of a cluster: the API server's certificate, the key of service accounts, a token for each component."""

import base64
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.tier_kube.cluster.certificates import Authority, new_key

# user -> groups; RBAC's bootstrap policy knows the components by these names.
_USERS = {
    "admin": ("system:masters",),
    "dns": ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "system:kube-proxy": (),
}


@dataclass(frozen=True)
class Credentials:
    """Files below one directory, made once when the cluster starts."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def service_account_key(self) -> Path:
        return self.directory / "service-account.key"

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.csv"

    def pair(self, name: str) -> tuple[str, str]:
        """The certificate and key called `name`: `apiserver`, or `kubelet-client` with which it calls kubelets."""
        return str(self.directory / f"{name}.crt"), str(self.directory / f"{name}.key")

    def create(self, *, server_names: list[str], nodes: list[str]) -> None:
        self.directory.mkdir(parents=True, mode=0o700)
        authority = Authority.create(self.directory)
        new_key(self.service_account_key)
        authority.issue(self.directory, "apiserver", user="kube-apiserver", groups=[], names=server_names)
        authority.issue(self.directory, "kubelet-client", user="kube-apiserver", groups=["system:masters"], names=[])
        users = _USERS | {f"system:node:{node}": ("system:nodes",) for node in nodes}
        rows = (f'{secrets.token_urlsafe(24)},{user},{user},"{",".join(groups)}"\n' for user, groups in users.items())
        self.tokens.write_text("".join(rows))

    def token(self, user: str) -> str:
        rows = (line.split(",", 2) for line in self.tokens.read_text().splitlines())
        return next(token for token, name, _ in rows if name == user)

    def kubeconfig(self, file: Path, *, user: str, server: str) -> Path:
        """Write a kubeconfig that stands alone (the certificate is in it), so that it can be handed on."""
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "edl", "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": "edl", "context": {"cluster": "edl", "user": user}}],
            "current-context": "edl",
        }
        new = file.with_name(f"{file.name}.{threading.get_ident()}")
        new.touch(mode=0o600)
        new.write_text(yaml.safe_dump(content, sort_keys=False))
        new.replace(file)  # in one step: nodes start at the same time, and one may be reading it
        return file
