"""`edl run train.py` with real torchrun: no YAML, and no cluster to begin with."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.stories.backend import caller
from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.training import ROOT

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]


def edl(home: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "edl.cli.main", *words],
        env={**caller(), "EDL_HOME": str(home), "KUBECONFIG": "", "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_script_is_all_that_is_needed(tmp_path: Path) -> None:
    home, saved = tmp_path / "home", tmp_path / "model.pt"
    options = ("--min", "1", "--max", "2", "--cpu", "500m")
    try:
        reported = edl(
            home, "run", "examples/pytorch/train.py", *options, "--", "--steps", "60", "--checkpoint", str(saved)
        )
        assert "train: ElasticJob train is successfully completed" in reported
        assert "step 60 of 60" in edl(home, "logs", "train")
    finally:
        edl(home, "down", "--delete")
    assert torch.load(saved, weights_only=True)["step"] == 60


BROKEN = {
    "file.py": ("open('/nowhere/data')\n", "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/data'"),
    "syntax.py": ("for step in range(3)\n    print(step)\n", "SyntaxError: expected ':'"),
    "module.py": ("import nope\n", "ModuleNotFoundError: No module named 'nope'"),
    "flag.py": (
        "import argparse\nargparse.ArgumentParser().parse_args(['--nope'])\n",
        "unrecognized arguments: --nope",
    ),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_script_that_cannot_work_ends_after_two_rounds_with_its_last_words(name: str, tmp_path: Path) -> None:
    text, words = BROKEN[name]
    (tmp_path / name).write_text(text)
    home = tmp_path / "home"
    command = [sys.executable, "-m", "edl.cli.main", "run", str(tmp_path / name), "--min", "2", "--cpu", "500m"]
    environment = {**caller(), "EDL_HOME": str(home), "KUBECONFIG": ""}
    try:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 1
        assert words in done.stderr
        assert "zygote.py" not in done.stderr, "the script's own lines alone"
        log = edl(home, "logs", name.removesuffix(".py"))
    finally:
        edl(home, "down", "--delete")
    assert "round 2: rank" in log
    assert "round 3: rank" not in log
    assert "RendezvousClosedError" not in log, "no traceback but the script's"


def test_a_change_in_place_is_told_wherever_one_looks(tmp_path: Path) -> None:
    home = tmp_path / "home"
    words = ["run", "examples/pytorch/elastic.py", "--min", "1", "--max", "2", "--cpu", "200m"]
    with (tmp_path / "run.log").open("w+") as log:
        command = [sys.executable, "-m", "edl.cli.main", *words, "--", "--epochs", "100000", "--pause", "0.1"]
        environment = {**caller(), "EDL_HOME": str(home), "KUBECONFIG": "", "OMP_NUM_THREADS": "1"}
        running = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            until(lambda: "size 2/2, step" in (tmp_path / "run.log").read_text(), "two workers that train", 180.0)
            edl(home, "scale", "elastic", "1")
            until(lambda: "workers 2 -> 1 in place" in (tmp_path / "run.log").read_text(), "a change", 120.0)
            told = "workers 2 -> 1 in place: training stopped for"
            assert f"Changed:  {told}" in edl(home, "describe", "elastic")
            (event,) = [line for line in edl(home, "events", "elastic").splitlines() if told in line]
            assert "MembersChanged" in event
            assert "0 steps lost, 0 B sent" in event
        finally:
            running.terminate()
            running.wait(60)
            edl(home, "down", "--delete")
