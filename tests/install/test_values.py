"""Every option of an installation: in a file of values, as a flag, in the schema, the objects and the reference."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.cli.commands.services import brain as brain_command
from edl.cli.commands.services import operator as operator_command
from edl.cli.main import main
from edl.install.brain import arguments as brain_arguments
from edl.install.deployment import arguments as operator_arguments
from edl.install.manifests import manifests
from edl.install.option import Row
from edl.install.options import InstallOptions, rows
from edl.install.problems import problems
from edl.install.values import ValuesError, read_values, schema, values_page, values_text
from tests.install.every_option import OTHERS, names, values_with


def options(values: dict[str, Any]) -> InstallOptions:
    return InstallOptions(**read_values(yaml.safe_dump(values), "values.yaml"))


def printed(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """The objects that the command wrote. By libyaml: 150 kB take a tenth of the time."""
    return list(yaml.load_all(capsys.readouterr().out, Loader=yaml.CSafeLoader))


def test_there_is_another_value_for_every_option() -> None:
    assert list(OTHERS) == names()


@pytest.mark.parametrize("name", names())
def test_every_option_shows_in_the_objects(name: str) -> None:
    given = values_with(name)
    before = {key: value for key, value in given.items() if key != name}
    assert manifests(options(given)) != manifests(options(before))
    assert problems(options(given)) == []


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.field)
def test_a_flag_says_the_same_as_a_value(row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = values_with(row.value)
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in given.items() if key != row.value}))
    assert main(["install", "-f", str(file), *words(row, given[row.value])]) == 0
    assert printed(capsys) == manifests(options(given))


def words(row: Row, value: Any) -> list[str]:
    """The option on a command line."""
    if row.form == "switch":
        return [row.flag]
    if row.form == "pairs":
        return [row.flag, ",".join(f"{key}={text}" for key, text in value.items())]
    if row.form == "words":
        return [f"{row.flag}={word}" for word in value]
    if row.form == "environment":
        return [word for one in value for word in (row.flag, f"{one['name']}={one['value']}")]
    return [row.flag, json.dumps(value) if row.form in ("list", "map") else str(value)]


def test_flags_win_over_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("replicas: 3\nglobal: {}\nlease: 9\n")
    assert main(["install", "-f", str(file), "--replicas", "4"]) == 0
    assert printed(capsys) == manifests(InstallOptions(replicas=4, lease="9"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("replica: 3", "there is no value 'replica'; did you mean 'replicas'?"),
        ("replicas: three", "replicas: Expected `int`"),
        ("replicas: 0", "replicas: 0 is too little; wants 1 or more"),
        ("policy: fair", "policy: 'fair' is none of"),
        ("tolerations: {}", "tolerations: Expected `array`"),
        ("nodeSelector: {gpu: true}", "nodeSelector: Expected `str`"),
        ("- replicas", "wants a map of values"),
        ("a: [", "values.yaml: while parsing"),
    ],
)
def test_a_file_that_cannot_work_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValuesError) as refused:
        read_values(text, "values.yaml")
    assert str(refused.value).startswith("values.yaml: ")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (InstallOptions(lease="2"), "--lease 2: wants whole seconds, 3 or more"),
        (InstallOptions(scale_hold="soon"), "--scale-hold soon: wants whole seconds, 0 for none"),
        (InstallOptions(image_digest="abc"), "--image-digest abc: wants sha256: and 64 hexadecimal digits"),
        (InstallOptions(metrics_port=70000), "--metrics-port 70000: wants a port, 65535 at most"),
        (InstallOptions(service_account=""), "--service-account: wants a name"),
        (InstallOptions(cpu_limit="much"), "--cpu-limit: 'much'"),
        (InstallOptions(server_budgets="A"), "--server-budgets A:"),
        (InstallOptions(pod_labels={"app.kubernetes.io/name": "x"}), "--pod-labels: app.kubernetes.io/name is EDL's"),
        (InstallOptions(extra_env=[{"name": "POD_IP", "value": "1"}]), "--extra-env: POD_IP is set by EDL"),
        (InstallOptions(extra_env=[{"value": "1"}]), "--extra-env: every variable wants a name"),
        (InstallOptions(cert_manager_issuer="ca"), "--cert-manager-issuer: wants --authority-secret"),
    ],
)
def test_options_that_do_not_work_are_named(given: InstallOptions, words: str) -> None:
    (problem,) = problems(given)
    assert problem.startswith(words)


@pytest.mark.parametrize(
    "words", [["--node-selector", "pool"], ["--tolerations", "{}"], ["--affinity", "["], ["--extra-env", "=x"]]
)
def test_flags_that_cannot_be_read_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["install", *words])
    assert words[0] in capsys.readouterr().err


def test_the_file_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "-f", "no-such-file.yaml"]) == 1
    assert "no-such-file.yaml cannot be read" in capsys.readouterr().err


def test_the_schema_allows_what_the_file_may_hold() -> None:
    """Spot checks of its forms; Helm itself validates every value in the kube tier."""
    found = schema()["properties"]
    assert set(found) == {"global", *names()}
    assert found["replicas"] == {"type": "integer", "minimum": 1}
    assert found["imageDigest"]["pattern"] == "^(sha256:[0-9a-f]{64})?$"
    assert "app.kubernetes.io/name" in found["podLabels"]["propertyNames"]["not"]["enum"]
    assert found["extraEnv"]["items"]["required"] == ["name"]


def test_every_option_is_explained() -> None:
    page, text = values_page(), values_text()
    for row in rows():
        assert row.option.text
        assert f"| `{row.value}` | `{row.flag}" in page
        assert f"\n{row.value}: " in f"\n{text}"
        assert row.form != "switch" or not row.default or row.option.without, row.field
    assert yaml.safe_load(text) == {row.value: row.default for row in rows()}


def test_operators_and_brain_understand_what_every_option_makes_of_their_arguments() -> None:
    """The very arguments of the Deployments, read by the very commands."""
    given = options({name: value for name, value in OTHERS.items() if name != "brainExtraArgs"})
    operator, brain = ArgumentParser(), ArgumentParser()
    operator_command.arguments(operator)
    brain_command.arguments(brain)
    words = [word.replace("$(POD_NAMESPACE)", given.namespace) for word in operator_arguments(given)[1:]]
    chosen = operator.parse_args([*words, "--service-address", "10.0.0.1"])
    settings = operator_command.settings_of(chosen)
    assert settings.pods.installation.pull_secrets == ("one", "two")
    assert settings.pods.installation.image == f"{OTHERS['image']}@{OTHERS['imageDigest']}"
    assert (settings.authority_secret, settings.metrics, settings.workers) == ("authority", ("", 9444), 32)
    assert (chosen.log_format, chosen.verbose) == ("json", True)
    told = brain.parse_args(brain_arguments(given)[1:])
    assert (told.quota_jobs, told.quota_mib, told.quota_calls) == (3000000, 64, 200)
    assert (told.share_history, told.log_format, told.verbose) == (True, "json", True)
