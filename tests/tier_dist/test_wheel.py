"""The wheel in an empty virtualenv, in an empty directory: the commands that a newcomer tries first."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from edl import __version__
from tests.tier_dist.version import REPOSITORY, problem

pytestmark = [pytest.mark.dist, pytest.mark.timeout(900)]

INSTALL = 600
TRAIN = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {total.item()}", flush=True)
dist.destroy_process_group()
"""


def wheel() -> Path:
    (found,) = (REPOSITORY / "dist").glob("*.whl")
    return found


class Installed:
    """An empty virtualenv with the wheel in it, used from an empty directory with a home of its own."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "venv" / "bin"
        self.directory = root / "elsewhere"
        self.directory.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)
        self.env = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(root),
            "EDL_HOME": str(root / "edl"),
            **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))},
        }
        constraints = str(REPOSITORY / "constraints.txt")
        self.pip("install", "--constraint", constraints, str(wheel()))

    def pip(self, *words: str) -> None:
        # The caller's own settings of pip (an index, a proxy) live in its home.
        env = {**os.environ, "PATH": self.env["PATH"]}
        command = [str(self.bin / "pip"), "--quiet", "--disable-pip-version-check", *words]
        subprocess.run(command, env=env, cwd=self.directory, timeout=INSTALL, check=True)

    def edl(self, *words: str, timeout: float = 120) -> str:
        done = subprocess.run(
            ["edl", *words],
            env=self.env,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    made = Installed(tmp_path_factory.mktemp("wheel"))
    yield made
    made.edl("down", "--delete")


def test_the_wheel_holds_the_package_and_the_examples_alone() -> None:
    names = zipfile.ZipFile(wheel()).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"edl", f"edl_train-{__version__}.dist-info"}
    assert "edl/examples/fit_a_line/train.py" in names
    assert "edl/py.typed" in names


def test_what_is_imported_is_the_wheel(installed: Installed) -> None:
    said = subprocess.run(
        [str(installed.bin / "python"), "-c", "import edl; print(edl.__file__)"],
        env=installed.env, cwd=installed.directory, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert said.startswith(str(installed.bin.parent))
    assert installed.edl("version").strip().endswith(__version__)


def test_the_demo_runs_with_no_file_of_the_repository(installed: Installed) -> None:
    said = installed.edl("demo", "--quick", timeout=280)
    assert (installed.directory / "demo.svg").exists()
    assert "edl run train.py" in said, "its hint names nothing that only a checkout has"


def test_install_prints_manifests(installed: Installed) -> None:
    objects = list(yaml.safe_load_all(installed.edl("install", "--image", "registry.example.com/edl:1")))
    assert {"CustomResourceDefinition", "Deployment", "ClusterRole"} <= {one["kind"] for one in objects}


def test_up_and_run_of_a_script(installed: Installed) -> None:
    """PyTorch comes from the user, as everywhere: it is no dependency of ours."""
    versions = REPOSITORY / "constraints-frameworks.txt"
    pins = [line for line in versions.read_text().splitlines() if line.startswith("torch==")]
    uv = installed.bin / "uv"
    installed.pip("install", "uv")
    subprocess.run(
        [str(uv), "pip", "install", "--quiet", "--python", str(installed.bin / "python"), *pins],
        env={**os.environ, "PATH": installed.env["PATH"]}, timeout=INSTALL, check=True,
    )  # fmt: skip
    (installed.directory / "train.py").write_text(TRAIN)
    installed.edl("up", "--nodes", "2", "--cpu", "2", "--memory", "4Gi")
    installed.edl("run", "train.py", "--min", "2", "--max", "2", timeout=280)
    assert "of 2: sum 3.0" in installed.edl("logs", "train")


@pytest.mark.parametrize(
    ("tags", "says"),
    [([], None), (["latest"], None), (["v1.2.3"], None), (["v1.2.4"], "v1.2.4"), (["v1.2.4", "v1.2.3"], None)],
)
def test_a_tag_names_the_version(tags: list[str], says: str | None) -> None:
    found = problem("1.2.3", tags)
    assert (found is None) if says is None else (found is not None and says in found)
