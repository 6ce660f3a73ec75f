"""The init container's work: EDL's pod side in an image that has none of it, and the user's code beside it."""

import ast
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path

import pytest

import edl
from edl.runtime.carry import CARRIED, DISTRIBUTION, ENTRY_POINTS, main

SOURCE = Path(edl.__file__).parent
NEEDS_TORCH = {"edl.runtime.torch.agent", "edl.runtime.torch.handler"}
IMPORTS = """
import importlib, sys
from importlib.metadata import entry_points
for name in {names}:
    importlib.import_module(name)
[found] = entry_points(group="torchrun.handlers", name="edl")
handler = found.load()
assert callable(handler())
outside = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names) - {{"edl", "__main__"}}
assert not outside, outside
import edl
print(edl.__file__, edl.__version__, sys.modules[handler.__module__].__file__)
"""


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    """As an init container of another user leaves it."""
    target = tmp_path / "runtime"
    target.mkdir()
    before = os.umask(0o077)
    try:
        assert main(["--runtime", str(target)]) == 0
        assert main(["--runtime", str(target)]) == 0  # it may be started again
    finally:
        os.umask(before)
    return target


def importable(carried: Path) -> list[str]:
    """That can be imported without torch: `edl.torch` by name alone, for it imports torch when it is used."""
    found = [".".join(path.relative_to(carried).with_suffix("").parts) for path in carried.rglob("*.py")]
    plain = [name.removesuffix(".__init__") for name in found if not name.startswith("edl.torch.")]
    return sorted({*plain, "edl.torch"} - NEEDS_TORCH)


def run(python: str, program: str, *path: Path) -> "subprocess.CompletedProcess[str]":
    env = {"PYTHONPATH": os.pathsep.join(map(str, path)), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [python, "-S", "-c", program], env=env, capture_output=True, text=True, timeout=60, check=False
    )


def pythons() -> list[str]:
    """The interpreters of this machine that images may have; ours at least."""
    named = [shutil.which(f"python3.{minor}") for minor in range(10, 15)]
    return [sys.executable, *(path for path in named if path and works(path))]


def works(python: str) -> bool:
    """Version managers leave names behind that lead nowhere."""
    return subprocess.run([python, "--version"], capture_output=True, timeout=60, check=False).returncode == 0


def test_every_python_finds_all_that_it_needs(carried: Path) -> None:
    program = IMPORTS.format(names=importable(carried))
    for python in pythons():
        ran = run(python, program, carried)
        assert ran.returncode == 0, f"{python}: {ran.stderr}"
        package = carried / "edl"
        assert ran.stdout.split() == [
            str(package / "__init__.py"),
            edl.__version__,
            str(package / "runtime" / "torch" / "plugin.py"),
        ]


def test_nothing_that_is_carried_needs_what_is_not(carried: Path) -> None:
    """Modules that import torch as well, which no other test here can import."""
    found = {".".join(path.relative_to(carried).with_suffix("").parts) for path in carried.rglob("*.py")}
    known = found | {name.removesuffix(".__init__") for name in found}
    for path in carried.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "edl":
                wanted = [f"{node.module}.{name.name}" for name in node.names]
                assert node.module in known or all(name in known for name in wanted), f"{path}: {node.module}"
            elif isinstance(node, ast.Import):
                ours = [name.name for name in node.names if name.name.split(".")[0] == "edl"]
                assert all(name in known for name in ours), f"{path}: {ours}"


def test_torchrun_is_told_of_the_backend_as_by_the_installed_package() -> None:
    installed = [one for one in distribution("edl-train").entry_points if one.group == "torchrun.handlers"]
    assert [f"[{one.group}]\n{one.name} = {one.value}\n" for one in installed] == [ENTRY_POINTS]


def test_an_image_that_has_the_package_uses_its_own(carried: Path, tmp_path: Path) -> None:
    program = "import edl.runtime.torch.plugin as p, edl; print(edl.__file__, p.__file__)"
    ran = run(sys.executable, program, carried, SOURCE.parent)
    own = [str(SOURCE / "__init__.py"), str(SOURCE / "runtime" / "torch" / "plugin.py")]
    assert (ran.stdout.split(), ran.stderr) == (own, "")


def test_another_project_of_that_name_is_not_taken_for_it(carried: Path, tmp_path: Path) -> None:
    other = tmp_path / "site" / "edl"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('another project')\n")
    ran = run(sys.executable, "import edl.runtime.torch.plugin as p; print(p.__file__)", carried, other.parent)
    assert (ran.stdout.strip(), ran.stderr) == (str(carried / "edl" / "runtime" / "torch" / "plugin.py"), "")


def test_every_user_may_read_what_is_carried(carried: Path) -> None:
    for path in (*carried.iterdir(), *carried.rglob("*")):
        wanted = 0o755 if path.is_dir() else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    assert (carried / DISTRIBUTION / "METADATA").exists()
    assert all((SOURCE / name).exists() for name in CARRIED)


def packed(*members: tuple[str, bytes | str, int]) -> bytes:
    """`bytes` are a file, `str` the target of a link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, mode in members:
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def carry_code(tmp_path: Path, archive: bytes, digest: str = "", *, size: int = 50) -> int:
    parts, target = tmp_path / "parts", tmp_path / "code"
    for folder in (parts, target):
        folder.mkdir(exist_ok=True)
    for index, at in enumerate(range(0, len(archive), size)):
        (parts / f"{index:03}").write_bytes(archive[at : at + size])
    (parts / "..data").mkdir(exist_ok=True)  # as the kubelet has it there
    before = os.umask(0o077)
    try:
        return main(["--code", str(parts), digest or sha256(archive).hexdigest(), str(target)])
    finally:
        os.umask(before)


def test_code_is_unpacked_for_a_worker_of_another_user(tmp_path: Path) -> None:
    archive = packed(("train.py", b"print(1)", 0o600), ("a/run.sh", b"#!", 0o700), ("a/link.py", "../train.py", 0o777))
    assert carry_code(tmp_path, archive) == carry_code(tmp_path, archive) == 0
    code = tmp_path / "code"
    assert sorted(path.relative_to(code).as_posix() for path in code.rglob("*")) == [
        "a",
        "a/link.py",
        "a/run.sh",
        "train.py",
    ]
    modes = [stat.S_IMODE((code / name).stat().st_mode) for name in ("train.py", "a", "a/run.sh")]
    assert modes == [0o666, 0o777, 0o777]
    assert (code / "a" / "link.py").read_text() == "print(1)"


def test_a_part_that_is_missing_is_said_before_anything_is_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carry_code(tmp_path, packed(("train.py", b"1", 0o600)), "0" * 64) == 1
    assert "are not the code of this job; submit it again" in capsys.readouterr().err
    assert list((tmp_path / "code").iterdir()) == []


@pytest.mark.parametrize(
    "member", [("../out.py", b"1", 0o600), ("/out.py", b"1", 0o600), ("link", "../../out", 0o777), ("l", "/etc", 0o777)]
)
def test_nothing_leads_out_of_the_working_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], member: tuple[str, bytes | str, int]
) -> None:
    assert carry_code(tmp_path, packed(member)) == 1
    assert "leads out of the working directory" in capsys.readouterr().err
    assert not (tmp_path / "out.py").exists()
