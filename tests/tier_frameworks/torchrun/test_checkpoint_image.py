"""Checkpoints in memory and on disk, one process: whole or not there, and never in the way of the training."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import edl.torch as elastic
from edl.runtime.torch.checkpoint_memory import MEMORY, CheckpointMemory
from edl.torch.checkpoints import image
from edl.torch.checkpoints.buffers import Buffer
from edl.torch.checkpoints.folder import CheckpointFolder
from edl.torch.checkpoints.writer import Job, Writer
from edl.torch.sharded import pieces
from tests.tier_frameworks.torchrun.group import until

pytestmark = pytest.mark.frameworks


@pytest.fixture
def memory() -> Iterator[CheckpointMemory]:
    made = CheckpointMemory()
    yield made
    made.close()


def packed(state: Any) -> tuple[Buffer, image.Packed]:
    made = image.pack(state)
    return Buffer(made.size), made


def test_a_state_comes_back_as_it_was() -> None:
    weight = torch.randn(3, 5)
    state = {
        "weight": weight,
        "tied": weight,
        "transposed": weight.t(),
        "half": torch.randn(7).bfloat16(),
        "flags": torch.tensor([True, False]),
        "step": torch.tensor(3.0),
        "nothing": torch.empty(0, 4),
        "more": [1, "two", (None, {3: 4.5})],
        "complex": torch.randn(2, dtype=torch.complex64),
    }
    buffer, made = packed(state)
    image.fill(buffer, made, 1)
    weight.zero_()
    back = image.read(buffer.memory)
    assert len(made.tensors) == 7, "what is tied is copied once"
    assert back["more"] == state["more"]
    assert torch.equal(back["tied"], back["weight"])
    assert torch.equal(back["transposed"], back["weight"].t())
    for name in ("half", "flags", "step", "nothing", "complex"):
        assert torch.equal(back[name], state[name]), name
        assert back[name].dtype == state[name].dtype


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_copy_that_was_cut_short_is_no_checkpoint(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Whatever was there before, and however far it came."""
    buffer, made = packed({"a": torch.zeros(9), "b": torch.zeros(9)})
    image.fill(buffer, made, 1)
    copy, count = image._copy, 0

    def cut(*args: Any) -> None:
        nonlocal count
        if count == after:
            raise KeyboardInterrupt
        count += 1
        copy(*args)

    monkeypatch.setattr(image, "_copy", cut)
    tensors = {"a": torch.ones(9), "b": torch.ones(9)}
    if after == 2:
        tensors["c"] = torch.ones(1)
        buffer = Buffer(4096)
    with pytest.raises(KeyboardInterrupt):
        image.fill(buffer, image.pack(tensors), 2)
    with pytest.raises(image.TornError):
        image.read(buffer.memory)


def test_memory_that_holds_the_beginning_of_one_and_the_end_of_another_is_no_checkpoint() -> None:
    buffer, made = packed({"a": torch.zeros(9)})
    image.fill(buffer, made, 1)
    image._TAIL.pack_into(buffer.memory, made.size - image._TAIL.size, 2)
    with pytest.raises(image.TornError):
        image.read(buffer.memory)


