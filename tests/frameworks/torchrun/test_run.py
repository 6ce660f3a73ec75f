"""`edl run train.py` with real torchrun: no YAML, and no cluster to begin with."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.frameworks.torchrun.training import ROOT
from tests.stories.backend import caller

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
        told = edl(
            home, "run", "examples/pytorch/train.py", *options, "--", "--steps", "60", "--checkpoint", str(saved)
        )
        assert "train: Succeeded" in told
        assert "step 60 of 60" in edl(home, "logs", "train")
    finally:
        edl(home, "down", "--delete")
    assert torch.load(saved, weights_only=True)["step"] == 60
