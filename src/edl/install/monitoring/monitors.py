"""ServiceMonitors and PodMonitor, for clusters that have Prometheus' operator: where metrics are, what opens them."""

from typing import Any

from edl.install.options import LABELS, NAME, PART_OF, SELECTOR, VERSION, InstallOptions
from edl.operator.settings import BRAIN, METRICS_PATH, METRICS_TOKEN, SECRET, TRUSTED

_PROMETHEUS_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def service_monitor(options: InstallOptions) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _metadata(options),
        "spec": {
            "selector": {"matchLabels": SELECTOR},
            "endpoints": [_endpoint(options, bearerTokenFile=_PROMETHEUS_TOKEN)],
        },
    }


def brain_monitor(options: InstallOptions) -> dict[str, Any]:
    """Brain knows no accounts of the cluster: it is shown the token that operators put into its Secret."""
    labels = {"app.kubernetes.io/name": BRAIN, **VERSION, **PART_OF, **options.monitor_labels}
    trust = {"ca": {"secret": {"name": BRAIN, "key": "ca.crt"}}, "serverName": f"{BRAIN}.{options.namespace}.svc"}
    token = {"type": "Bearer", "credentials": {"name": BRAIN, "key": METRICS_TOKEN}}
    endpoint = {"port": "https", "path": METRICS_PATH, "interval": "15s", "scheme": "https", "authorization": token}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": BRAIN, "namespace": options.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": BRAIN}},
            "endpoints": [{**endpoint, "tlsConfig": trust}],
        },
    }


def pod_monitor(options: InstallOptions) -> dict[str, Any]:
    """For a Prometheus that may not read files of its own pod: the token is in a Secret beside the operators."""
    token = {"type": "Bearer", "credentials": {"name": options.pod_monitor, "key": "token"}}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": _metadata(options),
        "spec": {
            "selector": {"matchLabels": SELECTOR},
            "podMetricsEndpoints": [_endpoint(options, authorization=token)],
        },
    }


def _metadata(options: InstallOptions) -> dict[str, Any]:
    return {"name": NAME, "namespace": options.namespace, "labels": {**LABELS, **options.monitor_labels}}


def _endpoint(options: InstallOptions, **proof: Any) -> dict[str, Any]:
    """Prometheus shows its account's token, and trusts the installation's authorities."""
    trust = {"ca": {"secret": {"name": SECRET, "key": TRUSTED}}, "serverName": f"{NAME}.{options.namespace}.svc"}
    return {
        "port": "metrics",
        "path": METRICS_PATH,
        "interval": "15s",
        "scheme": "https",
        **proof,
        "tlsConfig": trust,
    }
