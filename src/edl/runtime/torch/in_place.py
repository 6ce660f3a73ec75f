"""Hands rounds to workers that live on, in place of restarting them.

Whenever the present round is over, or workers have lost a peer, the agent waits for the next round in their name while
they train on; when it has formed, they are told. Between `begin` and `suspend` this is in force; it only ever acts when
all workers of the pod can change, else torchrun restarts them as ever.
"""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable

from edl.protocol.rendezvous import Change, Training
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.connection import ConnectionThread
from edl.runtime.torch.worker_hub import WorkerHub

log = logging.getLogger(__name__)

LOOK = 1.0  # seconds between looks at workers that fall silent


class InPlace:
    """`announce` opens a store for the next round and says where it listens."""

    def __init__(
        self, connection: ConnectionThread, hub: WorkerHub, *, announce: Callable[[], str], silence: float
    ) -> None:
        self._connection, self._hub, self._announce, self._silence = connection, hub, announce, silence
        self._active = self._closed = False
        self._lock = threading.Lock()
        self._told = self._told_out = 0
        self._told_to: set[int] = set()
        self.lived = False
        """The present workers outlive the end of their peers: if they fail, it is their own fault."""
        self.hung = ""
        """Why workers have to be restarted although nothing is wrong with the round."""
        self._thread = threading.Thread(target=self._run, name="edl-in-place", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Workers are about to start."""
        with self._lock:
            self._active, self.lived, self.hung, self._told_to = True, False, "", set()

    def suspend(self) -> None:
        """From now on torchrun acts: nothing of what follows comes from here."""
        with self._lock:
            self._active = False

    @property
    def in_charge(self) -> bool:
        """Whether a round that is over is no reason for torchrun to restart the workers."""
        with self._lock:
            return self._active and not self.hung and (self._hub.complete or self._starting())

    def _starting(self) -> bool:
        """Workers of a newcomer to a round that goes on have not come as far as to connect."""
        formed = self._connection.state.round
        return bool(formed and formed.in_place and not self._told_to and not self._hub.workers)

    @property
    def over(self) -> bool:
        """The others have finished: workers that live have nothing left to do."""
        return self._connection.state.over and self._active and bool(self._hub.workers)

    def leave(self, limit: float) -> None:
        """Workers make their last step with the others, if they can in time, and stop."""
        with self._lock:
            if not self._active or not self._hub.ready:
                return
        self._hub.tell("leave")
        self._connection.until(lambda _: self._hub.left, limit)

    def close(self) -> None:
        self._closed = True
        self._connection.wake()
        self._thread.join(timeout=5.0)
        self._hub.close()

    def _run(self) -> None:
        while not self._closed:
            self._connection.until(lambda state: self._closed or self._due(state), LOOK)
            with self._lock:
                if self._active and not self._closed:
                    self._look()

    def _due(self, state: AgentState) -> bool:
        if not self._active or not self._hub.complete:
            return False
        if state.refused and not self.hung:
            return True
        pids = {worker.pid for worker in self._hub.workers}
        if state.number > self._told or pids != self._told_to or state.out > max(self._told_out, state.number):
            return True
        if not isinstance(state.report, Training):
            return False
        over = bool(state.stale) or self._hub.broken(state.number)
        return (over and self._hub.ready) or state.report != self._truth(state)

    def _look(self) -> None:
        if silent := self._hub.silent(self._silence):
            self._restart(silent.pid)
        state = self._connection.state
        if state.refused and not self.hung:
            self.hung = f"this agent may not train on: {state.refused}"
            log.warning("%s", self.hung)
        if not self._hub.complete or self.hung:
            return
        self.lived = True
        self._tell(state)
        if not isinstance(state.report, Training):
            return
        broken = self._hub.broken(state.number)
        if self._hub.ready and (state.stale or broken):
            endpoint, unreached = self._announce(), self._hub.unreached(state.number)
            log.info("the next round is waited for: %s", state.stale or "a peer is gone")
            self._connection.act(lambda state: state.wait(endpoint, in_place=True, broken=broken, unreached=unreached))
        elif state.report != self._truth(state):
            self._connection.act(self._live_on)

    def _live_on(self, state: AgentState) -> None:
        state.live_on(ready=self._hub.trains, idle=self._hub.idle, change=self._change(state))

    def _truth(self, state: AgentState) -> Training:
        change = self._change(state)
        return Training(state.number, in_place=True, ready=self._hub.trains, idle=self._hub.idle, change=change)

    def _change(self, state: AgentState) -> Change:
        """Of workers that live on; where all of a round were started anew, the agent itself knows how long it took."""
        lived = state.round is not None and state.round.in_place
        return (self._hub.change(state.number) if lived else None) or state.change

    def _tell(self, state: AgentState) -> None:
        """The present round, to all who have not heard of it."""
        pids = {worker.pid for worker in self._hub.workers}
        if state.round is not None and (state.number > self._told or pids != self._told_to):
            self._told, self._told_to = state.number, pids
            members = [member.agent for member in state.round.members]
            endpoints = [member.endpoint for member in state.round.members]
            self._hub.tell_round(state.number, members, state.rank, endpoints)
        if state.out > max(self._told_out, state.number):
            self._told_out = state.out
            self._hub.tell("out", number=state.out)

    def _restart(self, pid: int) -> None:
        self.hung = f"worker {pid} did not answer for {self._silence:g} s"
        log.warning("%s: it is started anew", self.hung)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
