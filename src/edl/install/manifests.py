"""All objects of an installation, in the order in which they must be created."""

from typing import Any

from edl.install.admission_policy import admission_policy
from edl.install.brain import brain_objects
from edl.install.certificate import certificate
from edl.install.deployment import deployment, disruption_budget
from edl.install.monitoring.alerts import alert_rules
from edl.install.monitoring.dashboard import dashboard
from edl.install.monitoring.monitors import brain_monitor, pod_monitor, service_monitor
from edl.install.network_policies import network_policies
from edl.install.options import LABELS, PART_OF, SELECTOR, InstallOptions
from edl.install.permissions import role_objects
from edl.install.server_budgets import server_budgets
from edl.install.user_roles import user_roles
from edl.install.web import web_objects
from edl.install.webhook import webhook
from edl.jobs.crds import crds
from edl.operator.settings import SERVICE, SERVICE_PORT, WEBHOOK

Manifest = dict[str, Any]


def manifests(options: InstallOptions) -> list[Manifest]:
    return [
        *([namespace(options)] if options.create_namespace else []),
        *(crds() if options.crds else []),
        *role_objects(options),
        *user_roles(options),
        job_service(options),
        operator_service(options),
        disruption_budget(options),
        *server_budgets(options),
        *admission_policy(options),
        *network_policies(options),
        *(brain_objects(options) if options.brain else []),
        *(web_objects(options) if options.web else []),
        *([certificate(options)] if options.cert_manager_issuer else []),
        deployment(options),
        *([webhook(options)] if options.webhook else []),
        *([service_monitor(options)] if options.service_monitor else []),
        *([brain_monitor(options)] if options.service_monitor and options.brain else []),
        *([pod_monitor(options)] if options.pod_monitor else []),
        *(alert_rules(options) if options.alerts else []),
        *([dashboard(options)] if options.dashboard else []),
    ]


def namespace(options: InstallOptions) -> Manifest:
    """Nothing that runs here needs a privilege, and nothing that does may run here."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    labels = {**PART_OF, **levels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace, "labels": labels}}


def job_service(options: InstallOptions) -> Manifest:
    """Without selector: the leader writes its EndpointSlice."""
    port = {"name": "https", "port": SERVICE_PORT, "targetPort": SERVICE_PORT, "protocol": "TCP"}
    return _service(SERVICE, options, {"ports": [port]})


def operator_service(options: InstallOptions) -> Manifest:
    """All operators, leader or not: for those who collect metrics, and for API servers that have jobs checked."""
    ports = [
        {"name": "metrics", "port": options.metrics_port, "targetPort": "metrics", "protocol": "TCP"},
        {"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"},
    ]
    return _service(WEBHOOK, options, {"selector": SELECTOR, "ports": ports})


def _service(name: str, options: InstallOptions, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": options.namespace, "labels": LABELS}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
