"""The version before, unpacked from the history, and both versions as commands on one home.

The version before is the newest tag that this commit descends from, and a fixed commit until there is one. A clone
without history fails the tests that need it: a skipped upgrade test protects nobody.
"""

import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FIRST = "b03dbd5"
PATIENCE = 120


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr.decode()}; these tests need the whole history"
    return done.stdout


def previous_version() -> str:
    """A tag on this very commit is this version, not the one before."""
    tags = _git("tag", "--merged", "HEAD^", "--sort=-creatordate", "--list", "v*").decode().split()
    return tags[0] if tags else FIRST


def unpack(where: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", previous_version()))) as archive:
        archive.extractall(where, filter="data")
    return where


class Version:
    """The `edl` of one source tree. Dependencies are those of the environment that runs the tests."""

    def __init__(self, source: Path, home: Path) -> None:
        self.env = {**os.environ, "PYTHONPATH": str(source / "src"), "EDL_HOME": str(home)}
        self.env.pop("KUBECONFIG", None)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "edl.cli.main", *words]

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            self._command(*words), env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def start(self, log: Path, *words: str) -> "subprocess.Popen[bytes]":
        with log.open("ab") as out:
            return subprocess.Popen(self._command(*words), env=self.env, stdout=out, stderr=out)


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)
