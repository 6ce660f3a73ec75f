"""torchrun's agent, with what the job service adds: whose fault a failure was, an announced leave, an agreed end.

torchrun makes its agent right after its rendezvous handler; `install` puts this class in the place of its own. Every
method that is overridden still calls the original. Needs torch.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from torch.distributed.elastic.agent.server import Worker, WorkerGroup, WorkerState
from torch.distributed.elastic.agent.server.api import RunResult
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.launcher import api as launcher

from edl.runtime.environment import Environment
from edl.runtime.logs.feed import LogFeed
from edl.runtime.torch import activity, failure_message
from edl.runtime.torch.checkpoint_memory import MEMORY
from edl.runtime.torch.handler import EdlHandler, own_address
from edl.runtime.torch.lines import JOINS, LINK
from edl.runtime.torch.plugin import Parameters, Settings, connect
from edl.runtime.torch.stream_tail import STDERR, STDOUT, StreamTail
from edl.runtime.torch.warm_workers import Zygote

log = logging.getLogger(__name__)

EXCHANGE, CHECK = 60.0, 1.0  # seconds for members to exchange their addresses; between checks whether the round holds
DRAIN, SEND = 2.0, 5.0  # seconds for the last lines to be passed on; for them to be sent
HARD = {-number for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)}
"""Ends of a worker that no peer brings about. Not SIGABRT: communication libraries abort when a peer dies."""


class RoundOverError(Exception):
    """A member of the round ended before its workers could start."""


class EdlAgent(LocalElasticAgent):  # type: ignore[misc]  # torch is not installed where types are checked
    _regrouping = False
    _errors = StreamTail(STDERR)
    _output: StreamTail | None = None

    @property
    def _handler(self) -> EdlHandler | None:
        handler = self._worker_group.spec.rdzv_handler
        return handler if isinstance(handler, EdlHandler) else None

    def run(self, *args: Any, **kwargs: Any) -> RunResult:
        try:
            result = super().run(*args, **kwargs)
        finally:
            self._hand_over_logs()
        if result is None:
            return RunResult(state=WorkerState.SUCCEEDED)  # came when all was done
        for failure in _first(result.failures):
            failure_message.write_termination_message(failure, os.environ)
        return result

    def _hand_over_logs(self) -> None:
        """What workers wrote last is passed on, and sent, before this process ends: within seconds, or not at all."""
        for tail in filter(None, (self._output, self._errors)):
            tail.drain(DRAIN)
        if self._handler and self._handler.logs:
            self._handler.logs.close(SEND)

    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Again, if a member of the round ends before all have registered in its store."""
        while True:
            try:
                super()._rendezvous(worker_group)
                return
            except RoundOverError as over:
                log.info("the round was over before its workers started: %s", over)

    def _assign_worker_ranks(self, *args: Any, **kwargs: Any) -> Any:
        """torchrun would wait for the others for as long as its store allows, whatever becomes of them."""
        if self._handler and self._handler.joins_workers_that_live:
            return _ranks(*args[1:], **kwargs)  # who lives on does not come to the store: all pods have as many workers
        end = time.monotonic() + EXCHANGE
        while True:
            try:
                return super()._assign_worker_ranks(*args, **kwargs)
            except RuntimeError as error:  # as torch's stores raise
                if self._handler and not self._handler.holds(CHECK):
                    raise RoundOverError(str(error)) from error
                if self._handler is None or time.monotonic() > end:
                    raise

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = super()._monitor_workers(worker_group)
        handler = self._handler
        if handler and handler.in_place.over and result.state == WorkerState.HEALTHY:
            self._stop_workers(worker_group)
            return RunResult(state=WorkerState.SUCCEEDED, return_values={})
        if handler and handler.activity and result.state == WorkerState.HEALTHY:
            handler.activity.check(time.monotonic())
        if handler is None or result.state not in (WorkerState.FAILED, WorkerState.UNHEALTHY):
            return result
        if self._at_fault(handler, _first(result.failures)):
            return result
        return RunResult(state=WorkerState.HEALTHY)  # the round is stale: the agent's loop regroups

    def _at_fault(self, handler: EdlHandler, failures: list[Any]) -> bool:
        said = "".join(failure_message.said_by(failure) for failure in failures) or self._errors.last()
        code = next((failure.exitcode for failure in failures), 0)
        hard = any(failure.exitcode in HARD for failure in failures)
        return handler.at_fault(hard=hard, code=max(code, 0), message=failure_message.reportable(said))

    def _start_workers(self, worker_group: WorkerGroup) -> Any:
        logs = self._handler.logs if self._handler else None
        copy = logs.add if logs and logs.wanted else None
        self._errors, self._output = StreamTail(STDERR, copy), StreamTail(STDOUT, copy) if copy else None
        with self._errors.inherited(), self._output.inherited() if self._output else contextlib.nullcontext():
            started = self._start(worker_group)
        if self._handler:
            self._handler.started()
        return started

    def _start(self, worker_group: WorkerGroup) -> Any:
        handler, spec = self._handler, worker_group.spec
        zygote = handler.zygote if handler else None
        if handler and handler.activity:
            handler.activity.begin()
        if handler:
            handler.hub.expected = spec.local_world_size
            os.environ[LINK], os.environ[MEMORY] = handler.hub.link, handler.memory.link
            os.environ[JOINS] = "1" if handler.joins_workers_that_live else ""
            handler.in_place.begin()
        if zygote is None or spec.entrypoint != sys.executable or getattr(spec, "numa_options", None):
            return super()._start_workers(worker_group)
        arguments = spec.args
        spec.args = zygote.through(arguments)
        try:
            with zygote.offered():
                return super()._start_workers(worker_group)
        finally:
            spec.args = arguments

    def _stop_workers(self, *args: Any, **kwargs: Any) -> None:
        self._regrouping = True
        if self._handler:
            self._handler.stopped()
        if self._handler:
            self._handler.save()
        try:
            with self._killed_in_the_end():
                super()._stop_workers(*args, **kwargs)
        finally:
            self._regrouping = False

    def _shutdown(self, *args: Any, **kwargs: Any) -> None:
        if self._handler and not self._regrouping:
            self._handler.leave("it was asked to stop, or its workers failed")
        super()._shutdown(*args, **kwargs)

    def _exit_barrier(self) -> None:
        if self._handler:
            self._handler.finish(self._exit_barrier_timeout)
        else:
            super()._exit_barrier()

    @contextlib.contextmanager
    def _killed_in_the_end(self) -> Iterator[None]:
        """Others wait for us to regroup, so workers that do not stop are not waited for as long as torchrun would."""
        context, handler = self._pcontext, self._handler
        if context is None or handler is None:
            yield
            return
        pids = list(context.pids().values())
        timer = threading.Timer(handler.settings.stop, _kill, [pids])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def install(params: Parameters, settings: Settings, env: Mapping[str, str]) -> EdlHandler:
    launcher.LocalElasticAgent = EdlAgent
    _enable_log()
    connection = connect(params, settings, env)
    zygote = Zygote.start(env) if settings.warm else None
    address = own_address(params.local_addr, env)
    handler = EdlHandler(connection, settings, run=params.run_id, address=address, zygote=zygote)
    handler.logs = LogFeed.start(Environment.read(env), lambda: connection.state.leads)
    handler.activity = activity.of_workers(lambda: zygote.pid if zygote else None, env)
    return handler


def _ranks(group_rank: int, group_world_size: int, spec: Any) -> list[Worker]:
    count = spec.local_world_size
    whole = group_world_size * count
    return [
        Worker(
            local_rank=local,
            global_rank=group_rank * count + local,
            role_rank=group_rank * count + local,
            world_size=whole,
            role_world_size=whole,
        )
        for local in range(count)
    ]


def _enable_log() -> None:
    """Why workers are started anew belongs in the pod's log; torchrun sets up loggers for itself alone."""
    ours = logging.getLogger("edl")
    if not ours.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("edl %(asctime)s %(message)s"))
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)


def _first(failures: Mapping[int, Any]) -> list[Any]:
    """The failure that came first; torchrun stops the other workers after it and counts them as failed too."""
    return list(failures.values())[:1]


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
            log.warning("worker %d did not stop in time and was killed", pid)
