"""`edl run train.py`: the manifest that is made of a script, and what is refused before anything is made."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.cli.connect.jobs import resource_of
from edl.cli.input.script import job_name
from edl.cli.main import main
from edl.jobs.admission import check
from edl.jobs.registry import PYTORCH_JOB
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from tests.cli.conftest import Cluster

Output = pytest.CaptureFixture[str]
ELASTIC_JOBS = resource_of(PYTORCH_JOB)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
EXAMPLES = Path(__file__).parents[2] / "examples" / "pytorch"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    path = tmp_path / "train_Net.py"
    path.write_text("print('hello')\n")
    (tmp_path / "home").mkdir()
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
    ("words", "command"),
    [
        ("train_Net.py", ["torchrun", "train_Net.py"]),
        ("sub/deep.py", ["torchrun", "deep.py"]),
        ("sub/deep.py --ship .", ["torchrun", "sub/deep.py"]),
        ("-m package.train", ["torchrun", "-m", "package.train"]),
        ("train_Net.py --no-ship", ["torchrun", "train_Net.py"]),
    ],
)
def test_to_another_cluster_the_directory_goes_along(
    script: Path, capsys: Output, words: str, command: list[str]
) -> None:
    (script.parent / "sub").mkdir()
    (script.parent / "sub" / "deep.py").write_text("")
    made = shown(capsys, *words.split(), "--image", "torch:2", "--kubeconfig", "elsewhere", "--dry-run")
    container = made["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["command"] == command
    assert "workingDir" not in container


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("absent.py --dry-run", "absent.py: there is no such file"),
        ("train_Net.py --min 3 --max 2 --dry-run", "spec.minReplicas: 3 is more than maxReplicas 2"),
        ("train_Net.py --cpu much --dry-run", "cpu"),
        ("train_Net.py --env A --dry-run", "--env 'A': wants NAME=VALUE"),
        ("train_Net.py job.yaml --dry-run", "one script at a time"),
        ("train_Net.py --min 0 --dry-run", "--min 0: wants 1 or more"),
        ("train_Net.py --max 0 --dry-run", "--max 0: wants 1 or more"),
        ("train_Net.py --max -1 --dry-run", "--max -1: wants 1 or more"),
        ("train_Net.py --nproc 0 --dry-run", "--nproc 0: wants 1 or more"),
        ("train_Net.py --nproc 2 --plain --dry-run", "--nproc needs torchrun"),
        ("train_Net.py --priority Urgent --dry-run", "wants Experiment, Offline, Normal, Production"),
        ("train_Net.py --name Train_Net --dry-run", "metadata.name"),
        ("train_Net.py -m package.train --dry-run", "one of them"),
        ("--dry-run", "what to run?"),
        ("job.yaml --min 0 --dry-run", "--min: only with a script"),
        ("train_Net.py --kubeconfig elsewhere", "--image is required on a cluster"),
        ("absent.py --kubeconfig elsewhere --image x --dry-run", "absent.py: there is no such file; if the image has"),
        ("train_Net.py --kubeconfig elsewhere --image x --ship absent --dry-run", "--ship absent: there is no such"),
        ("train_Net.py --kubeconfig elsewhere --image x --ship / --no-ship --dry-run", "one of them"),
        ("train_Net.py --kubeconfig elsewhere --image x --ship home --dry-run", "is not in the directory"),
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


def test_a_module_with_processes_and_a_priority(script: Path, capsys: Output) -> None:
    made = shown(
        capsys, *["-m", "package.train_net", "--nproc", "2", "--priority", "Offline", "--dry-run", "--", "--lr", "1"]
    )
    assert check(made).problems == ()
    assert made["metadata"]["name"] == "train-net"
    assert made["metadata"]["annotations"]["edl.dev/priority"] == "Offline"
    container = made["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["torchrun", "--nproc-per-node=2", "-m", "package.train_net", "--lr", "1"]


def test_a_file_may_be_named_by_f(script: Path, capsys: Output) -> None:
    assert shown(capsys, "-f", "train_Net.py", "--dry-run")["metadata"]["name"] == "train-net"


def test_the_kubeconfig_of_this_machines_cluster_is_this_machine(
    script: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = script.parent / "home" / "kubeconfig"
    own.write_text("{}")
    monkeypatch.setenv("EDL_HOME", str(own.parent))
    monkeypatch.setenv("KUBECONFIG", str(own))
    made = shown(capsys, "train_Net.py", "--dry-run")
    container = made["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["workingDir"] == str(script.parent)


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
        assert "train-net: succeeded" in capsys.readouterr().out
        assert cluster.edl("logs", "train-net") == 0
        said = sorted(capsys.readouterr().out.splitlines())
        assert said == ["train-net-worker-0: worker 0 --lr 1", "train-net-worker-1: worker 1 --lr 1"]
        assert cluster.edl("get", "ptej/train-net") == 0
        assert "succeeded" in capsys.readouterr().out
        assert cluster.edl("describe", "train-net") == 0
        described = capsys.readouterr().out
        assert "ElasticJob default/train-net (elastic.pytorch.org)" in described
        assert "train-net-worker-1" in described
    finally:
        cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))


def test_the_code_goes_with_the_job_and_comes_to_every_worker(cluster: Cluster, script: Path, capsys: Output) -> None:
    """Though not to this machine's cluster by its own name: the workers see what was shipped, and not what is here."""
    script.write_text(
        "import os, sys\nfrom lib.net import LAYERS\n"
        "print('layers', LAYERS, sorted(os.listdir()), os.getcwd() != sys.argv[1])\n"
    )
    (script.parent / "lib").mkdir()
    (script.parent / "lib" / "net.py").write_text(f"LAYERS = 3\nWEIGHTS = {os.urandom(700_000).hex()!r}\n")
    (script.parent / "data.bin").write_bytes(b"x")
    (script.parent / ".edlignore").write_text("*.bin\nhome\n")
    words = ["run", "train_Net.py", "--image", "any", "--plain", "--min", "2", "--name", "shipped"]
    words += ["--", str(script.parent)]
    try:
        assert main([*words[:2], "--kubeconfig", str(cluster.config), *words[2:]]) == 0
        assert f"ships 3 files of {script.parent}, " in capsys.readouterr().out
        assert cluster.edl("logs", "shipped") == 0
        said = sorted(capsys.readouterr().out.splitlines())
        seen = "layers 3 ['.edlignore', 'lib', 'train_Net.py'] True"
        assert said == [f"shipped-worker-{index}: {seen}" for index in (0, 1)]
        job = cluster.do(cluster.client.get(ELASTIC_JOBS, "shipped", namespace="default"))
        found = cluster.do(cluster.client.list(CONFIG_MAPS, namespace="default", labels="edl.dev/job=shipped")).items
        shipped = [one for one in found if "binaryData" in one and "part" in one["binaryData"]]
        assert len(shipped) > 1
        assert {one["metadata"]["ownerReferences"][0]["uid"] for one in shipped} == {job["metadata"]["uid"]}
        assert "suspend" not in job["spec"]
    finally:
        cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))
    cluster.do(_until_none(cluster.client))


