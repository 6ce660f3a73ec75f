"""The rendezvous handler that torchrun asks for the next round, and whether it still holds.

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
    RendezvousClosedError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

from .activity import Activity
from .link import LinkThread
from .plugin import Settings
from .standing import Standing
from .warm import Zygote

log = logging.getLogger(__name__)

REACH = datetime.timedelta(seconds=5)  # to connect to a store
ANSWER = datetime.timedelta(seconds=0.5)  # of the agents' store; who waits for longer looks whether the round holds
VERDICT = 60.0  # how long to wait for the service's word about a failure: longer than a change of leader takes
FLUSH = 2.0


class EdlHandler(RendezvousHandler):  # type: ignore[misc]  # torch is not installed where types are checked
    def __init__(
        self, link: LinkThread, settings: Settings, *, run: str, address: str, zygote: Zygote | None = None
    ) -> None:
        self.settings, self.zygote = settings, zygote
        self.activity: Activity | None = None
        self._link, self._run, self._address = link, run, address
        self._store: Any = None
        self._ended = False

    def get_backend(self) -> str:
        return "edl"

    def get_run_id(self) -> str:
        return self._run

    @property
    def use_agent_store(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._link.standing.over

    def set_closed(self) -> None:
        self.leave("it was closed")

    def num_nodes_waiting(self) -> int:
        """Above 0 as soon as the round no longer holds: torchrun then restarts its workers, and counts no restart."""
        return 1 if self._link.standing.stale else 0

    def next_rendezvous(self) -> RendezvousInfo:
        if self.zygote:
            self.zygote.wait_until_warm()  # whoever trains now goes on training meanwhile
        if self._link.standing.stale:
            log.info("regrouping: %s", self._link.standing.stale)
        try:
            with _terminated_by_signal():
                while True:
                    info = self._next()
                    if info is not None:
                        return info
        except BaseException as error:
            self.leave(f"it gave up waiting: {type(error).__name__}")
            raise

    def _next(self) -> RendezvousInfo | None:
        """The next round, None if it was over before it could be used."""
        self._store = None  # the store of the last round ends here
        mine = TCPStore(self._address, 0, is_master=True, wait_for_workers=False, timeout=REACH)
        host = f"[{self._address}]" if ":" in self._address else self._address
        before = self._link.standing.number
        self._link.act(lambda standing: standing.wait(f"{host}:{mine.port}"))
        self._wait_for_round(before)
        standing = self._link.standing
        assert standing.round is not None
        host, _, port = standing.round.members[0].endpoint.rpartition(":")
        store = mine if standing.rank == 0 else self._reach(host.strip("[]"), int(port), standing.number)
        if store is None:
            return None
        self._store = store
        store.set_timeout(ANSWER)
        log.info("round %d: rank %d of %d", standing.number, standing.rank, len(standing.round.members))
        prefixed = PrefixStore(f"round/{standing.number}", store)
        info = RendezvousStoreInfo(host.strip("[]"), int(port))
        return RendezvousInfo(prefixed, standing.rank, len(standing.round.members), info)

    def _wait_for_round(self, before: int) -> None:
        said = ""

        def settled(standing: Standing) -> bool:
            nonlocal said
            self._idle()
            if standing.waiting_for != said:
                said = standing.waiting_for
                log.info("no round yet: %s", said)
            return standing.number > before or standing.over or bool(standing.refused)

        if not self._link.until(settled, self.settings.patience or None):
            raise RendezvousTimeoutError(f"no round in {self.settings.patience:g} s: {self._link.standing.waiting_for}")
        if self._link.standing.over:
            self._ended = True
            raise RendezvousGracefulExitError("the training is finished")
        if self._link.standing.refused:
            raise RendezvousClosedError(f"this agent may not join: {self._link.standing.refused}")

    def _reach(self, host: str, port: int, number: int) -> Any:
        """The store of rank 0, None if the round is over before it answers."""
        while not self._link.standing.stale and self._link.standing.number == number:
            try:
                socket.create_connection((host, port), timeout=1.0).close()
                return TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=REACH)
            except (OSError, RuntimeError) as error:  # torch's errors are RuntimeErrors
                log.info("rank 0 does not answer at %s:%d yet: %s", host, port, error)
                self._link.until(lambda standing: bool(standing.stale), 0.1)
        return None

    def holds(self, wait: float = 0.0) -> bool:
        """Whether the round does, for so many seconds more."""
        return not self._link.until(lambda standing: bool(standing.stale), wait)

    def at_fault(self, *, hard: bool) -> bool:
        """Whether a failure of our workers was their own, or the consequence of somebody else's end."""
        if self._link.standing.stale:
            return False
        self._link.act(lambda standing: standing.fail(hard=hard))
        if not self._link.until(lambda standing: standing.verdict is not None, VERDICT):
            log.warning("the job service did not say whose fault the failure was: taking it for ours")
            return True
        verdict = self._link.standing.verdict
        assert verdict is not None
        log.info("workers failed; %s: %s", "our own fault" if verdict.own else "a consequence", verdict.reason)
        if not verdict.own:
            self._link.act(lambda standing: setattr(standing, "stale", verdict.reason))
        return verdict.own

    def finish(self, timeout: float) -> None:
        """Our workers ended well: says so and waits for the others of the round."""
        self._ended = True
        self._link.act(lambda standing: standing.finish())
        self._link.until(lambda standing: self._idle() or standing.over, timeout)

    def _idle(self) -> bool:
        """Without workers nobody computes, which is no stall."""
        if self.activity:
            self.activity.wait(time.monotonic())
        return False

    def leave(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._link.act(lambda standing: standing.leave(reason))
            self._link.flush(FLUSH)

    def shutdown(self) -> bool:
        """An agent that ends takes nobody with it: the others regroup."""
        self.leave("it ended")
        self._link.close()
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
