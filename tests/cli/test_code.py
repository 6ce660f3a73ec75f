"""The directory of a script, packed for a cluster: what is in it, what is left out, and what is refused."""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.cli.errors import CommandError
from edl.cli.input.code import MAX_FILES, PART_BYTES, pack, pack_file
from edl.cli.input.ignore import Ignored, parse


def project(top: Path, *names: str) -> Path:
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return top


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return sorted(member.name for member in opened if not member.isdir())


IGNORE = """
# data and what is built
*.ckpt
/data
build/
pages/**/*.svg
logs/*.txt
!logs/kept.txt
!important.ckpt
sp\\ ace
[ab].bin
a/**/z
tail/**
\\#literal
"""
PATHS = [
    "train.py", "x.ckpt", "deep/x.ckpt", "important.ckpt", "data/set.csv", "deep/data/set.csv", "build/lib.so",
    "deep/build/lib.so", "pages/a.svg", "pages/b/c/d.svg", "pages/a.md", "logs/1.txt", "logs/kept.txt",
    "logs/deep/2.txt", "sp ace", "a.bin", "c.bin", "a/z", "a/b/c/z", "tail/x/y", "tail.py", "#literal",
]  # fmt: skip

OUT = [
    "x.ckpt", "deep/x.ckpt", "data/set.csv", "build/lib.so", "deep/build/lib.so", "pages/a.svg", "pages/b/c/d.svg",
    "logs/1.txt", "sp ace", "a.bin", "a/z", "a/b/c/z", "tail/x/y", "#literal",
]  # fmt: skip


def test_ignore_files_are_read_as_git_reads_them(tmp_path: Path) -> None:
    project(tmp_path, *PATHS)
    (tmp_path / ".gitignore").write_text(IGNORE)
    packed = names(pack(tmp_path).archive)
    out = sorted(set(PATHS) - set(packed))
    assert out == sorted(OUT)
    if git := shutil.which("git"):
        subprocess.run([git, "init", "-q", str(tmp_path)], check=True)
        said = subprocess.run(
            [git, "-C", str(tmp_path), "check-ignore", "--stdin"],
            input="\n".join(PATHS), capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert sorted(line.strip('"') for line in said.stdout.splitlines()) == out


def test_deeper_files_and_edlignore_have_the_last_word(tmp_path: Path) -> None:
    project(tmp_path, "repo/.git/config", "repo/job/train.py", "repo/job/a.log", "repo/job/b.log", "repo/job/sub/c.log")
    (tmp_path / "repo" / ".gitignore").write_text("*.log\n")
    (tmp_path / "repo" / "job" / ".edlignore").write_text("!a.log\nsecret*\n")
    (tmp_path / "repo" / "job" / "sub" / ".gitignore").write_text("!c.log\n")
    (tmp_path / "repo" / "job" / "secret.env").write_text("x")
    packed = names(pack(tmp_path / "repo" / "job").archive)
    assert packed == [".edlignore", "a.log", "sub/.gitignore", "sub/c.log", "train.py"]


def test_history_caches_and_environments_stay_here(tmp_path: Path) -> None:
    project(tmp_path, ".git/x", "__pycache__/y.pyc", "env/pyvenv.cfg", "env/lib/z.py", "train.py")
    assert names(pack(tmp_path).archive) == ["train.py"]


@pytest.mark.parametrize("line", ["", "   ", "# comment", "[never", "/"])
def test_a_line_that_matches_nothing(line: str) -> None:
    assert parse(line) is None


def test_a_directory_without_ignore_files_ignores_nothing(tmp_path: Path) -> None:
    assert not Ignored.at(tmp_path).below(tmp_path).is_out(tmp_path / "x", directory=False)


def test_the_same_code_has_the_same_digest(tmp_path: Path) -> None:
    first = project(tmp_path / "a", "train.py", "lib/net.py")
    second = project(tmp_path / "b", "lib/net.py", "train.py")
    os.utime(second / "train.py", (1, 1))
    assert pack(first).digest == pack(second).digest
    (second / "train.py").write_text("edited")
    assert pack(first).digest != pack(second).digest


def test_links_and_what_is_no_file(tmp_path: Path) -> None:
    top = project(tmp_path / "top", "train.py", "lib/net.py")
    (top / "inside").symlink_to("lib/net.py")
    (top / "outside").symlink_to("../elsewhere")
    (top / "absolute").symlink_to("/etc/passwd")
    os.mkfifo(top / "pipe")
    code = pack(top)
    assert names(code.archive) == ["inside", "lib/net.py", "train.py"]
    assert sorted(code.left_out) == ["absolute", "outside", "pipe"]


def test_200_megabytes_are_refused_and_the_largest_named(tmp_path: Path) -> None:
    project(tmp_path, "train.py")
    for name, size in (("model.ckpt", 150 << 20), ("data/set.bin", 50 << 20)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(size)
    with pytest.raises(CommandError) as refused:
        pack(tmp_path)
    said = str(refused.value)
    assert "has 200.0 MiB, at most 100.0 MiB are shipped" in said
    assert "model.ckpt (150.0 MiB), data/set.bin (50.0 MiB), train.py" in said
    assert ".edlignore" in said
    (tmp_path / ".edlignore").write_text("*.ckpt\n*.bin\n")
    assert names(pack(tmp_path).archive) == [".edlignore", "train.py"]


def test_what_does_not_pack_well_is_refused_by_its_packed_size(tmp_path: Path) -> None:
    (tmp_path / "random.bin").write_bytes(os.urandom(12 << 20))
    with pytest.raises(CommandError, match=r"has 12\.0 MiB packed, at most 10\.3 MiB are shipped; the largest: random"):
        pack(tmp_path)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_FILES == 10_000
    monkeypatch.setattr("edl.cli.input.code.MAX_FILES", 3)
    with pytest.raises(CommandError, match="has 4 files, at most 3 are shipped"):
        pack(project(tmp_path, "a", "b", "c", "d"))


@pytest.fixture
def of_somebody_else() -> Iterator[Path]:
    """A project of which the user may not read everything."""
    top = Path(tempfile.mkdtemp(prefix="edl-code-"))
    try:
        top.chmod(0o755)
        project(top, "train.py", "private/key.pem", "secret.env")
        (top / "private").chmod(0)
        (top / "secret.env").chmod(0)
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may read anything
        yield top
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        (top / "private").chmod(0o700)
        shutil.rmtree(top)


def test_what_cannot_be_read_is_named(of_somebody_else: Path) -> None:
    with pytest.raises(CommandError) as refused:
        pack(of_somebody_else)
    said = str(refused.value)
    assert said.startswith("private, secret.env: cannot be read")
    assert ".edlignore" in said


def test_large_code_comes_in_parts(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(os.urandom(2 << 20))
    code = pack(tmp_path)
    assert [len(part) for part in code.parts[:-1]] == [PART_BYTES] * (len(code.parts) - 1) == [PART_BYTES] * 2
    assert b"".join(code.parts) == code.archive


def test_a_function_goes_alone(tmp_path: Path) -> None:
    project(tmp_path, "train-1.py", "other-2.py")
    assert names(pack_file(tmp_path / "train-1.py").archive) == ["train-1.py"]
