"""Checkpoint files: whole or not there, and damage is seen."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from edl.runtime.parameters.checkpoint import DamagedCheckpointError, load, newest, prune, save, save_queue
from tests.runtime.harness import ROOT, until


class About(msgspec.Struct):
    words: str


ARRAYS: dict[str, Any] = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "none": np.zeros((0, 4), np.int64),
    "b": np.ones(3, np.int32),
}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    size = save(tmp_path / "deep" / "er", 7, 1, 3, About("hello"), ARRAYS)
    about, arrays = load(tmp_path / "deep" / "er", 7, 1, 3)
    assert msgspec.msgpack.decode(about, type=About).words == "hello"
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert (arrays[name] == array).all()
    assert size == next((tmp_path / "deep" / "er").rglob("shard-1-of-3")).stat().st_size


@pytest.mark.parametrize("harm", ["truncate", "flip", "empty", "absent"])
def test_damage_is_seen(tmp_path: Path, harm: str) -> None:
    save(tmp_path, 1, 0, 1, About(""), ARRAYS)
    place = next(tmp_path.rglob("shard-0-of-1"))
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    if harm == "absent":
        place.unlink()
    else:
        place.write_bytes(bytes({"truncate": data[:-40], "flip": data, "empty": b""}[harm]))
    with pytest.raises(DamagedCheckpointError, match="checkpoint 1 of shard 0"):
        load(tmp_path, 1, 0, 1)


def test_the_newest_whole_checkpoint_is_found_with_its_queue(tmp_path: Path) -> None:
    assert newest(tmp_path) == newest(tmp_path / "absent") == (0, b"")
    for number in (3, 4, 5, 6):
        for shard in range(2):
            save_queue(tmp_path, number, shard, b"queue of %d" % number)
            save(tmp_path, number, shard, 2, About(""), {})
    assert newest(tmp_path) == (6, b"queue of 6")
    next(tmp_path.rglob("0000000006/shard-1-of-2")).unlink()
    next(tmp_path.rglob("0000000005/queue")).write_bytes(b"altered, and longer than any digest would be")
    assert newest(tmp_path) == (4, b"queue of 4"), "of the newest a shard is missing, of the next the queue is damaged"
    next(tmp_path.rglob("0000000004/queue")).unlink()
    assert newest(tmp_path) == (3, b"queue of 3"), "one of an older EDL has no queue"
    assert not list(tmp_path.rglob("*.draft"))


def test_only_the_needed_ones_stay(tmp_path: Path) -> None:
    for number in range(1, 6):
        save(tmp_path, number, 0, 1, About(""), {})
    prune(tmp_path, keep=[2, 4], below=5)
    assert sorted(int(folder.name) for folder in tmp_path.iterdir()) == [2, 4, 5]


def test_kill_9_in_the_middle_of_writing_leaves_the_older_file_and_no_torn_one(tmp_path: Path) -> None:
    code = (
        "import sys, msgspec, numpy as np; from pathlib import Path\n"
        "from edl.runtime.parameters.checkpoint import save\n"
        "class About(msgspec.Struct): words: str\n"
        "for n in range(10**6): save(Path(sys.argv[1]), 1, 0, 1, About(str(n)), {'a': np.full(1 << 18, n, np.int32)})"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    place = tmp_path / "0000000001" / "shard-0-of-1"
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=env)
        try:
            drafts = f"*.{process.pid}.draft"
            until(lambda: (place.exists() and list(place.parent.glob(drafts))) or None, "second file")  # noqa: B023
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        about, arrays = load(tmp_path, 1, 0, 1)
        number = int(msgspec.msgpack.decode(about, type=About).words)
        assert (arrays["a"] == number).all()
