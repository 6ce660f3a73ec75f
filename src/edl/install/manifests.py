"""All objects of an installation, in the order in which they must be made."""

from typing import Any

from edl.api.crds import crds
from edl.install.brain import brain_objects
from edl.install.choices import LABELS, PART_OF, SELECTOR, Choices
from edl.install.deployment import deployment, disruption_budget
from edl.install.monitoring import dashboard, service_monitor
from edl.install.rights import role_objects
from edl.install.users import user_roles
from edl.install.webhook import webhook
from edl.operator.settings import SERVICE, SERVICE_PORT, WEBHOOK

Manifest = dict[str, Any]


def manifests(choices: Choices) -> list[Manifest]:
    return [
        *([namespace(choices)] if choices.create_namespace else []),
        *(crds() if choices.crds else []),
        *role_objects(choices),
        *user_roles(),
        job_service(choices),
        operator_service(choices),
        disruption_budget(choices),
        *(brain_objects(choices) if choices.brain else []),
        deployment(choices),
        *([webhook(choices)] if choices.webhook else []),
        *([service_monitor(choices)] if choices.service_monitor else []),
        *([dashboard(choices)] if choices.dashboard else []),
    ]


def namespace(choices: Choices) -> Manifest:
    """Nothing that runs here needs a privilege, and nothing that does may run here."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    labels = {**PART_OF, **levels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choices.namespace, "labels": labels}}


def job_service(choices: Choices) -> Manifest:
    """Without selector: the leader says where it is."""
    port = {"name": "https", "port": SERVICE_PORT, "targetPort": SERVICE_PORT, "protocol": "TCP"}
    return _service(SERVICE, choices, {"ports": [port]})


def operator_service(choices: Choices) -> Manifest:
    """All operators, leader or not: for those who collect metrics, and for API servers that have jobs checked."""
    ports = [
        {"name": "metrics", "port": 8080, "targetPort": "probes", "protocol": "TCP"},
        {"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"},
    ]
    return _service(WEBHOOK, choices, {"selector": SELECTOR, "ports": ports})


def _service(name: str, choices: Choices, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": choices.namespace, "labels": LABELS}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
