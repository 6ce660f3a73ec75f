"""`edl up` and `edl down`: a cluster in the background, one per home.

The command forks before it has imported anything heavy; the child becomes the cluster and tells, over a pipe, when it
is ready or why it is not. Stopping is SIGTERM to the process that holds the home's lock, told from any other by its
start time; if it does not end, SIGKILL. Either way nothing of it is left.
"""

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import edl
from edl.embedded.home import Claim, Home, HomeInUseError, Running

_READY_SECONDS = 120.0  # it takes about one; past this something is in its way, and the log says what
_STOP_SECONDS = 30.0
_LOG_BYTES = 10 << 20
_LOG_TAIL = 4000


class UpError(Exception):
    """The cluster could not be started; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    home: Path
    nodes: int = 1
    cpu: str = ""
    memory: str = ""
    gpu: int = 0
    resources: dict[str, str] = field(default_factory=dict)
    port: int = 0
    operator: bool = True
    sandbox: str = ""
    """One of supervisor/sandbox.py's modes; empty takes the best that works."""
    working_dir: str = "/"


def start(settings: UpSettings, *, patience: float = _READY_SECONDS) -> Running:
    """Start a cluster in the background; what runs, once it is ready. HomeInUseError, UpError."""
    home = Home(settings.home)
    claim = home.claim()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _become_cluster(home, settings, claim, writer)
    claim.close()  # the child holds it too
    os.close(writer)
    return _wait_ready(home, reader, child, patience)


def _wait_ready(home: Home, reader: int, child: int, patience: float) -> Running:
    with os.fdopen(reader) as pipe:
        in_time = select.select([pipe], [], [], patience)[0]
        if not in_time:
            os.kill(child, signal.SIGTERM)
        answer = pipe.readline() if in_time else ""  # ends at the latest when the child does
    message: dict[str, Any] = json.loads(answer) if answer else {}
    if "ready" in message:
        return Running(**message["ready"])
    tail = home.log.read_text(errors="replace")[-_LOG_TAIL:] if home.log.exists() else ""
    what = "ended while it started" if in_time else f"was not ready within {patience:g} s and is stopped"
    raise UpError(message.get("failed") or f"the cluster {what}; the end of {home.log}:\n{tail}")


def _become_cluster(home: Home, settings: UpSettings, claim: Claim, writer: int) -> NoReturn:
    code = 1
    try:
        os.setsid()
        _redirect(home)
        code = serve(settings, claim=claim, ready=lambda running: _answer(writer, {"ready": _fields(running)}))
    except BaseException as error:
        with contextlib.suppress(OSError):
            _answer(writer, {"failed": f"{type(error).__name__}: {error}"})
        _log_failure()
    finally:
        os._exit(code)


def _answer(writer: int, message: dict[str, Any]) -> None:
    os.write(writer, json.dumps(message).encode() + b"\n")
    os.close(writer)


def _fields(running: Running) -> dict[str, Any]:
    return {name: getattr(running, name) for name in Running.__slots__}


def _redirect(home: Home) -> None:
    if home.log.exists() and home.log.stat().st_size > _LOG_BYTES:
        home.log.replace(home.log.with_suffix(".log.1"))
    log = os.open(home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in ((0, null), (1, log), (2, log)):
        os.dup2(descriptor, number)


def _log_failure() -> None:
    import traceback

    traceback.print_exc()
    sys.stderr.flush()


def serve(settings: UpSettings, *, ready: Callable[[Running], None], claim: Claim | None = None) -> int:
    """Be the cluster until SIGTERM or SIGINT. `ready` is called once everything is up."""
    gc.disable()  # until then: collecting while modules are imported finds nothing and takes a tenth of the time
    import asyncio
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    return asyncio.run(_serve(settings, ready, claim))


async def _serve(settings: UpSettings, ready: Callable[[Running], None], claim: Claim | None) -> int:
    import asyncio

    from edl.embedded.cluster import ClusterSettings, running_cluster
    from edl.embedded.node.registration import capacity_of
    from edl.embedded.node.supervisor.sandbox import MODES

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    home = Home(settings.home)
    wanted = ClusterSettings(
        home=settings.home,
        nodes=settings.nodes,
        capacity=capacity_of(
            settings.nodes,
            cpu=settings.cpu,
            memory=settings.memory,
            gpu=settings.gpu,
            resources=settings.resources,
        ),
        port=settings.port,
        operator=settings.operator,
        modes=(settings.sandbox,) if settings.sandbox else MODES,
        working_dir=settings.working_dir,
    )
    async with running_cluster(wanted, claim=claim) as cluster:
        running = Running(
            pid=os.getpid(),
            start=_start_of(os.getpid()) or 0,
            url=cluster.url,
            nodes=settings.nodes,
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            version=edl.__version__,
        )
        home.tell(running)
        gc.enable()
        ready(running)
        await stop.wait()
    return 0


# Stopping


@dataclass(frozen=True, slots=True)
class Stopped:
    """`running` is what ran, if anything did; `left` counts processes of an earlier crash that were killed."""

    running: Running | None
    left: int = 0


def stop(path: Path, *, timeout: float = _STOP_SECONDS) -> Stopped:
    """End the cluster of a home, and whatever is left of one that was killed."""
    from edl.embedded.node.supervisor.processes import kill_marked

    home = Home(path)
    if not path.exists():
        return Stopped(None)
    running = None
    try:
        claim = home.claim()
    except HomeInUseError as busy:
        running = busy.running
        claim = _stop_holder(home, busy, timeout)
    try:
        left = kill_marked(home.owner) if (path / "owner").exists() else 0
    finally:
        claim.close()
    return Stopped(running, left)


def _stop_holder(home: Home, busy: HomeInUseError, timeout: float) -> Claim:
    if busy.running is None:
        raise UpError(f"a cluster is being started on {home.path}; try again in a moment")
    deadline = time.monotonic() + timeout
    _signal(busy.running, signal.SIGTERM)
    while True:
        try:
            return home.claim()
        except HomeInUseError:
            if time.monotonic() >= deadline:
                _signal(busy.running, signal.SIGKILL)
                deadline = time.monotonic() + timeout
            time.sleep(0.02)


def _signal(running: Running, number: signal.Signals) -> None:
    try:
        handle = os.pidfd_open(running.pid)
    except OSError:
        return
    try:
        if _start_of(running.pid) == running.start:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)


def _start_of(pid: int) -> int | None:
    """When a process began, in ticks since boot."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19])
