"""Ranks that agree: on the one checkpoint that all load, and on the call of `save` at which all stop."""

import datetime
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import HashStore, ProcessGroupGloo

from edl.torch.checkpoints import peers
from edl.torch.checkpoints.checkpointer import Checkpointer
from edl.torch.checkpoints.choice import BRANCH, STEP, Chosen, Source, choose
from edl.torch.checkpoints.folder import CheckpointFolder
from edl.torch.checkpoints.peers import Peers

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(120)]


def together(size: int, act: Callable[[Peers], Any]) -> list[Any]:
    """What each rank has of it; the ranks are threads."""
    store, results = HashStore(), [None] * size

    def run(rank: int) -> None:
        options = ProcessGroupGloo._Options()
        options._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        options._timeout = datetime.timedelta(seconds=60)
        results[rank] = act(Peers(rank, size, ProcessGroupGloo(store, rank, size, options)))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90.0)
    return results


def source(name: str, *steps: int, branch: int = 1, damaged: tuple[int, ...] = ()) -> Source:
    def read(step: int) -> dict[str, Any] | None:
        state = {STEP: step, BRANCH: branch, "weight": torch.full((3,), float(step + 1000 * branch))}
        return None if step in damaged else state

    return Source(name, list(steps), read)


Sources = list[list[Source]]
CASES: list[tuple[str, Sources, int, list[str]]] = [
    ("nobody has any", [[source("memory")], []], 0, []),
    ("memory before disk", [[source("memory", 5), source("disk", 5)]] * 2, 1005, ["memory", "memory"]),
    ("a pod that is new", [[source("memory", 4, 5)], [source("disk", 1)]], 1005, ["memory", "a neighbour"]),
    ("a folder that one pod lacks", [[source("disk", 3, 8)], [source("disk")]], 1008, ["disk", "a neighbour"]),
    ("a newer file than what is in memory", [[source("memory", 5), source("disk", 8)]] * 2, 1008, ["disk", "disk"]),
    ("a damaged file", [[source("disk", 7, 8, damaged=(8,))]] * 2, 1007, ["disk", "disk"]),
    ("damaged at one rank", [[source("disk", 8, damaged=(8,))], [source("disk", 8)]], 1008, ["a neighbour", "disk"]),
    ("torn in memory, whole on disk", [[source("memory", 8, damaged=(8,)), source("disk", 8)]], 1008, ["disk"]),
    ("another training", [[source("memory", 6)], [source("memory", 6, branch=2)]], 2006, ["a neighbour", "memory"]),
]


@pytest.mark.parametrize(("case", "given", "weight", "where"), CASES, ids=[case[0] for case in CASES])
def test_all_load_the_newest_that_any_has(case: str, given: Sources, weight: int, where: list[str]) -> None:
    found: list[Chosen | None] = together(len(given), lambda those: choose(those, given[those.rank]))
    if not weight:
        assert found == [None] * len(given)
        return
    assert [one.where for one in found if one] == where
    assert all(torch.equal(one.state["weight"], torch.full((3,), float(weight))) for one in found if one)


@pytest.mark.parametrize("missing", [False, True])
def test_a_volume_that_a_pod_lacks_is_said(tmp_path: Path, missing: bool, caplog: pytest.LogCaptureFixture) -> None:
    CheckpointFolder(tmp_path / "data", 2).write(4, {STEP: 4, BRANCH: 1})

    def look(those: Peers) -> None:
        folder = tmp_path / ("nowhere" if missing and those.rank == 1 else "data")
        Checkpointer(folder)._warn_of_different_folders(those)

    together(2, look)
    assert caplog.text.count("mount one volume in all of them") == missing


def test_all_ranks_stop_at_the_call_after_the_first_that_was_asked_to() -> None:
    """Whichever rank it was, and however the ranks' calls lie in time."""

    def calls(those: Peers) -> list[tuple[bool, bool]]:
        return [those.vote(stop=call == 3 and those.rank == 1, write=call == 1) for call in range(6)]

    heard = together(3, calls)
    assert heard[0] == heard[1] == heard[2]
    assert [stop for stop, _ in heard[0]] == [False, False, False, False, True, False]
    assert [write for _, write in heard[0]] == [False, False, True, False, False, False]


def test_ranks_that_do_not_save_are_given_up(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(peers, "LATE", datetime.timedelta(seconds=0.2))
    done = threading.Event()

    def save(those: Peers) -> list[bool]:
        if those.rank == 1:
            done.wait(60.0)
            return []
        heard = [those.vote(stop=call == 2)[0] for call in range(4)]
        done.set()
        return heard

    assert together(2, save)[0] == [False, False, True, False]
    assert caplog.text.count("not called by all ranks alike") == 1
