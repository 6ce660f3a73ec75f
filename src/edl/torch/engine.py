"""Steps that happen on all workers or on none, and changes of members between them.

A step is committed when its sum arrived and was applied; then the cursor moves on, and a change that all are ready for
is made. When the sum did not arrive, nothing is applied, the workers that are left regroup, and the loader yields the
same global batch again, cut for the new members.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from edl.torch.agent_link import AgentLink
from edl.torch.cursor import Part
from edl.torch.rounds.agreement import Agreement, Offer
from edl.torch.rounds.group import Group, GroupBrokenError
from edl.torch.rounds.members import Members, World
from edl.torch.rounds.next_group import Build
from edl.torch.scaling.growth import Growth
from edl.torch.scaling.learning_rate import scaled
from edl.torch.sharded.siblings import Siblings
from edl.torch.stash import Stash
from edl.torch.state import TrainingState
from edl.torch.undo import Undo

log = logging.getLogger(__name__)

T = TypeVar("T")
SHORTEST_GRACE, STEPS_OF_GRACE = 2.0, 5


class LedgerError(RuntimeError):
    """The samples of a step do not add up to its batch: workers disagree about the data."""


class Engine:
    """`siblings` are the workers that this one shares its model with."""

    def __init__(self, state: TrainingState, link: AgentLink, build: Build, siblings: Siblings | None = None) -> None:
        self.state, self.siblings = state, siblings or Siblings()
        self.members = Members(state, link, build, self.siblings, grace=self._grace, entered=self._entered)
        parameters = (parameter for model in state.models for parameter in model.parameters())
        self.reducer = self.siblings.reducer(parameters, state.running, reduce=self._reduce)
        self._stash, self._undo = Stash(self.reducer.parameters), Undo()
        self.growth = Growth(state.cursor)
        self.growth.blind = self.siblings.sharded
        self._parts: list[Part] = []
        """Handed out since the last sum."""
        self._part: Part | None = None
        self._agreement: Agreement | None = None
        self._offered: Group | None = None
        self._summed = 0
        self._broken = False
        self._void = False
        """The script is in the rest of a step that did not happen: what it computes counts for nothing."""
        self.committed = True
        """Whether the last `optimizer.step()` happened."""
        self.samples = 0
        """Of the last step that happened, of all workers together."""
        self.fed = False
        """Whether a loader hands out batches."""
        self.epochs = 0
        """That the script wants to train; 0 if it has not said so."""
        self.rewinds = 0
        """Counts what makes loaders begin again at the cursor."""
        self.on_commit: list[Callable[[], None]] = []
        self.before_join: list[Callable[[], None]] = []
        self._last = time.monotonic()
        self._step_time = 0.0

    # ---- members

    @property
    def generation(self) -> int:
        return self.members.generation

    @property
    def world(self) -> World:
        self.join()
        return self.members.world

    def join(self) -> None:
        """Enters the first round, if there was none yet."""
        if self.members.group is None:
            for act in self.before_join:
                act()
            self.members.join()

    def _entered(self) -> None:
        self._forget_step()
        self.rewinds += 1

    def _grace(self) -> float:
        return max(SHORTEST_GRACE, STEPS_OF_GRACE * self._step_time)

    # ---- the sum

    def handed_out(self, part: Part) -> None:
        """The loader yields this next."""
        self._void = False
        self._part = part
        self._parts.append(part)

    def _reduce(self) -> None:
        """At the end of a backward pass. An error is kept for `step`."""
        group = self.members.group
        if self._broken or self._void or group is None or (self._part is not None and not self._part.last):
            return
        own = sum(part.count for part in self._parts)
        if self._part is not None:
            self._stash.take(self._part.count)
        offered = self.members.ready
        ahead = offered.round.number - self.generation if offered is not None else 0
        sums = self._tried(lambda: self._sum(group, Offer(own, self.members.leaving, max(ahead, 0))))
        if sums is None:
            return
        self._agreement, self._offered = Agreement.read(sums, group.round.size), offered
        self._check(self._agreement)
        self._summed += self._agreement.samples
        self._parts = []

    def _sum(self, group: Group, offer: Offer) -> list[float]:
        if group.round.size == 1:
            return offer.numbers()
        growth = self.growth
        over = self.siblings.over(group)
        sums = self.reducer.sum(offer.numbers(), self._weight(group), over, measure=growth.measures)
        if growth.measures:
            growth.measured(sums, self.reducer.squares, group.round.size)
        return sums

    def _weight(self, group: Group) -> float:
        """Of this worker's mean in the mean over the batch."""
        parts = self._parts or [part for part in (self._part,) if part is not None]
        whole = sum(part.whole for part in parts if part.last)
        return sum(part.count for part in parts) / whole if whole else 1 / group.round.size

    def share(self) -> float:
        """The weight of the backward pass under way in the mean over its batch."""
        if self._part is not None:
            return self._part.count / self._part.whole
        return 1 / self.members.world.size if self.members.group is not None else 1.0

    def _check(self, agreement: Agreement) -> None:
        expected = sum(part.whole for part in self._parts if part.last)
        if agreement.samples != expected:
            raise LedgerError(f"a step has {agreement.samples} samples of all workers, its batches have {expected}")

    def _break(self, error: GroupBrokenError) -> None:
        log.info("a step is made again: %s", error)
        self._broken = True

    def _tried(self, act: Callable[[], T]) -> T | None:
        """None if a worker was lost. For all workers of a pod that share a model, or for none."""
        lost, result = None, None
        try:
            result = act()
        except GroupBrokenError as error:
            lost = error
        if self.siblings.agree(lost is None):
            return result
        self._break(lost or GroupBrokenError("another worker of this pod lost a peer"))
        return None

    def tell_all(self, numbers: list[int]) -> list[list[int]] | None:
        """What each rank says of the batch to come; None if a worker was lost."""
        group = self.members.group
        assert group is not None
        return self._tried(lambda: group.all_gather(numbers))

    def together(self, act: Callable[[Group], None]) -> bool:
        """A collective of the script's own, as a part of the step. An error is kept for `step`."""
        self.join()
        if self._broken or self._void or (self._part is not None and not self._part.last):
            return False
        group = self.members.group
        assert group is not None

        def made() -> bool:
            act(group)
            return True

        return bool(self._tried(made))

    def all_reduce(self, tensor: torch.Tensor) -> bool:
        """Sums a tensor in place."""
        summed = tensor.detach().cpu().contiguous().clone()  # what fails half-way leaves the script's as it was
        if not self.together(lambda group: group.all_reduce(summed)):
            return False
        tensor.detach().copy_(summed)
        return True

    # ---- steps

    def step(self, apply: Callable[[], Any], optimizer: torch.optim.Optimizer | None = None) -> Any:
        """Applies the sum, or does not. The last of several optimizers commits."""
        self.join()
        last = optimizer is None or self.commits(optimizer)
        if self._void:
            self._void = self.fed or not last
            return None
        if self._part is not None and not self._part.last:
            self._stash.put(self._part.count)
            self.committed = False
            return None
        if not self._broken and self._agreement is None:
            self._reduce()  # gradients that no backward pass made
        if self._broken:
            self.retry()
            self._void = self.fed or not last
            return None
        return self._apply(apply, optimizer, last=last)

    def _apply(self, apply: Callable[[], Any], optimizer: torch.optim.Optimizer | None, *, last: bool) -> Any:
        if optimizer is not None and not last:
            self._undo.remember(optimizer, self.state.schedules)
        with scaled(optimizer, self.state.cursor.scale) if optimizer is not None else contextlib.nullcontext():
            result = apply()
        self.committed = True
        if last:
            self.commit()
        return result

    def commits(self, optimizer: torch.optim.Optimizer) -> bool:
        return optimizer is self.state.optimizers[-1]

    def commit(self) -> None:
        """The step happened, also if nothing was to be applied."""
        agreement, offered = self._agreement, self._offered
        assert agreement is not None
        self.state.cursor.advance(self._part)
        self.growth.committed()
        self.state.commit_buffers()
        self._undo.forget()
        self.committed, self.samples = True, self._summed
        self._forget_step()
        now = time.monotonic()
        self._step_time, self._last = 0.5 * self._step_time + 0.5 * (now - self._last), now
        for act in self.on_commit:
            act()
        self.members.stepped(now, (offered,) if agreement.ahead or agreement.ends else None)
        if not self.fed:
            self.members.change()  # nobody else would

    def settle(self) -> None:
        """Between batches: a step whose sum did not arrive is given up, a change that was agreed on is made."""
        if self._broken:
            self.retry()
        self.members.change()

    def retry(self) -> None:
        """The step did not happen: everything is as after the last one that did."""
        self.committed = False
        self._undo.restore()
        self.state.restore_buffers()
        self.reducer.clear()
        self._forget_step()
        self.members.lost()

    @property
    def broken(self) -> bool:
        """The last sum did not arrive, and the script has not come to `step` yet."""
        return self._broken

    @property
    def void(self) -> bool:
        """The script is in the rest of a step that did not happen."""
        return self._void

    @property
    def summed(self) -> bool:
        """A sum has arrived since the last step."""
        return self._agreement is not None

    def _forget_step(self) -> None:
        self._parts, self._part, self._agreement, self._offered, self._summed = [], None, None, None, 0
        self._stash.clear()
        self._broken = False