def trained(steps: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    return model, optimizer


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_outside_of_a_job_checkpoints_are_on_disk(tmp_path: Path) -> None:
    model, optimizer = trained(3)
    first = elastic.Checkpointer(tmp_path / "new" / "folder", write_every=0.0)
    assert first.load(model=model, optimizer=optimizer) == 0
    for step in (3, 4, 5):
        first.save(step, model=model, optimizer=optimizer, epoch=2)
        assert first.flush(30.0)
    other, fresh = trained(0)
    second = elastic.Checkpointer(tmp_path / "new" / "folder")
    assert second.load(model=other, optimizer=fresh) == 5
    assert second.values == {"epoch": 2}
    assert same(model, other)
    assert str(fresh.state_dict()) == str(optimizer.state_dict())
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["step-4.pt", "step-5.pt"], "two are kept"
    plain = torch.load(tmp_path / "new" / "folder" / "step-5.pt", weights_only=True)
    assert torch.equal(plain["model"]["weight"], model.weight), "in torch's own format"


def test_a_script_that_ends_has_written_its_last_save(tmp_path: Path) -> None:
    script = (
        "import sys, torch, edl.torch as elastic\n"
        "c = elastic.Checkpointer(sys.argv[1], write_every=1000)\n"
        "m = torch.nn.Linear(2, 2)\n"
        "for step in range(1, 50): c.save(step, model=torch.nn.parallel.DataParallel(m))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env={"PATH": os.environ["PATH"]})
    model = torch.nn.Linear(2, 2)
    assert elastic.Checkpointer(tmp_path).load(model=model) == 49


def test_a_damaged_file_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, _ = trained(1)
    first = elastic.Checkpointer(tmp_path, write_every=0.0)
    for step in (1, 2):
        first.save(step, model=model)
        assert first.flush(30.0)
    newest = tmp_path / "step-2.pt"
    newest.write_bytes(newest.read_bytes()[:500])
    (tmp_path / "step-3.pt.77.unfinished").touch()
    assert elastic.Checkpointer(tmp_path).load(model=model) == 1
    assert "step-2.pt cannot be read" in caplog.text
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_folder_that_cannot_be_made_is_said_once_and_memory_serves(
    tmp_path: Path, memory: CheckpointMemory, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    model, _ = trained(1)
    env = {MEMORY: memory.link}
    first = elastic.Checkpointer(tmp_path / "file" / "below", write_every=0.0, env=env)
    for step in (1, 2, 3):
        first.save(step, model=model)
        assert first.flush(30.0)
    assert caplog.text.count("checkpoints are not written") == 1
    other, _ = trained(0)
    assert elastic.Checkpointer(tmp_path / "file" / "below", env=env).load(model=other) == 3
    assert same(model, other)


def test_a_full_disk_is_said_once_and_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = trained(1)
    made = elastic.Checkpointer(tmp_path, write_every=0.0)

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for step in (1, 2):
            made.save(step, model=model)
            assert made.flush(30.0)
    assert os.listdir(tmp_path) == []
    assert caplog.text.count("No space left") == 1
    caplog.set_level(logging.WARNING)
    made.save(3, model=model)
    assert made.flush(30.0)
    assert "written to" in caplog.text
    assert os.listdir(tmp_path) == ["step-3.pt"]


def test_saving_does_not_wait_for_the_disk_and_the_newest_is_written(tmp_path: Path) -> None:
    writer = Writer(every=0.0, where="there")
    hold, began = threading.Event(), threading.Event()
    written, released = [], []

    def job(step: int) -> Job:
        def write() -> None:
            began.set()
            hold.wait(30.0)
            written.append(step)

        return Job(step, write, lambda: released.append(step))

    writer.offer(job(1))
    assert began.wait(30.0)
    for step in (2, 3, 4):
        writer.offer(job(step))
    assert released == [2, 3]
    hold.set()
    assert writer.flush(30.0)
    assert written == [1, 4]
    assert sorted(released) == [1, 2, 3, 4]


def test_three_buffers_are_enough_however_slow_the_disk_is(
    tmp_path: Path, memory: CheckpointMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = threading.Event()
    monkeypatch.setattr(CheckpointFolder, "write", lambda *_: hold.wait(30.0))
    model, _ = trained(1)
    made = elastic.Checkpointer(tmp_path, write_every=0.0, env={MEMORY: memory.link})
    for step in range(1, 12):
        made.save(step, model=model)
    assert made._shelf is not None
    assert len(made._shelf._places) <= 3
    hold.set()
    assert made.flush(30.0)


KILLED = """
import os, signal, sys, torch, edl.torch as elastic
from edl.torch.checkpoints import image
made = elastic.Checkpointer(sys.argv[1], write_every=1000)
model = torch.nn.Linear(4, 4)
copy = image._copy
def cut(memory, at, tensor):
    copy(memory, at, tensor)
    if step == 4: os.kill(os.getpid(), signal.SIGKILL)
image._copy = cut
for step in range(1, 9):
    torch.nn.init.constant_(model.weight, step)
    made.save(step, model=model)
"""


def test_a_worker_that_is_killed_while_it_copies_loses_that_save_alone(
    tmp_path: Path, memory: CheckpointMemory
) -> None:
    env = {"PATH": os.environ["PATH"], MEMORY: memory.link}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    model = torch.nn.Linear(4, 4)
    assert elastic.Checkpointer(tmp_path, env=env).load(model=model) == 3
    assert torch.equal(model.weight, torch.full((4, 4), 3.0))


FAILING = """
import atexit, sys, torch, edl.torch as elastic
atexit.register(sys.stdin.read)  # comes after what was registered later
elastic.Checkpointer(sys.argv[1], write_every=1000).save(1, model=torch.nn.Linear(4, 4))
sys.stdin.readline()
raise RuntimeError("its peer is gone")
"""


def test_the_agent_does_not_wait_for_a_worker_that_is_about_to_fail(tmp_path: Path, memory: CheckpointMemory) -> None:
    env = {"PATH": os.environ["PATH"], MEMORY: memory.link}
    command = [sys.executable, "-c", FAILING, str(tmp_path)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        until(lambda: memory._savers, "a save")
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
        until(lambda: not memory._savers, "word that there will be none")
        assert worker.poll() is None
        worker.communicate(b"")
    assert worker.returncode == 1


def test_an_agent_that_is_gone_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = CheckpointMemory()
    model, _ = trained(1)
    made = elastic.Checkpointer(tmp_path, write_every=0.0, env={MEMORY: memory.link})
    made.save(1, model=model)
    memory.close()
    for step in (2, 3):
        made.save(step, model=model)
        assert made.flush(30.0)
    assert caplog.text.count("the agent does not answer") == 1
    assert (tmp_path / "step-3.pt").exists()
    assert elastic.Checkpointer(tmp_path, env={MEMORY: memory.link}).load(model=model) == 3


def test_a_stop_that_is_asked_for_saves_whatever_is_due(tmp_path: Path, memory: CheckpointMemory) -> None:
    model, _ = trained(1)
    made = elastic.Checkpointer(tmp_path, every=1000, write_every=1000.0, env={MEMORY: memory.link})
    made.save(1, model=model)
    made.save(2, model=model)
    stopped: list[bool] = []
    agent = threading.Thread(target=lambda: stopped.append(memory.stop(1, leaving=True)))
    agent.start()
    assert made._link is not None
    until(made._link.asked_to_stop, "a word from the agent")
    parked = threading.Thread(target=lambda: made.save(3, model=model), daemon=True)
    parked.start()
    agent.join(30.0)
    assert stopped == [True]
    assert CheckpointFolder(tmp_path, 2).steps()[0] == 3, "a pod that leaves has written what it had"


def test_what_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="what pickle can"):
        elastic.Checkpointer(tmp_path).save(1, act=lambda: None)


def test_tensors_that_are_spread_in_several_ways_are_refused_with_a_way_out() -> None:
    def spread(placement: str) -> torch.nn.Module:
        made = torch.nn.Linear(1, 1, bias=False)
        made.weight.device_mesh, made.weight.placements = "mesh", (placement,)
        return made

    with pytest.raises(ValueError, match=r"2 ways .*torch.distributed.checkpoint"):
        pieces.layout_of({"model": spread("Shard(0)"), "other": spread("Shard(1)")})


@pytest.mark.parametrize("wrong", [{"every": 0}, {"keep": 0}, {"write_every": -1}])
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        elastic.Checkpointer(tmp_path, **wrong)


def test_workers_without_a_process_group_are_told_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="init_process_group"):
        elastic.Checkpointer(tmp_path).load(model=torch.nn.Linear(1, 1))
