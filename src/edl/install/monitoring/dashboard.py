"""The dashboard for Grafana's sidecar. A test compares the metrics in its queries with the catalogues."""

import json
from typing import Any, NamedTuple

from edl.install.options import LABELS, InstallOptions

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
    Panel("Reconciles", "sum by (outcome) (rate(edl_reconciles_total[5m]))", "{{outcome}}", "ops"),
    Panel("Queue", "sum by (controller) (edl_queue_depth)", "{{controller}}"),
    Panel("Leader", "sum by (pod) (edl_leader)", "{{pod}}"),
    Panel("Failed cycles", "sum(increase(edl_cycle_errors_total[10m]))", "cycles"),
    Panel("Jobs without progress", "max by (namespace, name) (edl_job_stalled) > 0", "{{namespace}}/{{name}}"),
    Panel(
        "Granted pods that are not there",
        "(max by (namespace, name) (edl_job_target) - max by (namespace, name) (edl_job_size)) > 0",
        "{{namespace}}/{{name}}",
    ),
    Panel("Jobs refused by the API server", "max by (namespace, name) (edl_job_refused) > 0", "{{namespace}}/{{name}}"),
    Panel(
        "Time left, at the pace of the last 10 minutes",
        "max by (namespace, name) ((1 - edl_job_done_ratio) / (deriv(edl_job_done_ratio[10m]) > 0))",
        "{{namespace}}/{{name}}",
        "s",
    ),
    Panel(
        "Pause of the last change of size",
        "max by (namespace, name) (edl_job_rescale_pause_seconds)",
        "{{namespace}}/{{name}}",
        "s",
    ),
    Panel(
        "Certificates: time left",
        "min by (certificate) (edl_certificate_ends_seconds) - time()",
        "{{certificate}}",
        "s",
    ),
    Panel(
        "What capacity is used for",
        "sum by (resource, use) (rate(edl_cluster_seconds_total[5m]))",
        "{{resource}} {{use}}",
    ),
    Panel(
        "What jobs use, by namespace",
        "sum by (namespace, resource, use) (rate(edl_ledger_seconds_total[5m]))",
        "{{namespace}} {{resource}} {{use}}",
    ),
    Panel("Calls to Brain", "sum by (code) (rate(edl_brain_calls_total[5m]))", "{{code}}", "ops"),
    Panel(
        "Brain's answers, 99 of 100 within",
        "histogram_quantile(0.99, sum by (le) (rate(edl_brain_call_seconds_bucket[5m])))",
        "Brain",
        "s",
    ),
    Panel("Age of caches", "max by (resource) (edl_cache_age_seconds)", "{{resource}}", "s"),
)
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8


def dashboard(options: InstallOptions) -> dict[str, Any]:
    """A ConfigMap as Grafana's sidecar looks for it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": DASHBOARD,
            "namespace": options.namespace,
            "labels": {**LABELS, "grafana_dashboard": "1"},
        },
        "data": {"edl.json": json.dumps(_dashboard_json(), indent=1)},
    }


def _dashboard_json() -> dict[str, Any]:
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
