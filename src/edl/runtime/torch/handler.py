"""torchrun's rendezvous handler: waits for the next round, and says whether the present one still holds.

Each agent makes a store before it announces itself; the one of rank 0 serves the round and ends with it, so no round
ever reads what an earlier one left, and no port is guessed. Needs torch.
"""

import contextlib
import datetime
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

from edl.runtime.logs.feed import LogFeed
from edl.runtime.torch.activity import Activity
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.checkpoint_memory import CheckpointMemory
from edl.runtime.torch.connection import ConnectionThread
from edl.runtime.torch.in_place import InPlace
from edl.runtime.torch.plugin import Settings
from edl.runtime.torch.warm_workers import Zygote
from edl.runtime.torch.worker_hub import WorkerHub

log = logging.getLogger(__name__)

REACH = datetime.timedelta(seconds=5)  # to connect to a store
ANSWER = datetime.timedelta(seconds=0.5)  # of the agents' store; after this it is checked whether the round still holds
CAUSE = 60.0  # how long to wait for the service to say whose fault a failure was: longer than a change of leader takes
FLUSH = 2.0
KEPT_STORES = 3


class EdlHandler(RendezvousHandler):  # type: ignore[misc]  # torch is not installed where types are checked
    def __init__(
        self, connection: ConnectionThread, settings: Settings, *, run: str, address: str, zygote: Zygote | None = None
    ) -> None:
        self.settings, self.zygote = settings, zygote
        self.activity: Activity | None = None
        self.logs: LogFeed | None = None
        self._connection, self._run, self._address = connection, run, address
        self._store: Any = None
        self._stores: list[Any] = []
        self._ended = False
        self._stopped: float | None = None
        """Since when there are no workers, if there were any."""
        self.memory = CheckpointMemory()
        self.hub = WorkerHub(changed=connection.wake)
        self.in_place = InPlace(connection, self.hub, announce=self._announce, silence=settings.silence)

    def get_backend(self) -> str:
        return "edl"

    def get_run_id(self) -> str:
        return self._run

    @property
    def use_agent_store(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._connection.state.over

    def set_closed(self) -> None:
        self.leave("it was closed")

    def num_nodes_waiting(self) -> int:
        """Above 0 as soon as the round no longer holds: torchrun then restarts its workers, and counts no restart."""
        if self.in_place.hung:
            return 1
        return 1 if self._connection.state.stale and not self.in_place.in_charge else 0

    def next_rendezvous(self) -> RendezvousInfo:
        self.in_place.suspend()
        if self.zygote:
            self.zygote.wait_until_warm()  # whoever trains now goes on training meanwhile
        if self._connection.state.stale:
            log.info("regrouping: %s", self._connection.state.stale)
        try:
            with _terminated_by_signal():
                while True:
                    info = self._next()
                    if info is not None:
                        return info
        except BaseException as error:
            self.leave(f"it gave up waiting: {type(error).__name__}")
            raise

    def stopped(self) -> None:
        """The workers are being stopped, or have ended."""
        self._stopped = time.monotonic() if self._stopped is None else self._stopped

    def started(self) -> None:
        """The workers of the present round have been started."""
        if self._stopped is not None:
            pause, self._stopped = time.monotonic() - self._stopped, None
            self._connection.act(lambda state: state.restarted(round(pause, 3)))

    def _announce(self) -> str:
        """Opens a store for the next round. The last ones stay: peers may still be reading from them."""
        store = TCPStore(self._address, 0, is_master=True, wait_for_workers=False, timeout=REACH)
        self._stores = [*self._stores[-KEPT_STORES:], store]
        return f"{self._host}:{store.port}"

    @property
    def _host(self) -> str:
        return f"[{self._address}]" if ":" in self._address else self._address

    def _next(self) -> RendezvousInfo | None:
        """The next round, None if it was over before it could be used."""
        self._store = None  # the store of the last round ends here
        mine = TCPStore(self._address, 0, is_master=True, wait_for_workers=False, timeout=REACH)
        before = self._connection.state.number
        self._connection.act(lambda state: state.wait(f"{self._host}:{mine.port}"))
        self._wait_for_round(before)
        state = self._connection.state
        assert state.round is not None
        host, _, port = state.round.members[0].endpoint.rpartition(":")
        self._stores = [*self._stores[-KEPT_STORES:], mine]  # whether it answers tells peers whether we can be reached
        store = mine if state.rank == 0 else self._reach(host.strip("[]"), int(port), state.number)
        if store is None:
            return None
        self._store = store
        store.set_timeout(ANSWER)
        log.info("round %d: rank %d of %d", state.number, state.rank, len(state.round.members))
        prefixed = PrefixStore(f"round/{state.number}", store)
        info = RendezvousStoreInfo(host.strip("[]"), int(port))
        return RendezvousInfo(prefixed, state.rank, len(state.round.members), info)

    def _wait_for_round(self, before: int) -> None:
        said = ""

        def settled(state: AgentState) -> bool:
            nonlocal said
            self._idle()
            if state.waiting_for != said:
                said = state.waiting_for
                log.info("no round yet: %s", said)
            return state.number > before or state.over or bool(state.refused)

        if not self._connection.until(settled, self.settings.patience or None):
            reason = self._connection.state.waiting_for
            raise RendezvousTimeoutError(f"no round in {self.settings.patience:g} s: {reason}")
        if self._connection.state.over:
            self._ended = True
            raise RendezvousGracefulExitError("the training is finished")
        if self._connection.state.refused:
            log.error("this agent may not join: %s", self._connection.state.refused)
            raise SystemExit(1)  # an exception would bury the script's traceback under one of ours

    def _reach(self, host: str, port: int, number: int) -> Any:
        """The store of rank 0, None if the round is over before it answers."""
        while not self._connection.state.stale and self._connection.state.number == number:
            try:
                socket.create_connection((host, port), timeout=1.0).close()
                return TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=REACH)
            except (OSError, RuntimeError) as error:  # torch's errors are RuntimeErrors
                log.info("rank 0 does not answer at %s:%d yet: %s", host, port, error)
                self._connection.until(lambda state: bool(state.stale), 0.1)
        return None

    @property
    def joins_workers_that_live(self) -> bool:
        formed = self._connection.state.round
        return bool(formed and formed.in_place)

    def save(self) -> None:
        """Workers that keep checkpoints in memory make one more before they are started anew."""
        if not self._ended:
            self.memory.stop(self.hub.expected)

    def holds(self, wait: float = 0.0) -> bool:
        """Whether the round does, for so many seconds more."""
        return not self._connection.until(lambda state: bool(state.stale), wait)

    def at_fault(self, *, hard: bool, code: int = 0, message: str = "") -> bool:
        """Whether a failure of our workers was their own, or the consequence of somebody else's end."""
        self.in_place.suspend()
        if self.in_place.hung:
            return False
        if self.in_place.lived:
            self._connection.act(lambda state: state.fail(hard=hard, code=code, message=message))
            return True
        if self._connection.state.stale:
            return False
        self._connection.act(lambda state: state.fail(hard=hard, code=code, message=message))
        if not self._connection.until(lambda state: state.failure_cause is not None, CAUSE):
            log.warning("the job service did not say whose fault the failure was: taking it for ours")
            return True
        cause = self._connection.state.failure_cause
        assert cause is not None
        log.info("workers failed; %s: %s", "our own fault" if cause.own else "a consequence", cause.reason)
        if not cause.own:
            self._connection.act(lambda state: setattr(state, "stale", cause.reason))
        return cause.own

    def finish(self, timeout: float) -> None:
        """Our workers ended well: says so and waits for the others of the round."""
        self.in_place.suspend()
        self._ended = True
        self._connection.act(lambda state: state.finish())
        self._connection.until(lambda state: self._idle() or state.over, timeout)

    def _idle(self) -> bool:
        """Without workers nobody computes, which is no stall."""
        if self.activity:
            self.activity.wait(time.monotonic())
        return False

    def leave(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._connection.act(lambda state: state.leave(reason))
            self._connection.flush(FLUSH)
            self.in_place.leave(self.settings.stop)
            self.memory.stop(self.hub.expected, leaving=True)
            self.in_place.suspend()

    def shutdown(self) -> bool:
        """An agent that ends takes nobody with it: the others regroup."""
        self.leave("it ended")
        self.in_place.close()
        self.memory.close()
        self._connection.close()
        if self.zygote:
            self.zygote.close()
        return True


@contextlib.contextmanager
def _terminated_by_signal() -> Iterator[None]:
    """The first process of a container is not ended by SIGTERM unless it asks for it, and torchrun asks only later."""
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def own_address(local_addr: str | None, env: Mapping[str, str]) -> str:
    """Where peers reach this agent: who starts one without torchrun's command may not have read its variables."""
    return local_addr or env.get("PET_LOCAL_ADDR") or env.get("POD_IP") or socket.getfqdn()
