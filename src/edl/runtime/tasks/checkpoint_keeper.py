"""Keeps parameter servers and queue consistent: forms the layout, takes checkpoints, rolls both back together.

One thread reconciles again and again: it compares the desired state with the observed one and does the first missing
step. The invariants that make a rollback exact:
- The queue's new era is durable before any server is restored to it, and no task is leased until all servers are.
  (The eras before the first checkpoint become durable with that one.)
- The queue's snapshot is taken before the servers save: all pushes of the tasks in it had arrived by then.
- A checkpoint is complete when every file of it is on two servers, if there are two: it outlives the disk of any one.
- Servers save which pushes they have applied, so that pushes after the snapshot are not applied twice on replay.
"""

import logging
import time
from collections.abc import Callable

import msgspec

from edl.runtime.parameters.messages import ServerState
from edl.runtime.rpc import RefusalError
from edl.runtime.tasks.progress import QueueSnapshot
from edl.runtime.tasks.server_connections import ServerConnections
from edl.runtime.tasks.shared_state import ServerSlot, SharedState

log = logging.getLogger(__name__)

INTERVAL = 0.5
POSTPONE = 30.0
SHORTEST, SHARE = 2.0, 20.0  # a checkpoint every 2 s, or less often: saving takes at most a twentieth of the time