async def _until_none(client: Client) -> None:
    """ConfigMaps of jobs go with their jobs."""
    async with asyncio.timeout(30):
        while (await client.list(CONFIG_MAPS, namespace="default", labels="edl.dev/job")).items:
            await asyncio.sleep(0.05)


def test_who_may_not_ship_leaves_no_job_behind(cluster: Cluster, script: Path, capsys: Output) -> None:
    """The embedded server enforces quotas as Kubernetes does: no ConfigMap more is a refusal like any other."""
    count = len(cluster.do(cluster.client.list(CONFIG_MAPS, namespace="default")).items)
    quota = {"metadata": {"name": "no-code"}, "spec": {"hard": {"count/configmaps": str(count)}}}
    cluster.do(cluster.client.create(QUOTAS, quota, namespace="default"))
    try:
        assert cluster.edl("run", str(script), "--image", "any", "--plain") == 1
        said = capsys.readouterr().err
        assert "the code is shipped as ConfigMaps, which you may not create" in said
        assert "exceeded quota: no-code" in said
        assert cluster.do(cluster.client.list(ELASTIC_JOBS, namespace="default")).items == []
    finally:
        cluster.do(cluster.client.delete(QUOTAS, "no-code", namespace="default"))


@pytest.mark.parametrize("name", ["job.yaml", "imagenet.yaml"])
def test_the_manifests_beside_the_scripts_are_valid(name: str, capsys: Output) -> None:
    assert main(["validate", "-f", str(EXAMPLES / name)]) == 0
    assert capsys.readouterr().out.endswith(": valid\n")


