"""Alerts: every metric that they ask for is there, and each has a runbook. promtool tests the queries."""

import re
from pathlib import Path

import pytest

from edl.install.manifests import manifests
from edl.install.monitoring.alerts import ALERTS, RUNBOOKS, Alert
from edl.install.options import InstallOptions
from tests.docs.test_pages import anchors
from tests.install.test_manifests import exposed_metrics, of_kind

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_asks_for_metrics_that_are_there_and_has_a_runbook(alert: Alert) -> None:
    assert set(re.findall(r"\bedl_\w+", alert.query)) <= exposed_metrics()
    page = ROOT / RUNBOOKS
    assert alert.name.lower() in anchors(page)
    assert f"| [{alert.name}](#{alert.name.lower()}) | {alert.severity} |" in page.read_text()


def test_they_are_told_to_prometheus_as_it_looks_for_them() -> None:
    options = InstallOptions(alerts=True, monitor_labels={"release": "prometheus"})
    operator, brain = of_kind(manifests(options), "PrometheusRule")
    assert operator["metadata"]["labels"]["release"] == brain["metadata"]["labels"]["release"] == "prometheus"
    rules = [rule for one in (operator, brain) for group in one["spec"]["groups"] for rule in group["rules"]]
    assert [rule["alert"] for rule in rules] == [alert.name for alert in ALERTS]
    assert all(rule["annotations"]["runbook"].startswith("docs/operate/alerts.md#") for rule in rules)
    assert len(of_kind(manifests(InstallOptions(alerts=True, brain=False)), "PrometheusRule")) == 1