class CheckpointKeeper:
    def __init__(
        self,
        shared: SharedState,
        servers: ServerConnections,
        *,
        interval: float,
        grace: float | None = None,
        restored: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared, self._servers, self._longest, self._clock = shared, servers, interval, clock
        self._layout: tuple[ServerSlot, ...] = ()
        self._observed = shared.observed
        self._states: dict[ServerSlot, ServerState | None] = {}
        self._restoring = False  # the present era has begun and not all servers are in it yet
        self._saved_at, self._save_took = clock(), 0.0
        grace = shared.term if grace is None else grace  # after that a silent trainer has lost its lease anyway
        self._not_before = clock() + (grace if shared.queue.opened else 0.0)
        self._restored = restored  # on another cluster: files may be newer than the queue, and their queue counts
        self._unreadable: set[int] = set()  # checkpoints found on disk that were tried
        self._postponed = 0.0
        self._paused_at: float | None = None

    def run(self) -> None:
        shared = self._shared
        while not shared.stopping:
            try:
                self.reconcile()
            except ConnectionError:
                log.info("ending")  # the master is stopping
            shared.wakeup.wait(INTERVAL)
            shared.wakeup.clear()

    def reconcile(self) -> None:
        shared, queue = self._shared, self._shared.queue
        with shared.changed:
            queue.expire(self._clock())
            if self._clock() < self._not_before and not self._trainers_are_back():
                self._pause("waiting for the trainers of the last master")
                return
            self._not_before = 0.0
            if not queue.parameters:
                self._resume()
                return
            if queue.failed:
                return
        self._reconcile_servers()

    def _trainers_are_back(self) -> bool:
        """Whether all trainers have reconnected and reported their leases, so that no task is leased twice."""
        running = self._shared.observed.running
        return running is not None and len(self._shared.trainers) >= running

    def _reconcile_servers(self) -> None:
        self._observed = self._shared.observed  # one state of the job per reconcile, though it may change meanwhile
        problem = self._layout_problem()
        if problem == "lost":
            self._recover()
        elif problem:
            with self._shared.changed:
                self._pause(problem)
        else:
            self._serve()

    def _find_layout(self) -> str:
        """Adopts the servers that are in the present era already, as a new master does with the last one's."""
        states = self._states = self._servers.states(self._observed.members)
        silent = [member.address for member in self._wanted_layout() if states[member] is None]
        if silent:
            return f"the parameter server at {', '.join(silent)} does not answer"
        era = self._shared.queue.era
        current = {member: state for member, state in states.items() if state and era and state.era == era}
        found = {state.shard: member for member, state in current.items()}
        complete = bool(found) and {state.shards for state in current.values()} == {len(found)}
        self._layout = tuple(found[shard] for shard in sorted(found)) if complete else ()
        return "" if complete else "lost"

    def _layout_problem(self) -> str:
        """Why the present layout is unusable: empty if it is usable, `lost` if only a restore helps, else a message."""
        members, era = self._observed.members, self._shared.queue.era
        if self._restoring:
            return "lost"
        if not self._layout and (problem := self._find_layout()):
            return problem
        if any(member not in members for member in self._layout):
            return "lost"
        self._states = self._servers.states(self._layout)
        silent = [member.address for member, state in self._states.items() if state is None]
        if silent:
            return f"the parameter server at {', '.join(silent)} does not answer"
        whole = all(
            state and (state.era, state.shard, state.shards, state.frozen) == (era, shard, len(self._layout), False)
            for shard, state in enumerate(self._states.values())
        )
        return "" if whole else "lost"

    def _serve(self) -> None:
        """All servers are in the era: waits for start values, saves, or reshards if that is due."""
        shared, queue = self._shared, self._shared.queue
        states = [state for state in self._states.values() if state]
        if not all(state.initialised for state in states):
            with shared.changed:
                self._pause("waiting for a trainer to initialise the parameters")
                self._publish_servers(digest="")
            return
        if not queue.checkpoints and not self._checkpoint():
            return
        with shared.changed:
            self._publish_servers(states[0].digest)
            self._resume()
        wanted = self._wanted_layout()
        if wanted and set(wanted) != set(self._layout):
            self._reshard(wanted)
        elif self._checkpoint_due():
            self._checkpoint()

    def _checkpoint_due(self) -> bool:
        with self._shared.changed:
            queue = self._shared.queue
            newest = queue.checkpoints[-1]
            if queue.finished:
                return newest.pass_index < queue.passes
            if any(state and state.fetched for state in self._states.values()):  # its files have lost a copy
                return self._clock() - self._saved_at >= SHORTEST
            news = (queue.pass_index, queue.done.pack()) != (newest.pass_index, newest.done)
            pause = min(self._longest, max(SHORTEST, self._save_took * SHARE))
            return news and self._clock() - self._saved_at >= pause

    def _checkpoint(self, freeze: bool = False) -> bool:
        """Takes a checkpoint while training goes on; `freeze` refuses all pushes after it."""
        shared, queue = self._shared, self._shared.queue
        with shared.changed:
            snapshot, era = msgspec.structs.replace(queue.begin_checkpoint(), shards=len(self._layout)), queue.era
            keep = [kept.number for kept in queue.checkpoints]
        self._saved_at = self._clock()
        failures = self._servers.save(self._layout, era, snapshot, keep, freeze)
        self._save_took = self._clock() - self._saved_at
        if failures:
            log.warning("checkpoint %d failed: %s", snapshot.number, failures[0])
            return False
        with shared.changed:
            queue.complete_checkpoint(snapshot)
            shared.wait_durable(queue.version)
        log.info("checkpoint %d: pass %d, %d shards", snapshot.number, snapshot.pass_index, len(self._layout))
        return True

    def _wanted_layout(self) -> tuple[ServerSlot, ...]:
        """As many servers as the job wants, present ones first; empty if there are not enough."""
        observed = self._observed
        draining = {member for member, state in self._states.items() if state and state.draining}
        usable = [member for member in observed.members if member not in observed.departing | draining]
        usable.sort(key=lambda member: (member not in self._layout, member.index))
        return tuple(usable[: observed.wanted]) if observed.wanted and len(usable) >= observed.wanted else ()

    def _intact_layout(self) -> tuple[ServerSlot, ...]:
        """The present servers if all of them are still there; used if the wanted ones did not come."""
        observed = self._observed
        whole = all(member in observed.members and member not in observed.departing for member in self._layout)
        return self._layout if whole else ()

    def _reshard(self, wanted: tuple[ServerSlot, ...]) -> None:
        """Moves the parameters to another set of servers while no task is leased."""
        states = self._servers.states(wanted).values()
        if self._clock() < self._postponed or any(state is None or state.draining for state in states):
            return
        with self._shared.changed:
            self._pause(f"moving the parameters from {len(self._layout)} to {len(wanted)} servers")
            idle = self._wait_idle()
        if idle and self._checkpoint(freeze=True):
            self._recover()
            return
        self._postponed = self._clock() + POSTPONE
        log.warning("tasks are still under way; the move to %d servers is put off", len(wanted))

    def _wait_idle(self) -> bool:
        shared, until = self._shared, self._clock() + 2 * self._shared.term
        while list(shared.queue.leases) and self._clock() < until and not shared.stopping:
            shared.changed.wait(0.1)
            shared.queue.expire(self._clock())
        return not list(shared.queue.leases)

    def _recover(self) -> None:
        """Restores the newest checkpoint on as many servers as the job wants, and rolls the queue back to it."""
        shared, queue = self._shared, self._shared.queue
        observed = self._observed = shared.observed
        before, self._states = self._layout, self._servers.states(observed.members)
        wanted = self._wanted_layout() or self._intact_layout()
        with shared.changed:
            there = len(observed.members) - len(observed.departing)
            self._pause(f"waiting for {observed.wanted or 0} parameter servers, {there} are there")
            shared.addresses = []
        if not wanted or any(self._states.get(member) is None for member in wanted):
            return
        newer = self._newer() if self._restored else None
        with shared.changed:
            if newer is not None:
                queue.adopt_checkpoint(newer)
            if not self._restoring:
                self._restoring = True
                self._roll_back(queue.checkpoints[-1] if queue.checkpoints else None)
            snapshot, era = queue.checkpoints[-1] if queue.checkpoints else None, queue.era
        failures = self._servers.restore(wanted, era, snapshot, observed.members)
        if not failures:
            self._restoring, self._layout, self._saved_at = False, wanted, self._clock()
            self._servers.release(member for member in before if member not in wanted and member in observed.members)
            shared.wakeup.set()
        elif snapshot and any(isinstance(error, RefusalError) and error.code == "damaged" for error in failures):
            self._fall_back(snapshot, failures[0])

    def _newer(self) -> QueueSnapshot | None:
        """What the servers have on disk and the queue does not know of, because the backup is older. Asked once."""
        self._restored, queue = False, self._shared.queue
        there = self._servers.newest(self._observed.members) if queue.opened else None
        return there if there is not None and there.number >= queue.next_checkpoint else None

    def _roll_back(self, snapshot: QueueSnapshot | None) -> None:
        shared = self._shared
        shared.queue.roll_back(snapshot)
        if snapshot is not None:  # before the first checkpoint no task was leased: there is nothing to protect
            shared.wait_durable(shared.queue.version)
        level = logging.WARNING if snapshot else logging.INFO
        log.log(level, "era %d begins at checkpoint %d", shared.queue.era, snapshot.number if snapshot else 0)

    def _fall_back(self, snapshot: QueueSnapshot, error: Exception) -> None:
        """Rolls back to the checkpoint before one that cannot be read, else to the newest that is there: after a
        disaster the queue may be older than the files, or the files older than the queue. Without one the job fails."""
        queue = self._shared.queue
        older = [kept for kept in queue.checkpoints if kept.number < snapshot.number]
        there = None if older else self._servers.newest(self._observed.members)
        with self._shared.changed:
            if older:
                self._roll_back(older[-1])
                return
            if there and there.number not in self._unreadable:
                self._unreadable.add(there.number)
                queue.adopt_checkpoint(there)
                self._roll_back(there)
                return
            queue.give_up(f"{error}; no older checkpoint is left. Keep checkpoints on a volume that all pods share")
            self._shared.wait_durable(queue.version)

    def _publish_servers(self, digest: str) -> None:
        self._shared.addresses = [member.address for member in self._layout]
        self._shared.digest = digest
        self._shared.changed.notify_all()

    def _resume(self) -> None:
        if self._shared.pause_reason and self._paused_at is not None:
            self._shared.metrics.pause = self._clock() - self._paused_at
        if self._shared.pause_reason:
            self._shared.pause_reason = ""
            self._shared.changed.notify_all()

    def _pause(self, reason: str) -> None:
        if not self._shared.pause_reason:
            self._paused_at = self._clock()
        if self._shared.pause_reason != reason:
            log.info("no task is given out: %s", reason)
        self._shared.pause_reason = reason
