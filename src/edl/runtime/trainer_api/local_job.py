"""A whole job in the trainer's own process, so that a script runs unchanged without a cluster.

The same master and parameter server, over the loopback interface; only the job service is replaced by dictionaries.
Nothing outlives the process.
"""

import logging
import os
import tempfile
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edl.protocol.job_state import JobView, RoleView, SlotView
from edl.protocol.progress import ProgressReport
from edl.protocol.slots import Slot
from edl.runtime.environment import Environment
from edl.runtime.parameters.server import ParameterServer
from edl.runtime.rpc import Server, listen
from edl.runtime.tasks.run import Master

log = logging.getLogger(__name__)


class LocalJob:
    """`env` is that of a pod of this job."""

    def __init__(self, env: Environment) -> None:
        log.info("no job around this process: it trains alone")
        self._folder = tempfile.TemporaryDirectory(prefix="edl-", ignore_cleanup_errors=True)
        self._env = replace(env, job="local", token=uuid.uuid4().hex, pod_ip="127.0.0.1", pod=f"local-{os.getpid()}")
        parameters, listener = ParameterServer(Path(self._folder.name)), listen("127.0.0.1", 0)
        self._server = Server(parameters, self._env.token, listener)
        self._server.start()
        self._service = LocalService(self._env.address_of(listener))
        at_any_port = replace(self._env, master="127.0.0.1:0")
        self._master = Master(at_any_port, self._service, on_fenced=log.error)
        self.env = replace(self._env, master=self._service.master)

    def close(self) -> None:
        self._service.close()
        self._master.close()
        self._server.close()
        self._folder.cleanup()


class LocalService:
    """A job service in memory, for a job with one master and one parameter server."""

    def __init__(self, pserver: str) -> None:
        self._pserver, self.master = pserver, ""
        self._values: dict[str, tuple[bytes, int]] = {}
        self._closed = threading.Event()

    def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot:
        self.master = address
        return Slot(role, index or 0, 1)

    def get(self, key: str) -> tuple[bytes, int] | None:
        return self._values.get(key)

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int:
        self._values[key] = (data, version + 1)
        return version + 1

    def job(self, after: str = "", wait: float = 0.0) -> JobView | None:
        if after:
            self._closed.wait(wait)
            return None
        slot = SlotView(epoch=1, holder="local/1", address=self._pserver, gone=False)
        return JobView(roles={"pserver": RoleView(1, slots={0: slot})}, revision="1")

    def progress(self, report: ProgressReport) -> None:
        log.debug("progress: %s", report)

    def close(self) -> None:
        self._closed.set()
