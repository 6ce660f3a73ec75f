"""For clusters that have Prometheus' operator and Grafana: what to collect, and a dashboard to see it on."""

import json
from typing import Any, NamedTuple

from edl.install.choices import LABELS, NAME, SELECTOR, Choices

DASHBOARD = "edl-dashboard"


class Panel(NamedTuple):
    title: str
    query: str
    legend: str
    unit: str = "short"


# Standbys have warm caches and count jobs too: a maximum over the operators counts each job once.
PANELS = (
    Panel("Jobs by phase", "sum by (phase) (max by (kind, namespace, phase) (edl_jobs))", "{{phase}}"),
    Panel("Size of jobs", "max by (namespace, name) (edl_job_size)", "{{namespace}}/{{name}}"),
    Panel("Target of jobs", "max by (namespace, name) (edl_job_target)", "{{namespace}}/{{name}}"),
    Panel("Waiting", "max by (namespace, name) (edl_job_wait_seconds)", "{{namespace}}/{{name}}", "s"),
    Panel("Samples per second", "max by (namespace, name) (edl_job_goodput)", "{{namespace}}/{{name}}"),
    Panel(
        "Share of the cluster in use",
        "max by (resource) (edl_cluster_planned) / (max by (resource) (edl_cluster_capacity) > 0)",
        "{{resource}}",
        "percentunit",
    ),
    Panel("Changes of size", "sum by (direction) (rate(edl_scale_events_total[5m]))", "{{direction}}", "ops"),
    Panel(
        "Scheduling cycle, 99 of 100 within",
        "histogram_quantile(0.99, sum by (le) (rate(edl_cycle_seconds_bucket[5m])))",
        "cycle",
        "s",
    ),
    Panel("Looks at jobs", "sum by (outcome) (rate(edl_reconciles_total[5m]))", "{{outcome}}", "ops"),
    Panel("Queue", "sum by (controller) (edl_queue_depth)", "{{controller}}"),
    Panel("Age of caches", "max by (resource) (edl_cache_age_seconds)", "{{resource}}", "s"),
)
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8


def service_monitor(choices: Choices) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": NAME, "namespace": choices.namespace, "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": SELECTOR},
            "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "15s"}],
        },
    }


def dashboard(choices: Choices) -> dict[str, Any]:
    """A ConfigMap as Grafana's sidecar looks for it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": DASHBOARD,
            "namespace": choices.namespace,
            "labels": {**LABELS, "grafana_dashboard": "1"},
        },
        "data": {"edl.json": json.dumps(_board(), indent=1)},
    }


def _board() -> dict[str, Any]:
    return {
        "uid": "edl",
        "title": "EDL",
        "tags": ["edl"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "expr": panel.query, "legendFormat": panel.legend}],
    }
