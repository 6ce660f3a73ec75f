"""Alerts as Prometheus evaluates them: promtool finds no fault in the rules, and each fires and clears again."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.install.monitoring.alerts import ALERTS, BRAIN_ALERTS, OPERATOR_ALERTS, Alert, rule
from tests.tier_kube.cluster.build import binary, build

pytestmark = [pytest.mark.kube, pytest.mark.timeout(120)]
Data = dict[str, Any]
JOB = 'kind="tj",namespace="ml",name="fit"'
DAY = 24 * 3600

# The series that provoke an alert, a sample a minute: well, then ill for 40 minutes, then well again for 80. In
# promtool's words `0x9` is a zero and nine more, `_x9` is silence.
SERIES: dict[str, dict[str, str]] = {
    "EdlNoLeader": {'edl_leader{pod="a"}': "1x9 0x40 1x80", 'edl_leader{pod="b"}': "0x130"},
    "EdlCyclesFail": {"edl_cycle_errors_total": "0x9 1+1x40 41x80"},
    "EdlJobServiceUnreachable": {
        'edl_leader{pod="a"}': "1x130",
        'edl_job_service_published{pod="a"}': "1x9 0x40 1x80",
    },
    "EdlCacheSilent": {'edl_cache_age_seconds{resource="pods"}': "2x9 100+60x40 2x80"},
    "EdlQueueGrows": {'edl_queue_depth{controller="trainingjobs",pod="a"}': "0x9 5+5x40 0x80"},
    "EdlJobStalled": {f"edl_job_stalled{{{JOB}}}": "0x9 1x40 0x80"},
    "EdlGrantWithoutPods": {f"edl_job_size{{{JOB}}}": "4x9 2x40 4x80", f"edl_job_target{{{JOB}}}": "4x130"},
    "EdlJobRefused": {f"edl_job_refused{{{JOB}}}": "0x9 1x40 0x80"},
    "EdlJobInvalid": {'edl_jobs{kind="tj",namespace="ml",phase="refused"}': "0x9 2x40 0x80"},
    "EdlBrainUnreachable": {"edl_brain_database_up": "1x9 _x40 1x80"},
    "EdlBrainDatabaseDown": {"edl_brain_database_up": "1x9 0x40 1x80"},
    # Its hour is longer than the others' 40 minutes: it ends in 31 days, then in 29, and is renewed.
    "EdlCertificateEnds": {
        'edl_certificate_ends_seconds{certificate="server"}': f"{31 * DAY}x9 {29 * DAY}x80 {365 * DAY}x80"
    },
}
FIRES = {"EdlCertificateEnds": ("80m", "120m")}  # when it must be there and when gone, where it is not as all others


@pytest.fixture(scope="session")
def promtool() -> Path:
    build("promtool")
    return binary("promtool")


def check(promtool: Path, *words: str, where: Path) -> str:
    done = subprocess.run([str(promtool), *words], cwd=where, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_rules(where: Path) -> None:
    groups = [
        {"name": name, "rules": [rule(alert) for alert in alerts]}
        for name, alerts in (("operator", OPERATOR_ALERTS), ("brain", BRAIN_ALERTS))
    ]
    (where / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))


def test_prometheus_accepts_the_rules(promtool: Path, tmp_path: Path) -> None:
    write_rules(tmp_path)
    assert f"SUCCESS: {len(ALERTS)} rules found" in check(promtool, "check", "rules", "rules.yaml", where=tmp_path)


def test_every_alert_fires_and_clears(promtool: Path, tmp_path: Path) -> None:
    """Each alone: its own series provoke it. What others say of the same series is not asked."""
    assert set(SERIES) == {alert.name for alert in ALERTS}
    write_rules(tmp_path)
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [_story(alert) for alert in ALERTS]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    check(promtool, "test", "rules", "tests.yaml", where=tmp_path)


def _story(alert: Alert) -> Data:
    ill, well = FIRES.get(alert.name, ("45m", "75m"))
    series = [{"series": name, "values": values} for name, values in SERIES[alert.name].items()]
    asked = [("8m", 0), (ill, 1), (well, 0)]
    firing = f'ALERTS{{alertname="{alert.name}",alertstate="firing",severity="{alert.severity}"}}'
    return {
        "name": alert.name,
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": f"count({firing}) or vector(0)",
                "eval_time": when,
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for when, value in asked
        ],
    }
