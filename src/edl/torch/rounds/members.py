"""Who trains together: enters rounds, one after the other, and makes the changes that all have agreed on.

A round is entered when all of its members have the same state. Until then, and while there is none to enter, this
worker keeps what it has.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from edl.torch.agent_link import AgentLink
from edl.torch.rounds.group import Group, GroupBrokenError
from edl.torch.rounds.handover import hand_over
from edl.torch.rounds.next_group import Build, NextGroup
from edl.torch.sharded.siblings import Siblings
from edl.torch.state import TrainingState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class World:
    """Who trains: this worker's rank, how many there are, and the number of the round."""

    rank: int = 0
    size: int = 1
    generation: int = 0


class Members:
    """`grace` is how long members may take to make a change; `entered` is called after each."""

    def __init__(
        self,
        state: TrainingState,
        link: AgentLink,
        build: Build,
        siblings: Siblings,
        *,
        grace: Callable[[], float],
        entered: Callable[[], None],
    ) -> None:
        self._state, self._link, self._siblings, self._entered = state, link, siblings, entered
        self._next = NextGroup(link, build, grace=grace, generation=lambda: self.generation)
        self._pending: tuple[Group | None] | None = None
        self._trained = time.monotonic()
        self.group: Group | None = None
        self.generation = 0
        """The round whose members train together; 0 before the first one is entered."""
        self.pause = 0.0
        """Seconds that the last change stopped this worker."""

    @property
    def world(self) -> World:
        assert self.group is not None
        return World(self.group.round.rank, self.group.round.size, self.generation)

    @property
    def agents(self) -> int:
        """How many pods train together."""
        return len(self.group.round.members) if self.group is not None else 0

    @property
    def ready(self) -> Group | None:
        """The next group, if this worker could go on in it."""
        return self._next.ready

    @property
    def leaving(self) -> bool:
        return self._link.leaving

    def join(self) -> None:
        """Enters the first round, once all others are ready too, and receives what they have."""
        self._next.start()
        self._link.say("ready")
        self._regroup()

    def stepped(self, now: float, pending: tuple[Group | None] | None) -> None:
        """A step happened; `pending` is the change that was agreed on with it."""
        self._trained, self._pending = now, pending
        self._next.views.show(self._state.capture)

    def lost(self) -> None:
        """A peer is gone: on to a round without it."""
        assert self.group is not None
        self.group.cut()
        self._link.say("idle")
        if self._link.newest <= self.generation:
            self._link.say("broken", round=self.generation)
        self._regroup()

    def change(self) -> None:
        """Makes the change that was agreed on with the last step. All that stay have the same group ready; who leaves
        has made its last step. When the script asks for the next batch, and not before: what it does after a step
        (schedulers) belongs to the step."""
        if self._pending is None:
            return
        (offered,), self._pending = self._pending, None
        if self._link.leaving:
            self._regroup()  # asked out of this round, and perhaps into a later one
            return
        assert offered is not None
        self._next.use(offered)
        if not self._try(offered):
            self._regroup(offered.round.number)

    def finish(self) -> None:
        """All data is trained: nobody ends while a peer may still be reading from it."""
        if self.group is not None:
            try:
                self.group.all_gather([0])
            except GroupBrokenError as error:
                log.info("a peer was gone before the end: %s", error)

    def _regroup(self, after: int = 0) -> None:
        """Waits for a round until one can be entered; the state stays in memory for as long as that takes."""
        tried = max(after, self.generation)
        while True:
            group = self._next.take(tried)
            if group is None:
                self._park()
            if self._try(group):
                return
            tried = group.round.number

    def _try(self, group: Group) -> bool:
        try:
            self._enter(group)
        except GroupBrokenError as error:
            log.info("round %d broke while it was entered: %s", group.round.number, error)
            group.drop()
            self._link.say("idle")
            self._link.say("broken", round=group.round.number)
            return False
        return True

    def _enter(self, group: Group) -> None:
        """State first: until it is there, this worker is what it was."""
        before = self._state.cursor.step
        received = hand_over(group, self._state, self.generation, self._siblings)
        old, self.group, self.generation = self.group, group, group.round.number
        self._next.entered()
        self._entered()
        if old is not None:
            old.drop()
        self.pause = time.monotonic() - self._trained if old is not None else 0.0  # who is new has stopped nobody
        step = self._state.cursor.step
        lost = max(0, before - step)
        self._link.say("switched", round=self.generation, step=step, pause=self.pause, bytes=received, lost=lost)
        log.info("round %d: rank %d of %d from step %d", self.generation, group.round.rank, group.round.size, step)

    def _park(self) -> NoReturn:
        """Until the agent ends this process: it leaves, and all that it did is committed."""
        self._link.say("left")
        while True:
            time.sleep(1.0)
