"""Manifests made to exhaust their reader are refused within a second of CPU time and 200 MB, as a process is seen."""

import os
import sys
from pathlib import Path

import pytest

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
BOMBS = {
    "ten megabytes of text": b"a: " + b"x" * 10_000_000,
    "ten megabytes of documents": b"---\na: 1\n" * 1_200_000,
    "ten megabytes of one list": b"- x\n" * 2_500_000,
    "ten thousand levels": b"[" * 10_000 + b"]" * 10_000,
    "ten thousand levels of blocks": b"- " * 10_000 + b"x",
    "anchors that explode": LAUGHS.encode(),
    "an anchor of itself": b"a: &a [*a]\n",
    "merges of merges": b"a: &a {x: 1}\n" + b"b: &b {<<: [*a, *a]}\n" * 20_000,
    "not UTF-8": b"a: \xff\xfe" + b"\x80" * 1_000_000,
    "five megabytes that are not UTF-8 at the end": b"a: " + b"x" * 4_900_000 + b"\xff",
    "one long number": b"a: " + b"9" * 4_000_000,
    "one long key": b"k" * 4_000_000 + b": 1",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_quickly_and_in_little_memory(bomb: str, tmp_path: Path) -> None:
    file, said = tmp_path / "bomb.yaml", tmp_path / "said"
    file.write_bytes(BOMBS[bomb])
    with said.open("wb") as output:
        command = [sys.executable, "-m", "edl.cli.main", "validate", "-f", str(file)]
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert said.read_text().startswith(f"{file}:")
    assert len(said.read_text().splitlines()) <= 101
    assert usage.ru_maxrss < 200_000, "in KB"
    assert usage.ru_utime + usage.ru_stime < 1.0
