"""Builds the group of the newest round in a thread, while the training goes on in the present one.

When it is there, newcomers are sent ahead what they can be; then it is ready to be used. A round that is superseded
before that is given up. When the newest round is without a member of the group in use, and the change is not made in
time, that member may hang: the group in use is then cut.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from edl.torch.agent_link import AgentLink
from edl.torch.ahead import passing
from edl.torch.ahead.views import Views
from edl.torch.rounds import reachability
from edl.torch.rounds.group import Group, GroupBrokenError, Round, SupersededError

log = logging.getLogger(__name__)

LOOK = 2.0  # seconds between looks at a group that waits for its peers
LONG = 20.0  # seconds that it may wait before they are asked whether they can be reached

Build = Callable[[Round, Callable[[], bool]], Group]


class NextGroup:
    """All state is guarded by the link's condition. `generation`: the round that this worker trains in."""

    def __init__(
        self, link: AgentLink, build: Build, *, grace: Callable[[], float], generation: Callable[[], int]
    ) -> None:
        self._link, self._build, self._grace, self._generation = link, build, grace, generation
        self.views = Views(link.condition)
        self._built: Group | None = None
        """In which state may be passed ahead."""
        self._ready: Group | None = None
        self._stands = True
        """This worker does not train: it waits for a round, or enters one."""
        self.in_use: Group | None = None
        """The group in which a collective may be under way."""

    def start(self) -> None:
        """From now on. A group must not be complete before its worker comes to train: the others would wait in it."""
        threading.Thread(target=self._run, name="edl-next-group", daemon=True).start()
        threading.Thread(target=self._look_for_peers, name="edl-peers", daemon=True).start()

    def _look_for_peers(self) -> None:
        """A network that loses everything between two members ends no connection for a quarter of an hour."""
        while True:
            time.sleep(LOOK)
            for group in (self.in_use, self._built):
                if group is not None and group.busy() >= LONG:
                    self._look(group)

    def _look(self, group: Group) -> None:
        out = reachability.unreached(group.round.members, group.round.endpoints)
        if out:
            log.warning("%s cannot be reached: round %d is given up", ", ".join(out), group.round.number)
            self._link.say("broken", round=group.round.number, unreached=out)
            group.cut()

    @property
    def ready(self) -> Group | None:
        """Of the newest round only: one that is over is not worth a change."""
        with self._link.condition:
            return self._ready if self._ready and self._ready.round.number == self._link.newest else None

    def take(self, after: int) -> Group | None:
        """The next group that is newer than a round, waiting for it; None if this worker leaves. It is the group in
        use from now on."""
        with self._link.condition:
            self._stands = True
            self._link.condition.notify_all()
            while self._ready is None or self._ready.round.number <= after:
                if self._link.for_good:
                    return None
                self._link.condition.wait(1.0)
            self.in_use, self._ready = self._ready, None
            self._link.condition.notify_all()
            return self.in_use

    def use(self, group: Group) -> None:
        """A group that `ready` was: all have agreed on it."""
        with self._link.condition:
            self.in_use, self._stands = group, True
            if self._ready is group:
                self._ready = None
            self._link.condition.notify_all()

    def entered(self) -> None:
        """The group in use: it trains from now on."""
        with self._link.condition:
            self._stands = False

    def _run(self) -> None:
        handled = 0
        while True:
            with self._link.condition:
                while self._link.newest <= handled:
                    self._link.condition.wait(1.0)
                round_ = self._link.round
                built, self._built = self._built, None
            if built is not None:
                built.cut()  # whoever waits in it, here or at the other end, is to see to the newer round
            assert round_ is not None
            handled = round_.number
            # Each in a thread of its own: gloo tries for seconds to reach a peer that has just died.
            threading.Thread(target=self._prepare, args=(round_,), name=f"edl-round-{handled}", daemon=True).start()

    def _prepare(self, round_: Round) -> None:
        def superseded() -> bool:
            return self._link.newest > round_.number

        try:
            group = self._build(replace(round_, trained=self._trained(round_)), superseded)
            self._pass_ahead(group, superseded)
        except SupersededError:
            return
        except GroupBrokenError as error:
            log.info("round %d could not be joined: %s", round_.number, error)
            self._link.say("broken", round=round_.number, unreached=error.unreached)
            return
        with self._link.condition:
            old, self._ready = self._ready, group
            self._link.condition.notify_all()
        if old is not None:
            old.drop()
        self._watch(group)

    def _trained(self, round_: Round) -> int:
        """What the others are told: the round that this worker trained in, negative if it does not train any more."""
        with self._link.condition:
            gone = self.in_use is not None and set(self.in_use.round.members) - set(round_.members)
            return -self._generation() if gone or self._stands else self._generation()

    def _pass_ahead(self, group: Group, superseded: Callable[[], bool]) -> None:
        """While the training goes on. What has come half-way goes with its group."""
        with self._link.condition:
            if superseded():
                group.drop()
                raise SupersededError
            self._built = group
        try:
            group.ahead = passing.pass_ahead(group, self.views, passing.Haste(superseded, self._hurried))
        except (GroupBrokenError, SupersededError):
            group.drop()
            if superseded():
                raise SupersededError from None
            raise
        finally:
            with self._link.condition:
                if self._built is group:
                    self._built = None

    def _hurried(self) -> bool:
        """Who stands still would be waited for, by those that it enters a round with, and make no step meanwhile."""
        return self._stands or self._link.leaving

    def _watch(self, group: Group) -> None:
        """Until the change to this group is made; cuts the one in use when members of it that are gone hold it up."""
        end = time.monotonic() + self._grace()
        with self._link.condition:
            used = self.in_use
            if used is None or not set(used.round.members) - set(group.round.members):
                return
            while self.in_use is used and self._link.newest == group.round.number:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._link.condition.wait(left)
            late = self.in_use is used and time.monotonic() >= end
        if late:
            log.warning(
                "round %d is ready and members of the one before do not answer: it is given up", group.round.number
            )
            used.cut()
