"""Manifests made to exhaust their reader are refused within a second of CPU time and 200 MB, as a process is seen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ORDINARY = Path(__file__).parents[2] / "examples" / "fit_a_line" / "job.yaml"
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


# A process of its own between us and the command: a child's peak counts what its parent had when it was made, and a
# test runner may have more than the limit.
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": code, "kilobytes": used.ru_maxrss, "seconds": used.ru_utime + used.ru_stime}))
"""


def validated(file: Path) -> tuple[dict[str, float], str]:
    """What it took, and what it said of errors."""
    command = [sys.executable, "-c", MEASURE, sys.executable, "-m", "edl.cli.main", "validate", "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def second() -> float:
    """Of CPU time; more on a machine that is so busy that an ordinary manifest takes more than a tenth of it."""
    measured, errors = validated(ORDINARY)
    assert measured["code"] == 0, errors
    return max(1.0, 10 * measured["seconds"])


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_quickly_and_in_little_memory(bomb: str, tmp_path: Path, second: float) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_bytes(BOMBS[bomb])
    measured, errors = validated(file)
    assert measured["code"] == 1
    assert errors.startswith(f"{file}:")
    assert len(errors.splitlines()) <= 101
    assert measured["kilobytes"] < 200_000
    assert measured["seconds"] < second
