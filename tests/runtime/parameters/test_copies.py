"""Copies of checkpoint files between servers: sent where they are missing, fetched from whoever has them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edl.runtime.parameters import copies
from edl.runtime.parameters.checkpoint import DamagedCheckpointError, ShardFile, save
from edl.runtime.parameters.copies import Copies, UnreachableCopyError
from edl.runtime.parameters.messages import FetchPart
from edl.runtime.parameters.model import Model
from edl.runtime.parameters.server import ParameterServer
from edl.runtime.rpc import RefusalError, Server, listen

FILE = ShardFile(3, 0, 2)
Serve = Callable[[Path], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = []

    def start(directory: Path) -> str:
        listener = listen("127.0.0.1", 0)
        servers.append(Server(ParameterServer(directory, "token"), "token", listener))
        servers[-1].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def write(directory: Path) -> Copies:
    save(directory, FILE.number, FILE.shard, FILE.shards, Model(()), {"a": np.arange(1000)})
    return Copies(directory, "token")


def test_a_file_is_copied_and_fetched_in_parts(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PART", 1000)
    address = serve(tmp_path / "next")
    write(tmp_path / "own").send(address, 1, FILE)
    assert FILE.path(tmp_path / "next").read_bytes() == FILE.path(tmp_path / "own").read_bytes()
    assert [place.name for place in FILE.path(tmp_path / "next").parent.iterdir()] == ["shard-0-of-2"]
    _, arrays = Copies(tmp_path / "new", "token").fetch([serve(tmp_path / "empty"), address], FILE)
    assert (arrays["a"] == np.arange(1000)).all()


def test_on_a_shared_volume_nothing_is_sent(tmp_path: Path, serve: Serve) -> None:
    own = write(tmp_path)
    before = _written(FILE.path(tmp_path))
    own.send(serve(tmp_path), 1, FILE)
    assert _written(FILE.path(tmp_path)) == before


def _written(path: Path) -> tuple[int, int, int]:
    """Which file it is and when it was written; reading it is nobody's business."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def test_a_file_that_is_there_and_differs_is_replaced(tmp_path: Path, serve: Serve) -> None:
    own = write(tmp_path / "own")
    save(tmp_path / "next", 3, 0, 2, Model(()), {"a": np.arange(5)})
    own.send(serve(tmp_path / "next"), 1, FILE)
    assert FILE.path(tmp_path / "next").read_bytes() == FILE.path(tmp_path / "own").read_bytes()


def test_a_copy_that_did_not_arrive_whole_is_refused(tmp_path: Path, serve: Serve) -> None:
    own = write(tmp_path / "own")
    place = FILE.path(tmp_path / "own")
    place.write_bytes(place.read_bytes()[:-1] + b"?")
    with pytest.raises(RefusalError, match="the copy of checkpoint 3 of shard 0 was cut short or altered"):
        own.send(serve(tmp_path / "next"), 1, FILE)
    assert not FILE.path(tmp_path / "next").exists()


def test_a_damaged_copy_is_passed_over_for_a_whole_one(tmp_path: Path, serve: Serve) -> None:
    write(tmp_path / "whole")
    write(tmp_path / "damaged")
    place = FILE.path(tmp_path / "damaged")
    place.write_bytes(place.read_bytes()[:-1])
    _, arrays = Copies(tmp_path, "token").fetch([serve(tmp_path / "damaged"), serve(tmp_path / "whole")], FILE)
    assert len(arrays["a"]) == 1000


def test_a_file_is_lost_only_when_all_have_answered(tmp_path: Path, serve: Serve) -> None:
    empty, own = serve(tmp_path / "empty"), Copies(tmp_path, "token")
    with pytest.raises(DamagedCheckpointError, match="on no parameter server that is left"):
        own.fetch([empty], FILE)
    with pytest.raises(UnreachableCopyError, match="Connection refused"):
        own.fetch([empty, "127.0.0.1:1"], FILE)


def test_a_fetch_beyond_the_end_of_a_file_answers_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    reply = ParameterServer(tmp_path).fetch(FetchPart(3, 0, 2, 1 << 40), memoryview(b""))
    assert reply.buffers == [b""]
