"""The Helm chart in the repository is the one that the code makes; what Helm makes of it is tested where Helm is."""

import json
import re
from pathlib import Path

import pytest
import yaml

from edl.cli.main import main
from edl.install.chart import chart
from edl.install.manifests import manifests
from edl.install.options import InstallOptions, rows

CHART = Path(__file__).parents[2] / "charts" / "edl"


def test_the_chart_in_the_repository_is_up_to_date() -> None:
    kept = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
    assert kept == chart(), "run `edl install --chart charts/edl` (into an empty directory) and commit it"


def test_the_command_writes_it(tmp_path: Path) -> None:
    assert main(["install", "--chart", str(tmp_path / "c")]) == 0
    assert {str(path.relative_to(tmp_path / "c")) for path in (tmp_path / "c").rglob("*.*")} == set(chart())


def test_every_choice_is_a_value_with_the_same_default() -> None:
    values = yaml.safe_load(chart()["values.yaml"])
    assert values == {row.value: row.default for row in rows()}
    assert [row.field for row in rows()] == list(InstallOptions.__struct_fields__)
    schema = json.loads(chart()["values.schema.json"])
    assert set(schema["properties"]) == {*values, "global"}
    used = set(re.findall(r"\.Values\.(\w+)", "".join(chart().values())))
    assert used == set(values), "and every one makes a difference"


def test_no_mark_is_left_and_braces_of_others_are_kept() -> None:
    for name, text in chart().items():
        assert not re.search(r"@\w+@|987654\d+", text), name
    board = chart()["templates/configmap-edl-dashboard.yaml"]
    assert '{{ "{{" }}namespace}}/{{ "{{" }}name}}' in board


@pytest.mark.parametrize(
    "kind",
    [
        "Namespace",
        "ServiceMonitor",
        "PrometheusRule",
        "ConfigMap",
        "ValidatingWebhookConfiguration",
        "PersistentVolumeClaim",
    ],
)
def test_what_may_be_left_out_is_guarded(kind: str) -> None:
    assert kind in {
        body["kind"] for body in manifests(InstallOptions(service_monitor=True, alerts=True, dashboard=True))
    }
    texts = [text for text in chart().values() if f"\nkind: {kind}\n" in text]
    assert texts
    assert all(text.startswith("{{- if ") and text.endswith("{{- end }}\n") for text in texts)
