"""What the benchmark of changes makes of workers' notes: cases small enough to count by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench.frameworks.ledger import Ledger
from bench.frameworks.spot import Change, available, read

TWO, THREE = 2, 3


class Notes:
    """Of workers whose names are numbers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def step(self, at: float, step: int, generation: int, workers: list[int], **samples: list[int]) -> None:
        """Done by all of these; `w1=[...]`: what a worker took for it."""
        for rank, pid in enumerate(workers):
            taken = samples.get(f"w{pid}", [])
            common = {"at": at, "step": step, "generation": generation}
            self.write(pid, what="took", epoch=(step - 1) // 2, samples=taken, **common)
            self.write(pid, what="did", cpu=at / 2, rank=rank, world=len(workers), **common)

    def write(self, pid: int, **line: Any) -> None:
        with (self._folder / f"{pid}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def test_a_restart_from_a_checkpoint_loses_steps_and_no_sample(tmp_path: Path) -> None:
    """Epochs of two steps; a kill after the third, and the checkpoint is of the first."""
    notes, ledger = Notes(tmp_path), Ledger(tmp_path)
    notes.step(1.0, 1, 1, [1, 2, 3], w1=[0], w2=[1], w3=[2])
    notes.step(2.0, 2, 1, [1, 2, 3], w1=[3], w2=[4], w3=[5])
    notes.step(3.0, 3, 1, [1, 2, 3], w1=[0], w2=[1], w3=[2])
    notes.step(8.0, 2, 2, [4, 5], w4=[3, 4], w5=[5])
    notes.step(9.0, 3, 2, [4, 5], w4=[0, 1], w5=[2])
    pause = ledger.pause(3.5, THREE, TWO)
    assert (pause.seconds, pause.steps, pause.lost) == (5.0, 5.0, 2)
    assert ledger.samples(6) == (0, 0), "what was lost is not part of the model"
    assert ledger.committed(0.0, 10.0) == 9
    assert ledger.cost(2, 3) == (1.0, 0.5 * 5)


def test_samples_that_nobody_trained_and_those_trained_twice_are_counted(tmp_path: Path) -> None:
    notes, ledger = Notes(tmp_path), Ledger(tmp_path)
    notes.step(1.0, 1, 0, [1, 2, 3], w1=[0], w2=[1], w3=[2])
    notes.step(2.0, 2, 0, [1, 2], w1=[3], w2=[0])
    notes.step(3.0, 3, 0, [1, 2])
    assert ledger.samples(6) == (1, 2)


def test_one_that_was_killed_before_it_could_say_so_did_the_step_all_the_same(tmp_path: Path) -> None:
    notes, ledger = Notes(tmp_path), Ledger(tmp_path)
    notes.step(1.0, 1, 1, [1], w1=[0])
    notes.write(2, at=0.5, what="took", step=1, generation=1, epoch=0, samples=[1])
    notes.write(2, at=1.5, what="took", step=2, generation=1, epoch=0, samples=[3])
    notes.step(2.0, 2, 2, [1], w1=[2, 3])
    notes.step(3.0, 3, 2, [1], w1=[0])
    assert ledger.samples(4) == (0, 0), "and the step that did not happen counts for nothing"


def test_changes_that_follow_each_other_stop_training_once_each(tmp_path: Path) -> None:
    notes, ledger = Notes(tmp_path), Ledger(tmp_path)
    notes.step(1.0, 1, 1, [1])
    notes.step(2.0, 2, 1, [1])
    notes.step(2.5, 3, 2, [1, 2])
    notes.step(3.5, 4, 2, [1, 2])
    notes.step(4.25, 5, 3, [1, 2, 3])
    assert ledger.pause(1.5, 1, THREE).seconds == 0.5 + 0.75
    assert ledger.count(TWO, 0.0) == 2


def test_a_trace_of_instances_becomes_sizes(tmp_path: Path) -> None:
    rows = [
        "hh,0,add," + " ".join(f"n{number}" for number in range(32)),
        "hh,900,migration,",
        "hh,1800,remove,n0 n1 n2 n3",
    ]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["regime,t_s,event,nodes", *rows, "hh,2000,add,n40", "hh,3600,end,", "lh,0,add,n0"]))
    changes, pace = read(trace, "hh", 180.0)
    assert changes == [Change(0.0, 8), Change(90.0, 7), Change(180.0, 7)]
    assert (available(changes), pace) == (8 * 90 + 7 * 90, 0.05)
    with pytest.raises(ValueError, match="no regime 'lh' that ends"):
        read(trace, "lh", 180.0)