@pytest.fixture
def run_again(cluster: Cluster, script: Path) -> Iterator[Callable[..., int]]:
    words = ("run", str(script), "--image", "any", "--plain", "--detach")
    yield lambda *more: cluster.edl(*words, *more)
    cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))


def test_running_a_script_again_replaces_what_has_ended(
    cluster: Cluster, script: Path, run_again: Callable[..., int], capsys: Output
) -> None:
    assert run_again() == 0
    assert "elasticjob/train-net submitted; `edl attach train-net` shows it" in capsys.readouterr().out
    assert cluster.edl("wait", "train-net", "--timeout", "60s") == 0
    assert "elasticjob/train-net succeeded" in capsys.readouterr().out
    assert cluster.edl("attach", "train-net") == 0
    assert "train-net: succeeded" in capsys.readouterr().out
    assert run_again() == 0
    assert "replaces elasticjob/train-net, which has ended: succeeded" in capsys.readouterr().out
    assert run_again("--if-exists", "fail") == 1
    assert "elasticjob/train-net exists" in capsys.readouterr().err


def test_running_a_script_beside_one_that_runs_numbers_it(
    cluster: Cluster, script: Path, run_again: Callable[..., int], capsys: Output
) -> None:
    script.write_text("import time\ntime.sleep(300)\n")
    assert run_again() == run_again() == 0
    assert "this one is train-net-2" in capsys.readouterr().out
    assert cluster.edl("wait", "train-net-2", "--timeout", "1s") == 2
    assert cluster.edl("wait", "train-net-2", "--timeout", "soon") == 1
    assert run_again("--if-exists", "replace") == 0
    assert "replaces elasticjob/train-net, which is stopped" in capsys.readouterr().out


def test_two_at_once_of_one_script_are_two_jobs_with_their_own_code(cluster: Cluster, script: Path) -> None:
    script.write_text("import time\ntime.sleep(300)\n")
    words = ["run", str(script), "--name", "twin", "--image", "any", "--plain", "--cpu", "10m", "--detach"]
    command = [sys.executable, "-m", "edl.cli.main", *words, "--kubeconfig", str(cluster.config)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    try:
        assert [process.returncode for process in both] == [0, 0], said
        found = {job["metadata"]["name"]: job for job in cluster.do(_jobs(cluster.client))}
        assert found.keys() >= {"twin", "twin-2"}
        codes = {found[name]["metadata"]["annotations"]["edl.dev/code"].split()[0] for name in ("twin", "twin-2")}
        assert len(codes) == 2
    finally:
        cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))


async def _jobs(client: Client) -> list[dict[str, Any]]:
    return list((await client.list(ELASTIC_JOBS, namespace="default")).items)


def test_a_flood_of_lines_and_binary_output_break_nothing(cluster: Cluster, script: Path) -> None:
    """20,000 lines at once, bytes that are no text, and a line that never ends: the end is shown, the log is whole."""
    script.write_text(
        "import sys\nout = sys.stdout.buffer\n"
        "for n in range(20_000):\n    out.write(b'line %d\\n' % n)\n"
        "out.write(bytes(range(256)) * 40 + b'\\n' + b'x' * 200_000 + b'\\nthe end\\n')\n"
    )
    common = ["--kubeconfig", str(cluster.config)]
    words = ["run", str(script), "--name", "flood", "--image", "any", "--plain", "--cpu", "10m"]
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "edl.cli.main", *words, *common], capture_output=True, timeout=120, check=False
        )
        assert (ran.returncode, b"Traceback" in ran.stderr) == (0, False), ran.stderr
        assert b"the end" in ran.stdout
        logs = subprocess.run(
            [sys.executable, "-m", "edl.cli.main", "logs", "flood", *common],
            capture_output=True,
            timeout=120,
            check=True,
        )
        lines = logs.stdout.splitlines()
        assert [line for line in lines if line.startswith(b"line ")] == [b"line %d" % n for n in range(20_000)]
        assert lines[-1] == b"the end"
    finally:
        cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))
