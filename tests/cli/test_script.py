"""`edl run train.py`: the manifest that is made of a script, and what is refused before anything is made."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.api.admission import check
from edl.api.kinds import PYTORCH_JOB
from edl.cli.jobs import resource_of
from edl.cli.main import main
from edl.cli.script import job_name

from .conftest import Cluster

Output = pytest.CaptureFixture[str]
ELASTIC_JOBS = resource_of(PYTORCH_JOB)
EXAMPLES = Path(__file__).parents[2] / "examples" / "pytorch"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    path = tmp_path / "train_Net.py"
    path.write_text("print('hello')\n")
    return path


def shown(capsys: Output, *words: str) -> dict[str, Any]:
    assert main(["run", *words]) == 0
    found: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return found


def test_a_script_becomes_an_elastic_job(script: Path, capsys: Output) -> None:
    made = shown(capsys, "train_Net.py", "--min", "1", "--max", "4", "--dry-run", "-o", "yaml", "--", "--lr", "0.1")
    assert check(made).problems == ()
    assert (made["kind"], made["metadata"]["name"]) == ("ElasticJob", "train-net")
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 4)
    container = made["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["torchrun", str(script), "--lr", "0.1"]
    assert (container["workingDir"], container["resources"]) == (str(script.parent), {"requests": {"cpu": "1"}})


def test_every_option_has_its_place(script: Path, capsys: Output) -> None:
    words = "--min 2 --name mine --image torch:2 --cpu 500m --memory 2Gi --gpu 1 --env A=b=c --plain --dry-run -o json"
    assert main(["run", "train_Net.py", *words.split()]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["metadata"]["name"], made["spec"]["maxReplicas"]) == ("mine", 2)
    container = made["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"][0]) == ("torch:2", "python")
    assert container["env"] == [{"name": "A", "value": "b=c"}]
    gpu = {"nvidia.com/gpu": 1}
    assert container["resources"] == {"requests": {"cpu": "500m", "memory": "2Gi"} | gpu, "limits": gpu}


def test_on_another_cluster_the_script_is_in_the_image(script: Path, capsys: Output) -> None:
    made = shown(capsys, "/app/train.py", "--image", "torch:2", "--kubeconfig", "elsewhere", "--dry-run")
    container = made["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["torchrun", "/app/train.py"]
    assert "workingDir" not in container


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("absent.py --dry-run", "absent.py: there is no such file"),
        ("train_Net.py --min 3 --max 2 --dry-run", "spec.minReplicas: 3 is more than maxReplicas 2"),
        ("train_Net.py --cpu much --dry-run", "cpu"),
        ("train_Net.py --env A --dry-run", "--env 'A': wants NAME=VALUE"),
        ("train_Net.py job.yaml --dry-run", "one script at a time"),
        ("train_Net.py --kubeconfig elsewhere", "--image is required on a cluster"),
        ("job.yaml --min 2 -- --lr 1", "--min, --: only with a script"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_made(
    script: Path, capsys: Output, words: str, complaint: str
) -> None:
    assert main(["run", *words.split()]) == 1
    assert complaint in capsys.readouterr().err


def test_without_torchrun_nothing_is_submitted(script: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["run", "train_Net.py"]) == 1
    assert "--plain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/My Train.py", "my-train"), ("3d.py", "job-3d"), ("_.py", "job"), (f"{'x' * 60}.py", "x" * 40)],
)
def test_names_of_jobs(path: str, name: str) -> None:
    assert job_name(path) == name


def test_a_script_runs_to_its_end(cluster: Cluster, script: Path, capsys: Output) -> None:
    script.write_text("import os, sys\nprint('worker', os.environ['EDL_INDEX'], *sys.argv[1:])\n")
    words = ["run", str(script), "--kubeconfig", str(cluster.config), "--image", "any", "--plain", "--min", "2"]
    try:
        assert main([*words, "--", "--lr", "1"]) == 0
        assert "train-net: Succeeded" in capsys.readouterr().out
        assert cluster.edl("logs", "train-net") == 0
        said = sorted(capsys.readouterr().out.splitlines())
        assert said == ["train-net-worker-0: worker 0 --lr 1", "train-net-worker-1: worker 1 --lr 1"]
        assert cluster.edl("get", "ptej/train-net") == 0
        assert "Succeeded" in capsys.readouterr().out
        assert cluster.edl("describe", "train-net") == 0
        described = capsys.readouterr().out
        assert "ElasticJob default/train-net (elastic.pytorch.org)" in described
        assert "train-net-worker-1" in described
    finally:
        cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))


@pytest.mark.parametrize("name", ["job.yaml", "imagenet.yaml"])
def test_the_manifests_beside_the_scripts_are_valid(name: str, capsys: Output) -> None:
    assert main(["validate", "-f", str(EXAMPLES / name)]) == 0
    assert capsys.readouterr().out.endswith(": valid\n")
