"""etcd, API server, controller manager and scheduler, in a cluster's namespace or, unprivileged, on loopback."""

import http.client
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import yaml

from tests.tier_kube.cluster.build import binary
from tests.tier_kube.cluster.credentials import Credentials
from tests.tier_kube.cluster.kubectl import Kubectl
from tests.tier_kube.cluster.network import API_SERVICE_ADDRESS, BRIDGE_ADDRESS, POD_RANGE, SERVICE_RANGE
from tests.tier_kube.cluster.ports import Ports
from tests.tier_kube.cluster.processes import Processes, StartError

BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
SERVICE_NAMES = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
# Without nodes nobody connects to the advertised address, but the API server wants one that is not loopback.
_NOWHERE = "192.0.2.1"
_READY_TIMEOUT = 60.0
_WRITES = ["create", "update", "patch", "delete", "deletecollection"]


def audit_policy(watched: Sequence[str]) -> dict[str, object]:
    """Of `watched` users, who are under test, everything is kept, and with their bodies all writes, so that tests can
    prove preconditions. Of others only writes are, without the bodies of secrets: what they read nobody asks for."""
    private = {"group": "", "resources": ["secrets", "serviceaccounts/token"]}
    rules: list[dict[str, object]] = [
        {"level": "Request", "verbs": _WRITES, "users": [*watched]},
        {"level": "Metadata", "users": [*watched]},
        {"level": "Metadata", "verbs": _WRITES, "resources": [private]},
        {"level": "Request", "verbs": _WRITES},
        {"level": "None"},
    ]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "omitManagedFields": True,
        "rules": rules,
    }


@dataclass
class ControlPlane:
    """The processes that make a Kubernetes API. `namespace` None = on loopback, for tests of the API alone."""

    directory: Path
    credentials: Credentials
    processes: Processes
    namespace: Path | None = None
    controllers: bool = True
    more_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By component, after our own: the later one counts."""
    watched: Sequence[str] = ()
    """Users whose calls are audited, all of them and with their bodies; without any there is no audit log."""
    ports: Ports = field(default_factory=Ports)

    def __post_init__(self) -> None:
        self.port = self.ports.reserve()
        self.etcd_port = 2379 if self.namespace else self.ports.reserve()
        self.inner_port = 6443 if self.namespace else self.port

    @property
    def url(self) -> str:
        """For clients on this machine."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def inner_url(self) -> str:
        """For the cluster's own parts."""
        return f"https://{BRIDGE_ADDRESS}:{self.inner_port}" if self.namespace else self.url

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.kubeconfig, str(binary("kubectl")))

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    def create_credentials(self, nodes: list[str]) -> None:
        names = [*SERVICE_NAMES, "localhost", "127.0.0.1", BRIDGE_ADDRESS, API_SERVICE_ADDRESS]
        self.credentials.create(server_names=names, nodes=nodes)
        self.credentials.kubeconfig(self.kubeconfig, user="admin", server=self.url)
        if self.watched:
            (self.directory / "audit-policy.yaml").write_text(yaml.safe_dump(audit_policy(self.watched)))

    def start(self) -> None:
        """Returns when the API answers; the controllers are on their way then."""
        self._run("etcd", self._etcd())
        self._run("kube-apiserver", self._apiserver())
        if self.namespace:
            target = f"{BRIDGE_ADDRESS}:{self.inner_port}"
            command = [
                sys.executable,
                "-m",
                "tests.tier_kube.cluster.forward",
                str(self.port),
                str(self.namespace),
                target,
            ]
            self.processes.start("forward", command)
        self._wait_ready()
        self.ports.release()
        if self.controllers:
            self._run("kube-controller-manager", self._controller_manager())
            self._run("kube-scheduler", ["--leader-elect=false", "--secure-port=0"], user="system:kube-scheduler")

    def component_kubeconfig(self, user: str) -> Path:
        file = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        return self.credentials.kubeconfig(file, user=user, server=self.inner_url)

    def _run(self, name: str, flags: list[str], user: str = "") -> None:
        if user:
            flags = [f"--kubeconfig={self.component_kubeconfig(user)}", *flags]
        command = [str(binary(name)), *flags, *self.more_flags.get(name, ())]
        self.processes.start(name, command, netns=self.namespace)

    def _etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self.etcd_port}"
        return [
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--socket-reuse-port",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        certificate, key = self.credentials.pair("apiserver")
        client_certificate, client_key = self.credentials.pair("kubelet-client")
        accounts = self.credentials.service_account_key
        return [
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--bind-address={'0.0.0.0' if self.namespace else '127.0.0.1'}",
            f"--advertise-address={BRIDGE_ADDRESS if self.namespace else _NOWHERE}",
            f"--secure-port={self.inner_port}",
            "--permit-port-sharing",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.credentials.authority}",
            f"--token-auth-file={self.credentials.tokens}",
            f"--kubelet-client-certificate={client_certificate}",
            f"--kubelet-client-key={client_key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            # Some distributions guard owner references: who sets one that blocks a deletion needs the right to.
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            # Webhooks are called at their endpoints, because no kube-proxy serves cluster addresses in this namespace.
            "--enable-aggregator-routing=true",
            "--profiling=false",
            *(self._audit() if self.watched else ()),
        ]

    def _audit(self) -> tuple[str, str]:
        return f"--audit-policy-file={self.directory / 'audit-policy.yaml'}", f"--audit-log-path={self.audit_log}"

    def _controller_manager(self) -> list[str]:
        kubeconfig = self.component_kubeconfig("system:kube-controller-manager")
        return [
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--root-ca-file={self.credentials.authority}",
            f"--service-account-private-key-file={self.credentials.service_account_key}",
            f"--cluster-signing-cert-file={self.credentials.authority}",
            f"--cluster-signing-key-file={self.credentials.authority_key}",
            "--use-service-account-credentials",
            f"--cluster-cidr={POD_RANGE}",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=12s",
        ]

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT
        while True:
            try:
                if self._answers():
                    return
                error = OSError("it answers, but is not ready")
            except OSError as raised:
                error = raised
            self._check_alive(error, late=time.monotonic() > deadline)
            time.sleep(0.05)

    def _answers(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.credentials.authority))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=5)
        try:
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {self.credentials.token('admin')}"})
            return connection.getresponse().status == HTTPStatus.OK
        finally:
            connection.close()

    def _check_alive(self, error: OSError, *, late: bool) -> None:
        for name in ("etcd", "kube-apiserver"):
            if late or not self.processes.alive(name):
                raise StartError(f"{name} did not become ready ({error})\n{self.processes.tail(name)}") from error
