"""One parameter server, called as its connections would: eras, epochs, duplicates, lockstep, checkpoints."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edl.runtime.parameters.messages import Init, Join, Pull, PullRows, Push, Release, Restore, Save, Status
from edl.runtime.parameters.model import Dense, Model, Optimizer, Rows
from edl.runtime.parameters.server import ParameterServer
from edl.runtime.rpc import RefusalError
from edl.runtime.sharding import BLOCK, dense_ranges, shards_of_rows

MODEL = Model((Dense("w", (4,)), Dense("b", (1,))), (Rows("t", 2, 0.5),), Optimizer("sgd", 1.0))
NOTHING = memoryview(b"")


def call(server: ParameterServer, message: Any, *arrays: Any) -> Any:
    payload = memoryview(bytearray(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)))
    reply = server.connected().handle(message, payload)
    return b"".join(reply.buffers) if reply.buffers else reply.message


def floats(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def ready(folder: Path, model: Model = MODEL, era: int = 1, **kwargs: Any) -> ParameterServer:
    server = ParameterServer(folder, **kwargs)
    call(server, Restore(1, era, 0, 1, 0, 0))
    call(server, Init(era, model), *(np.zeros(tensor.shape, np.float32) for tensor in model.dense))
    return server


def dense(server: ParameterServer, era: int = 1) -> list[float]:
    return list(np.frombuffer(call(server, Pull(era)), np.float32))


def push(
    server: ParameterServer, step: int = 0, *, era: int = 1, chunk: int = 0, by: float = 1.0, trainer: int = 1
) -> Any:
    message = Push(era, trainer, 0, chunk, step, ["w"])
    return call(server, message, floats(-by, -by, -by, -by)).applied


def test_a_push_moves_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    server = ready(tmp_path)
    ids = np.array([5, 9])
    before = np.frombuffer(call(server, PullRows(1, "t"), ids), np.float32).reshape(2, 2)
    call(server, Push(1, 1, 0, 0, 0, ["b"], [("t", 1)]), floats(-3), ids[:1], floats(1, 2))
    assert dense(server) == [0, 0, 0, 0, 3]
    after = np.frombuffer(call(server, PullRows(1, "t"), ids), np.float32).reshape(2, 2)
    assert (before[0] - after[0]).tolist() == [1, 2]
    assert (before[1] == after[1]).all()
    call(server, Push(1, 1, 0, 0, 1, ["b"], rate=10.0), floats(-3))
    assert dense(server)[-1] == 33


def test_a_push_that_arrives_twice_counts_once_whoever_sends_it(tmp_path: Path) -> None:
    server = ready(tmp_path)
    assert [push(server), push(server), push(server, trainer=2), push(server, 1), push(server, chunk=7)] == [
        True,
        False,
        False,
        True,
        True,
    ]
    assert dense(server)[0] == 3
    with pytest.raises(RefusalError, match="step 5 of chunk 0 came before step 2"):
        push(server, 5)


def test_values_are_given_once(tmp_path: Path) -> None:
    server = ready(tmp_path)
    push(server)
    call(server, Init(1, MODEL), floats(9, 9, 9, 9), floats(9))
    assert dense(server)[0] == 1, "a trainer that starts late resets nothing"
    with pytest.raises(RefusalError, match="another model"):
        call(server, Init(1, Model((Dense("w", (5,)),))), floats(9, 9, 9, 9, 9))


@pytest.mark.parametrize(
    ("message", "arrays"),
    [
        (Push(1, 1, 0, 0, 0, ["w"]), [floats(1, 2, 3)]),
        (Push(1, 1, 0, 0, 0, ["w"]), [floats(1, 2, 3, 4, 5)]),
        (Push(1, 1, 0, 0, 0, ["x"]), [floats(1)]),
        (Push(1, 1, 0, 0, 0, [], [("t", 2)]), [np.array([1, 2]), floats(1, 2, 3)]),
        (Push(1, 1, 0, 0, 0, [], [("nope", 0)]), []),
        (PullRows(1, "nope"), [np.array([1])]),
    ],
)
def test_what_does_not_fit_the_model_is_refused_and_changes_nothing(tmp_path: Path, message: Any, arrays: Any) -> None:
    server = ready(tmp_path)
    with pytest.raises(RefusalError) as refusal:
        call(server, message, *arrays)
    assert refusal.value.code == "bad-message"
    assert dense(server) == [0] * 5
    assert push(server), "step 0 is still to come"


@pytest.mark.parametrize("message", [Pull(1), PullRows(1, "t"), Push(1, 1, 0, 0, 0), Init(1, MODEL)])
def test_the_old_era_is_refused(tmp_path: Path, message: Any) -> None:
    server = ready(tmp_path)
    call(server, Restore(1, 2, 0, 1, 0, 0))
    with pytest.raises(RefusalError) as refusal:
        call(server, message)
    assert refusal.value.code == "era"


@pytest.mark.parametrize("message", [Restore(1, 9, 0, 1, 0, 0), Save(1, 1, 9, []), Release(1)])
def test_the_old_master_is_refused(tmp_path: Path, message: Any) -> None:
    server = ready(tmp_path)
    call(server, Save(2, 1, 1, []))
    with pytest.raises(RefusalError) as refusal:
        call(server, message)
    assert refusal.value.code == "stale-master"
    assert call(server, Status()).era == 1


def test_a_checkpoint_holds_values_and_what_was_applied(tmp_path: Path) -> None:
    server = ready(tmp_path, Model(MODEL.dense, MODEL.rows, Optimizer("adam", 1.0)))
    push(server)
    rows = call(server, PullRows(1, "t"), np.array([4]))
    call(server, Save(1, 1, 5, []))
    saved = dense(server)
    push(server, 1)
    other = ParameterServer(tmp_path)
    call(other, Restore(2, 2, 0, 1, 5, 1))
    assert dense(other, 2) == saved
    assert call(other, PullRows(2, "t"), np.array([4])) == rows
    assert [push(other, 0, era=2), push(other, 1, era=2)] == [False, True]
    assert dense(other, 2) == dense(server), "the replay ends where the first try did"


def test_a_checkpoint_that_cannot_be_read_is_called_damaged(tmp_path: Path) -> None:
    server = ready(tmp_path)
    with pytest.raises(RefusalError) as refusal:
        call(server, Restore(1, 2, 0, 1, 77, 1))
    assert refusal.value.code == "damaged"
    state = call(server, Status())
    assert (state.era, state.initialised) == (0, False), "it holds nothing rather than something wrong"


def test_a_disk_that_is_full_refuses_and_training_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    server = ready(blocked)
    with pytest.raises(RefusalError) as refusal:
        call(server, Save(1, 1, 1, []))
    assert refusal.value.code == "disk"
    assert push(server)


def test_a_frozen_shard_takes_nothing_until_it_is_restored(tmp_path: Path) -> None:
    server = ready(tmp_path)
    call(server, Save(1, 1, 1, [], freeze=True))
    with pytest.raises(RefusalError) as refusal:
        push(server)
    assert refusal.value.code == "era"
    assert call(server, Status()).frozen
    call(server, Restore(1, 2, 0, 1, 1, 1))
    assert push(server, era=2)


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (2, 5), (4, 1)])
def test_shards_are_cut_anew_from_the_files_of_all(tmp_path: Path, old: int, new: int) -> None:
    tensor, rng = Dense("w", (5 * BLOCK + 17,)), np.random.default_rng(old)
    model = Model((tensor,), (Rows("t", 3),), Optimizer("momentum", 0.5))
    ids, values = rng.integers(-(10**12), 10**12, 500), rng.normal(size=tensor.size).astype(np.float32)

    def parts(shards: int, shard: int, flat: Any) -> Any:
        ranges = dense_ranges(tensor, shards)[shard]
        return np.concatenate([flat[a:b] for a, b in ranges] or [flat[:0]])

    def step(server: ParameterServer, era: int, shards: int, shard: int, number: int, grad: Any, grads: Any) -> None:
        mine = shards_of_rows(ids, shards) == shard
        message = Push(era, 1, 0, 0, number, ["w"], [("t", int(mine.sum()))])
        call(server, message, parts(shards, shard, grad), ids[mine], grads[mine])

    def run(layouts: list[int]) -> tuple[Any, Any]:
        source, folder = np.random.default_rng(9), tmp_path / str(layouts)
        for era, shards in enumerate(layouts, 1):
            servers = [ParameterServer(folder) for _ in range(shards)]
            grad, grads = source.normal(size=tensor.size).astype("f"), source.normal(size=(500, 3)).astype("f")
            for shard, server in enumerate(servers):
                call(server, Restore(1, era, shard, shards, era - 1, layouts[era - 2] if era > 1 else 0))
                if era == 1:
                    call(server, Init(era, model), parts(shards, shard, values))
                step(server, era, shards, shard, era - 1, grad, grads)
                call(server, Save(1, era, era, [era - 1], freeze=False))
        flat, rows = np.empty(tensor.size, np.float32), np.empty((500, 3), np.float32)
        for shard, server in enumerate(servers):
            held, at = np.frombuffer(call(server, Pull(era)), np.float32), 0
            for a, b in dense_ranges(tensor, shards)[shard]:
                flat[a:b], at = held[at : at + b - a], at + b - a
            mine = shards_of_rows(ids, shards) == shard
            rows[mine] = np.frombuffer(call(server, PullRows(era, "t"), ids[mine]), np.float32).reshape(-1, 3)
        return flat, rows

    moved, steady = run([old, new, old]), run([1, 1, 1])
    np.testing.assert_array_equal(moved[0], steady[0])
    np.testing.assert_array_equal(moved[1], steady[1])


LOCKSTEP = Model(MODEL.dense, MODEL.rows, Optimizer("sgd", 1.0), lockstep=True)


class Trainee:
    """A trainer in lockstep: its pushes block, so each is a thread."""

    def __init__(self, server: ParameterServer, number: int) -> None:
        self.server, self.number, self.connection = server, number, server.connected()
        self.connection.handle(Join(number), NOTHING)
        self.outcome: list[Any] = []

    def push(self, by: float, step: int = 0) -> threading.Thread:
        def work() -> None:
            try:
                self.outcome.append(push(self.server, step, chunk=self.number, by=by, trainer=self.number))
            except RefusalError as refusal:
                self.outcome.append(refusal.code)

        thread = threading.Thread(target=work)
        thread.start()
        return thread


def test_in_lockstep_a_step_is_the_mean_of_all_that_take_part(tmp_path: Path) -> None:
    server = ready(tmp_path, LOCKSTEP)
    one, two = Trainee(server, 1), Trainee(server, 2)
    first = one.push(1.0)
    first.join(0.2)
    assert first.is_alive(), "it waits for the other one"
    assert dense(server)[0] == 0
    two.push(3.0).join(10)
    first.join(10)
    assert dense(server)[0] == 2
    assert one.outcome == two.outcome == [True]
    assert not push(server, 0, chunk=1)


def test_in_lockstep_one_that_leaves_or_dies_holds_nobody_up(tmp_path: Path) -> None:
    server = ready(tmp_path, LOCKSTEP)
    one, two = Trainee(server, 1), Trainee(server, 2)
    waiting = one.push(1.0)
    waiting.join(0.1)
    two.connection.closed()
    waiting.join(10)
    assert (one.outcome, dense(server)[0]) == ([True], 1)


def test_in_lockstep_a_silent_one_is_waited_for_only_so_long(tmp_path: Path) -> None:
    server = ready(tmp_path, LOCKSTEP, round_timeout=0.2)
    one, _ = Trainee(server, 1), Trainee(server, 2)
    one.push(1.0).join(10)
    assert (one.outcome, dense(server)[0]) == ([True], 1)


def test_in_lockstep_rows_pushed_by_two_are_averaged(tmp_path: Path) -> None:
    server = ready(tmp_path, LOCKSTEP)
    connections = [server.connected() for _ in range(2)]
    for number, connection in enumerate(connections):
        connection.handle(Join(number), NOTHING)
    start = np.frombuffer(call(server, PullRows(1, "t"), np.array([1, 2])), np.float32).reshape(2, 2).copy()

    def work(number: int, ids: list[int], grads: list[float]) -> None:
        call(server, Push(1, number, 0, number, 0, [], [("t", len(ids))]), np.array(ids), floats(*grads))

    threads = [
        threading.Thread(target=work, args=(0, [1], [2, 2])),
        threading.Thread(target=work, args=(1, [1, 2], [4, 4, 6, 6])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    after = np.frombuffer(call(server, PullRows(1, "t"), np.array([1, 2])), np.float32).reshape(2, 2)
    np.testing.assert_allclose(start - after, [[3, 3], [3, 3]], rtol=1e-5)


def test_in_lockstep_a_push_that_waits_through_a_restore_is_told_so(tmp_path: Path) -> None:
    server = ready(tmp_path, LOCKSTEP)
    one, _ = Trainee(server, 1), Trainee(server, 2)
    call(server, Save(1, 1, 1, []))
    waiting = one.push(1.0)
    waiting.join(0.1)
    call(server, Restore(1, 2, 0, 1, 1, 1))
    waiting.join(10)
    assert one.outcome == ["era"]
    assert dense(server, 2)[0] == 0


def test_a_server_that_is_asked_to_go_goes_when_it_holds_nothing(tmp_path: Path) -> None:
    idle, busy = ParameterServer(tmp_path), ready(tmp_path)
    idle.drain()
    busy.drain()
    assert idle.released.is_set()
    assert not busy.released.is_set()
    assert call(busy, Status()).draining
    call(busy, Release(1))
    assert busy.released.is_set()
