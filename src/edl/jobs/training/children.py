"""The objects of a TrainingJob at given sizes: etcd, master, parameter servers and the trainers' Job, in this order.

Names are `<job>-<role>`; each role has a headless Service of the same name, by which the others find it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from edl.api.job_view import JobView, Role
from edl.api.kubernetes.meta import EMPTY
from edl.api.labels import BEGUN_WITH, CONTROLLER
from edl.jobs.core.children import Child, Owner
from edl.jobs.core.pods import environment
from edl.jobs.core.pods.environment import Variable
from edl.jobs.core.pods.pod_builder import (
    Data,
    PodSettings,
    build_template,
    headless_service,
    labels,
    selector,
    shared_secret,
    slot_pod,
    token_secret,
    towards,
)
from edl.jobs.core.pods.pod_set import NewPod
from edl.jobs.core.pods.shared_environment import Shared, shared
from edl.jobs.core.pods.threads import thread_limits
from edl.jobs.training.edits import begun_with
from edl.jobs.training.environment import ETCD_CLIENT_PORT, MASTER_PORT, paddle, trainer_slot
from edl.jobs.training.roles import ETCD, MASTER, PSERVER, TRAINER, runs_user_code
from edl.jobs.training.types import TrainingJob

ETCD_PEER_PORT = 2380
SEED_LABELS = {
    MASTER: "paddle-job-master",
    PSERVER: "paddle-job-pserver",
    TRAINER: "paddle-job",
    ETCD: "paddle-job-etcd",
}


class TrainingChildren:
    """One job's wanted objects. `token` opens the job service, if there is one. `sizes` are pods per role."""

    def __init__(self, job: TrainingJob, view: JobView, settings: PodSettings, token: str, ca: str) -> None:
        self._job, self._view, self._settings = job, view, settings
        self._token, self._ca = token, ca
        self._templates: dict[str, Data] = {}

    def wanted(
        self, sizes: Mapping[str, int], nodes: Mapping[str, Sequence[str]] = EMPTY, *, trainers: bool
    ) -> list[Child]:
        """In the order of making. A role at 0 keeps its objects: they cost nothing and hold its place.

        `nodes`: where the plan sees the new pods of each role.
        `trainers`: there are some already. The others are looked for by name from the start, trainers by nobody, and
        for a Service the cluster looks through all pods of the namespace whenever one that it leads to changes.
        """
        children: list[Child] = []
        for role in self._view.roles:
            if role.name != TRAINER:
                children.append(self._service(role))
            children.append(self._workload(role, sizes.get(role.name, 0), nodes.get(role.name, ())))
        return [*children, self._service(self._view.lead)] if trainers else children

    def name(self, role: str) -> str:
        return f"{self._view.name}-{role}"

    def secrets(self) -> list[Child]:
        """What trainers share, and the token for the rest: the template of a workload names no Secret that comes and
        goes with edits of the job, as its pods would have to go with it."""
        if self._shared is None:
            return []
        alone = len(self._view.roles) == 1
        key = [] if alone else [token_secret(self._view, self._token, self._ca)]
        return [*key, shared_secret(self._view, self._shared)]

    def pod(self, new: NewPod, job: Owner) -> Data:
        """A trainer. Its labels are also those that Kubernetes gives to pods of a Job, so that kubectl finds them."""
        template = self._template(self._view.lead, "Never")
        batch = {
            "batch.kubernetes.io/controller-uid": job.uid,
            "batch.kubernetes.io/job-name": job.name,
            "controller-uid": job.uid,
            "job-name": job.name,
        }
        both = {**template["metadata"]["labels"], **batch}
        template = {**template, "metadata": {**template["metadata"], "labels": both}}
        return slot_pod(
            template,
            self._view,
            TRAINER,
            new,
            job,
            subdomain=self.name(TRAINER),
            environment=trainer_slot(new.index),
            shared=self._shared,
        )

    def _workload(self, role: Role, size: int, nodes: Sequence[str]) -> Child:
        if role.name == TRAINER:
            return self._trainers(role, size)
        child = self._etcd(role, size) if role.name == ETCD else self._replica_set(role, size)
        if not nodes:
            return child
        template = child.body["spec"]["template"]
        return replace(child, placed={**template, "spec": towards(template["spec"], nodes)})

    def _replica_set(self, role: Role, size: int) -> Child:
        spec = {
            "replicas": size,
            "selector": {"matchLabels": selector(self._view, role.name)},
            "template": self._template(role, "Always"),
        }
        return Child(
            "ReplicaSet", self._body("apps/v1", "ReplicaSet", role, spec), ("/spec/replicas", size), template=True
        )

    def _trainers(self, role: Role, size: int) -> Child:
        """Kubernetes' own controller leaves it alone (managedBy). Its template cannot change: it shows the first."""
        spec = {
            "parallelism": size,
            "backoffLimit": self._job.spec.backoff_limit,
            "managedBy": CONTROLLER,
            "template": self._template(role, "Never"),
        }
        body = self._body("batch/v1", "Job", role, spec)
        body["metadata"]["annotations"] = {BEGUN_WITH: begun_with(self._job.spec)}
        return Child("Job", body, ("/spec/parallelism", size))

    def _etcd(self, role: Role, size: int) -> Child:
        template = self._template(role, "Always")
        first, *others = template["spec"]["containers"]
        containers = [{"command": self._etcd_command(role), **first}, *others]
        template = {**template, "spec": {**template["spec"], "containers": containers}}
        spec = {
            "replicas": size,
            "serviceName": self.name(ETCD),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(self._view, ETCD)},
            "template": template,
        }
        body = self._body("apps/v1", "StatefulSet", role, spec)
        return Child("StatefulSet", body, ("/spec/replicas", size), template=True, restarts=True)

    def _etcd_command(self, role: Role) -> list[str]:
        service = self.name(ETCD)
        domain = f"{service}.{self._view.namespace}.svc"
        members = (f"{service}-{index}=http://{service}-{index}.{domain}:{ETCD_PEER_PORT}" for index in range(role.min))
        mount = self._job.spec.mount_path
        directory = f"{mount.rstrip('/')}/.edl-etcd/$(EDL_POD_NAME)" if mount else "/tmp/etcd"
        return [
            "etcd",
            "--name=$(EDL_POD_NAME)",
            f"--data-dir={directory}",
            f"--listen-peer-urls=http://0.0.0.0:{ETCD_PEER_PORT}",
            f"--listen-client-urls=http://0.0.0.0:{ETCD_CLIENT_PORT}",
            f"--initial-advertise-peer-urls=http://$(EDL_POD_NAME).{domain}:{ETCD_PEER_PORT}",
            f"--advertise-client-urls=http://$(EDL_POD_NAME).{domain}:{ETCD_CLIENT_PORT}",
            f"--initial-cluster={','.join(members)}",
            f"--initial-cluster-token={self._view.uid}",
        ]

    def _template(self, role: Role, restart_policy: str) -> Data:
        """Made once, however many pods are made from it; whoever wants it otherwise makes a copy."""
        known = self._templates.get(role.name)
        if known is None:
            known = self._templates[role.name] = self._make_template(role, restart_policy)
        return known

    def _make_template(self, role: Role, restart_policy: str) -> Data:
        template = build_template(
            role.template,
            self._view,
            role.name,
            self._variables(role),
            self._settings,
            restart_policy=restart_policy,
            more_labels={SEED_LABELS[role.name]: self._view.name},
            shared=self._shared if role.name == TRAINER else None,
        )
        ports = self._ports(role)
        if ports:
            first = template["spec"]["containers"][0]
            first.setdefault("ports", [{"name": port["name"], "containerPort": port["port"]} for port in ports])
        return template

    @cached_property
    def _shared(self) -> Shared | None:
        """What all trainers are told, and those that nobody came before."""
        if not self._token:
            return None
        variables = [*self._variables(self._view.lead), environment.slot_attempt(0)]
        return shared(self._view, variables, self._token, self._ca)

    def _variables(self, role: Role) -> list[Variable]:
        view, settings = self._view, self._settings
        return [
            *environment.common(view, role.name, settings.access),
            *([environment.slot_index(0)] if role.name == MASTER else ()),
            *paddle(self._job, view, role, (settings.installation.gpu,)),
            *(thread_limits(role.template) if runs_user_code(role) else ()),
        ]

    def _service(self, role: Role) -> Child:
        return Child("Service", headless_service(self._view, self.name(role.name), role.name, self._ports(role)))

    def _ports(self, role: Role) -> list[Data]:
        spec = self._job.spec
        if role.name == MASTER:
            return [_port("master-port", MASTER_PORT)]
        if role.name == ETCD:
            return [_port("client", ETCD_CLIENT_PORT), _port("peer", ETCD_PEER_PORT)]
        first = spec.port or 0
        count = (spec.ports_num or 0) + (spec.ports_num_for_sparse or 0)
        return [_port(f"jobport-{port}", port) for port in range(first, first + count)]

    def _body(self, api_version: str, kind: str, role: Role, spec: Data) -> Data:
        metadata = self._metadata(self.name(role.name), role.name)
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}

    def _metadata(self, name: str, role: str) -> Data:
        return {"name": name, "namespace": self._view.namespace, "labels": labels(self._view, role)}


def _port(name: str, port: int) -> Data:
    return {"name": name, "port": port}
