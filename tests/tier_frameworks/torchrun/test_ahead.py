"""What is passed ahead of a join, and what of it still counts when the round is entered."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from edl.torch.ahead import passing
from edl.torch.ahead.copies import Copy, Received, Sent
from edl.torch.ahead.fingerprint import BLOCK, Fingerprint, fingerprint
from edl.torch.ahead.passing import Haste
from edl.torch.ahead.plan import pairing, pairing_ahead
from edl.torch.ahead.views import Views, view_of
from edl.torch.cursor import Cursor
from edl.torch.rounds import transfer
from edl.torch.rounds.group import Round, SupersededError
from edl.torch.rounds.handover import hand_over
from edl.torch.rounds.next_group import NextGroup
from edl.torch.sharded.siblings import Siblings
from edl.torch.state import TrainingState
from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.peers import Link, Meeting, MeetingGroup, Peers

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(120)]

# ---- who sends to whom


@pytest.mark.parametrize(
    ("trained", "shards", "expected"),
    [
        ([], 0, {}),  # nobody has told: a group of an older kind
        ([0, 0], 0, {}),  # a cold start
        ([4, 4], 0, {}),  # nobody is new
        ([4, 0, 4, 0, 0], 0, {1: 0, 3: 2, 4: 0}),
        ([4, 3, 0], 0, {1: 0, 2: 0}),  # who was away is as one who is new
        ([4, -4, 0], 0, {}),  # a member of theirs is gone
        ([4, -3, 0], 0, {1: 0, 2: 0}),  # one of an earlier round is none of theirs
        ([-4, -4], 0, {}),
        ([4, 4, 0, 0, 4, 4, 0, 0], 2, {2: 0, 3: 1, 6: 4, 7: 5}),  # each from one who has the same part
    ],
)
def test_state_is_passed_ahead_in_pure_joins(trained: list[int], shards: int, expected: dict[int, int]) -> None:
    assert pairing_ahead(trained, shards) == expected


def test_the_pause_has_the_same_pairs() -> None:
    assert pairing([0, 2], [1, 3, 4], 1) == pairing_ahead([4, 0, 4, 0, 0], 0)


# ---- fingerprints


def negated(data: torch.Tensor) -> None:
    data.view(torch.float32).neg_()


def two_signs(data: torch.Tensor) -> None:
    data.view(torch.float32)[[1, 7]] *= -1


def swapped(data: torch.Tensor) -> None:
    data[:8], data[8:16] = data[8:16].clone(), data[:8].clone()


def blocks_swapped(data: torch.Tensor) -> None:
    data[:BLOCK], data[BLOCK : 2 * BLOCK] = data[BLOCK : 2 * BLOCK].clone(), data[:BLOCK].clone()


def last_byte(data: torch.Tensor) -> None:
    data[-1] += 1


@pytest.mark.parametrize("change", [negated, two_signs, swapped, blocks_swapped, last_byte])
def test_a_fingerprint_tells_changes(change: Callable[[torch.Tensor], None]) -> None:
    data = torch.randint(0, 256, (2 * BLOCK + 1004,), dtype=torch.uint8)
    before = fingerprint(data)
    assert fingerprint(data.clone()) == before
    change(data)
    assert fingerprint(data) != before


def test_a_fingerprint_is_that_of_the_bytes_wherever_they_lie() -> None:
    data = torch.randint(0, 256, (2 * BLOCK + 13,), dtype=torch.uint8)
    made = Fingerprint()
    for chunk in data.split(BLOCK):
        made.add(chunk)
    shifted = torch.cat([torch.zeros(3, dtype=torch.uint8), data])[3:]
    assert made.digest() == fingerprint(data) == fingerprint(shifted)
    assert fingerprint(torch.zeros(8, dtype=torch.uint8)) != fingerprint(torch.zeros(9, dtype=torch.uint8))


# ---- what is still true


def linear() -> torch.nn.Linear:
    return torch.nn.Linear(4, 3)


def sent_of(state: Any) -> Sent:
    view = view_of(state)
    return Sent([1], {path: Copy(seen, fingerprint(transfer.flat(seen.tensor))) for path, seen in view.items()})


def nothing(model: torch.nn.Linear) -> None:
    pass


def in_place(model: torch.nn.Linear) -> None:
    with torch.no_grad():
        model.weight += 1


def in_place_and_back(model: torch.nn.Linear) -> None:
    with torch.no_grad():
        model.weight.copy_(model.weight.clone())


def through_data(model: torch.nn.Linear) -> None:
    model.weight.data[0, 0] += 1


def other_memory(model: torch.nn.Linear) -> None:
    model.weight.data = model.weight.data.clone()


def other_shape(model: torch.nn.Linear) -> None:
    model.weight = torch.nn.Parameter(model.weight.detach().reshape(4, 3))


def other_type(model: torch.nn.Linear) -> None:
    model.weight = torch.nn.Parameter(model.weight.detach().view(torch.int32), requires_grad=False)


def other_order(model: torch.nn.Linear) -> None:
    model.weight = torch.nn.Parameter(model.weight.detach().as_strided((3, 4), (1, 3)))


def other_place(model: torch.nn.Linear) -> None:
    model.renamed = model.weight
    del model.weight


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        in_place,
        in_place_and_back,
        through_data,
        other_memory,
        other_shape,
        other_type,
        other_order,
        other_place,
    ],
)
def test_what_was_sent_ahead_counts_only_as_it_was(change: Callable[[torch.nn.Linear], None]) -> None:
    model = linear()
    assert model.weight._version == model.weight.detach()._version
    sent = sent_of(model.state_dict())
    change(model)
    weight, bias = {("weight",): 0}, {("bias",): 1}
    assert sent.true(model.state_dict()) == (weight | bias if change is nothing else bias)


def test_a_tensor_that_is_new_is_sent() -> None:
    model = linear()
    sent = sent_of({"weight": model.weight})
    assert sent.true(model.state_dict()) == {("weight",): 0}


def together(*acts: Callable[[], Any]) -> list[Any]:
    """Each in a thread of its own."""
    with ThreadPoolExecutor(len(acts)) as pool:
        return [future.result(60) for future in [pool.submit(act) for act in acts]]


def groups(count: int) -> list[MeetingGroup]:
    meeting, names = Meeting(count, None), tuple("abcdefgh"[:count])
    return [MeetingGroup(Round(5, names, rank, count, ""), meeting) for rank in range(count)]


def test_places_that_came_ahead_are_not_sent_again() -> None:
    source, target = groups(2)
    state: dict[str, Any] = {"steady": torch.arange(1000.0), "moves": torch.ones(2), "list": [torch.tensor(3), "x"]}
    copy = transfer.flat(state["steady"]).clone()
    _, (received, count) = together(
        lambda: transfer.send(source, state, 1, {("steady",): 0}), lambda: transfer.receive(target, 0, [copy])
    )
    assert torch.equal(received["steady"], torch.arange(1000.0))
    assert received["steady"]._base is None
    assert torch.equal(received["moves"], torch.ones(2))
    assert received["list"] == [torch.tensor(3), "x"]
    assert count < 4000


def training(seed: int, step: int) -> TrainingState:
    torch.manual_seed(seed)
    model = torch.nn.Linear(64, 64)
    return TrainingState([model], [torch.optim.SGD(model.parameters(), lr=0.1)], Cursor(step=step))


def weights(state: TrainingState) -> torch.Tensor:
    return torch.cat([weight.detach().reshape(-1) for weight in state.models[0].parameters()])


@pytest.mark.parametrize("steps", [(9, 9), (8, 9)])
def test_another_source_than_the_one_that_passed_ahead_sends_everything(steps: tuple[int, int]) -> None:
    """The first worker has passed state ahead. If it has not made the last step, the second one counts."""
    made = groups(3)
    states = [training(1, steps[0]), training(1 if steps[0] == steps[1] else 2, steps[1]), training(3, 0)]
    sent = sent_of(states[0].capture())
    made[0].ahead = Sent([2], sent.copies)
    copies = [transfer.flat(one.seen.tensor).clone() for one in sent.copies.values()]
    made[2].ahead = Received(0, copies)
    expected = weights(states[1]).clone()
    acts = [
        lambda group=group, state=state, generation=generation: hand_over(group, state, generation, Siblings())
        for group, state, generation in zip(made, states, (4, 4, 0), strict=True)
    ]
    counts = together(*acts)
    assert all(torch.equal(weights(state), expected) for state in states)
    assert [state.cursor.step for state in states] == [9, 9, 9]
    assert all(group.ahead is None for group in made), "what came ahead is not kept"
    everything = sum(copy.numel() for copy in copies)
    assert (counts[2] > everything) == (steps[0] < steps[1])


# ---- passing


class Trainer:
    """Makes steps, of which each changes one tensor, for as long as the test runs."""

    def __init__(self) -> None:
        self.state = {f"steady {at}": torch.rand(3 * BLOCK // 4 + at) for at in range(3)} | {"moves": torch.zeros(9)}
        self.views, self._over = Views(threading.Condition()), False

    def run(self) -> None:
        while not self._over:
            self.state["moves"].add_(1)
            self.views.show(lambda: self.state)

    def passed(self, group: MeetingGroup, haste: Haste) -> Any:
        try:
            return passing.send(group, [1], self.views, haste)
        finally:
            self._over = True


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "CHUNK", BLOCK)


@pytest.mark.usefixtures("small_chunks")
def test_what_a_step_does_not_change_is_passed() -> None:
    trainer, (source, target) = Trainer(), groups(2)
    haste = Haste(superseded=lambda: False, hurried=lambda: False)
    _, sent, received = together(trainer.run, lambda: trainer.passed(source, haste), lambda: passing.receive(target, 0))
    assert list(sent.copies) == [(f"steady {at}",) for at in range(3)]
    assert [one.tolist() for one in received.copies] == [
        transfer.flat(trainer.state[f"steady {at}"]).tolist() for at in range(3)
    ]
    assert sent.true(trainer.state) == {(f"steady {at}",): at for at in range(3)}


@pytest.mark.usefixtures("small_chunks")
def test_who_is_in_a_hurry_ends_with_what_is_whole() -> None:
    trainer, (source, target) = Trainer(), groups(2)
    sizes: list[int] = []

    class Counting(MeetingGroup):
        def send(self, tensor: torch.Tensor, rank: int) -> None:
            super().send(tensor, rank)
            sizes.extend([tensor.numel()] if tensor.dtype is torch.uint8 else [])

    source.__class__ = Counting
    haste = Haste(superseded=lambda: False, hurried=lambda: len(sizes) == 4)  # three chunks are a tensor
    _, sent, received = together(trainer.run, lambda: trainer.passed(source, haste), lambda: passing.receive(target, 0))
    assert list(sent.copies) == [("steady 0",)]
    assert len(received.copies) == 1


def test_who_stands_still_waits_for_no_step() -> None:
    source, target = groups(2)
    haste = Haste(superseded=lambda: False, hurried=lambda: True)
    views = Views(threading.Condition())
    sent, received = together(lambda: passing.send(source, [1], views, haste), lambda: passing.receive(target, 0))
    assert (sent.copies, received.copies) == ({}, [])


def test_a_newer_round_ends_it() -> None:
    source, _ = groups(2)
    with pytest.raises(SupersededError):
        passing.send(source, [1], Views(threading.Condition()), Haste(lambda: True, lambda: False))


# ---- beside the training


class Job:
    """Peers whose first worker, a source, prepares its next round; the second one is a newcomer to it."""

    def __init__(self) -> None:
        link: Any = Link("worker-0", Peers(0))  # an agent's, in all that matters
        self.link = link
        self.first, (self.source, self.target) = groups(1)[0], groups(2)
        self.source.trained = (4, 0)
        self.told: list[int] = []
        self.next = NextGroup(link, self._build, grace=lambda: 60.0, generation=lambda: 4)
        self.next.start()

    def _build(self, round_: Round, superseded: Callable[[], bool]) -> Any:
        self.told.append(round_.trained)
        return self.source

    def announce(self) -> None:
        self.link.tell(self.source.round)

    def until_ready(self) -> None:
        with self.link.condition:
            assert self.link.condition.wait_for(lambda: self.next.ready, 60)


def test_a_worker_that_enters_a_round_is_not_waited_for() -> None:
    """It might wait for the newcomer there, and the newcomer for what it passes."""
    job = Job()
    job.next.use(job.first)
    job.announce()
    assert passing.receive(job.target, 0).copies == []
    job.until_ready()
    assert job.told == [-4], "nobody is to wait for what it passes"


def test_a_worker_that_loses_its_peers_ends_what_it_passes() -> None:
    job, pool = Job(), ThreadPoolExecutor(2)
    job.next.entered()
    job.announce()
    received = pool.submit(passing.receive, job.target, 0)
    until(lambda: job.next.views._waiting, "one that waits for a step")
    assert job.told == [4]
    assert not received.done()
    taken = pool.submit(job.next.take, 0)
    assert received.result(60).copies == []
    assert taken.result(60) is job.source


def test_steps_go_on_until_all_is_passed() -> None:
    job, steady = Job(), torch.arange(10.0)
    job.next.entered()
    job.announce()
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(passing.receive, job.target, 0)
        while not received.done():
            job.next.views.show(lambda: {"steady": steady})
        assert [one.tolist() for one in received.result().copies] == [transfer.flat(steady).tolist()]
    job.until_ready()
    assert isinstance(job.source.ahead, Sent)
