"""Alerts for clusters that have Prometheus' operator: what keeps jobs from being looked after, and for how long.

Each has a section of its name in `docs/operate/alerts.md`, which says what to do. promtool tests that every one fires
and clears (`tests/tier_kube/test_alerts.py`). Standbys have warm caches and count jobs too, so a maximum over the
operators counts each job once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from edl.install.options import LABELS, NAME, PART_OF, VERSION, InstallOptions
from edl.operator.settings import BRAIN

RUNBOOKS = "docs/operate/alerts.md"
_JOB = "kind, namespace, name"
_JOB_NAMED = "{{ $labels.namespace }}/{{ $labels.name }}"


class Alert(NamedTuple):
    """`lasts`: how long `query` must hold. Severity `critical`: jobs are not looked after; `warning`: some are worse
    off."""

    name: str
    query: str
    lasts: str
    severity: str
    summary: str


OPERATOR_ALERTS = (
    Alert(
        "EdlNoLeader",
        "absent(edl_leader == 1)",
        "2m",
        "critical",
        "No operator leads: jobs train on, but nothing is admitted, scaled or replaced",
    ),
    Alert(
        "EdlCyclesFail",
        "sum(increase(edl_cycle_errors_total[10m])) > 0",
        "1m",
        "critical",
        "Scheduling cycles fail: sizes stay as they are",
    ),
    Alert(
        "EdlJobServiceUnreachable",
        "max(edl_leader) == 1 unless max(edl_job_service_published) == 1",
        "2m",
        "critical",
        "An operator leads, but pods are not led to its job service",
    ),
    Alert(
        "EdlCacheSilent",
        "max by (resource) (edl_cache_age_seconds) > 90",
        "2m",
        "critical",
        "The API server has said nothing about {{ $labels.resource }} for more than 90 s",
    ),
    Alert(
        "EdlQueueGrows",
        "sum by (controller) (min_over_time(edl_queue_depth[10m])) > 0"
        " and sum by (controller) (deriv(edl_queue_depth[10m])) > 0",
        "5m",
        "warning",
        "More jobs of {{ $labels.controller }} wait to be reconciled than before, for 10 minutes and longer",
    ),
    Alert(
        "EdlJobStalled",
        f"max by ({_JOB}) (edl_job_stalled) == 1",
        "5m",
        "warning",
        f"Job {_JOB_NAMED} runs and makes no progress",
    ),
    Alert(
        "EdlGrantWithoutPods",
        f"max by ({_JOB}) (edl_job_size) < max by ({_JOB}) (edl_job_target)",
        "10m",
        "warning",
        f"Job {_JOB_NAMED} was granted pods that do not come up",
    ),
    Alert(
        "EdlJobRefused",
        f"max by ({_JOB}) (edl_job_refused) == 1",
        "5m",
        "warning",
        f"The API server refuses what job {_JOB_NAMED} needs",
    ),
    Alert(
        "EdlJobInvalid",
        'max by (kind, namespace) (edl_jobs{phase="refused"}) > 0',
        "5m",
        "warning",
        "{{ $value }} jobs of namespace {{ $labels.namespace }} are not valid: nobody looks after them",
    ),
    Alert(
        "EdlCertificateEnds",
        "min by (certificate) (edl_certificate_ends_seconds) - time() < 30 * 24 * 3600",
        "1h",
        "warning",
        "The {{ $labels.certificate }} certificate ends within 30 days and was not renewed",
    ),
)
BRAIN_ALERTS = (
    Alert(
        "EdlBrainUnreachable",
        "absent(edl_brain_database_up)",
        "5m",
        "warning",
        "Brain does not answer: trainers of EasyDL jobs plan by local rules",
    ),
    Alert(
        "EdlBrainDatabaseDown",
        "min(edl_brain_database_up) == 0",
        "5m",
        "warning",
        "Brain's database does not answer: trainers of EasyDL jobs plan by local rules",
    ),
)
ALERTS = (*OPERATOR_ALERTS, *BRAIN_ALERTS)


def alert_rules(options: InstallOptions) -> list[dict[str, Any]]:
    labels = {"app.kubernetes.io/name": BRAIN, **VERSION, **PART_OF}
    brain = [_rules(BRAIN, labels, BRAIN_ALERTS, options)] if options.brain else []
    return [_rules(NAME, LABELS, OPERATOR_ALERTS, options), *brain]


def _rules(name: str, labels: dict[str, str], alerts: Sequence[Alert], options: InstallOptions) -> dict[str, Any]:
    metadata = {"name": name, "namespace": options.namespace, "labels": {**labels, **options.monitor_labels}}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": {"groups": [{"name": name, "rules": [rule(alert) for alert in alerts]}]},
    }


def rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.query,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": f"{RUNBOOKS}#{alert.name.lower()}"},
    }
