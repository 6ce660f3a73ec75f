"""Starts a cluster in the background, one per home.

The command forks before it has imported anything heavy; the child becomes the cluster and reports over a pipe that it
is ready, or why it is not.
"""

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

import edl
from edl.cli.local.process import start_time
from edl.cli.local.size import ClusterSize, save_size
from edl.embedded.home import Claim, Home, PortTakenError, RunningCluster

if TYPE_CHECKING:
    from edl.embedded.cluster import ClusterSettings

_READY_SECONDS = 120.0  # it takes about one; past this something is in its way, and the log says what
_LOG_BYTES = 10 << 20
_LOG_SECONDS = 10.0
_LOG_TAIL = 4000


class UpError(Exception):
    """The cluster could not be started; the message says why."""


class UpSettings(msgspec.Struct, frozen=True, kw_only=True):
    home: Path
    size: ClusterSize = ClusterSize()
    port: int = 0
    """0: the last one if it is free, else any; another one must be free."""
    operator: bool = True
    sandbox: str = ""
    """One of supervisor/sandbox.py's modes; empty takes the best that works."""
    working_dir: str = "/"


def start(settings: UpSettings, *, patience: float = _READY_SECONDS) -> RunningCluster:
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


def _wait_ready(home: Home, reader: int, child: int, patience: float) -> RunningCluster:
    with os.fdopen(reader) as pipe:
        in_time = select.select([pipe], [], [], patience)[0]
        if not in_time:
            os.kill(child, signal.SIGTERM)
        answer = pipe.readline() if in_time else ""  # ends at the latest when the child does
    message: dict[str, Any] = json.loads(answer) if answer else {}
    if "ready" in message:
        return RunningCluster(**message["ready"])
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
            kind = "" if isinstance(error, PortTakenError) else f"{type(error).__name__}: "
            _answer(writer, {"failed": f"{kind}{error}"})
        _log_failure()
    finally:
        os._exit(code)


def _answer(writer: int, message: dict[str, Any]) -> None:
    os.write(writer, json.dumps(message).encode() + b"\n")
    os.close(writer)


def _fields(running: RunningCluster) -> dict[str, Any]:
    return msgspec.structs.asdict(running)


def rotate_log(log: Path, most: int = _LOG_BYTES) -> bool:
    """Empties a log of more than so many bytes, of which a copy is kept as `.1`. Processes that write to it write on:
    it stays the same file."""
    try:
        if log.stat().st_size <= most:
            return False
        copy = log.with_suffix(".log.1")
        shutil.copyfile(log, copy)
        copy.chmod(0o600)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # the disk is full: the newest lines are worth more than the old ones
    with contextlib.suppress(OSError):
        os.truncate(log, 0)
    return True


async def _keep_log_small(log: Path) -> None:
    import asyncio

    while True:
        await asyncio.sleep(_LOG_SECONDS)
        await asyncio.to_thread(rotate_log, log)


def _redirect(home: Home) -> None:
    rotate_log(home.log)
    log = os.open(home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in ((0, null), (1, log), (2, log)):
        os.dup2(descriptor, number)


def _log_failure() -> None:
    import traceback

    traceback.print_exc()
    sys.stderr.flush()


def serve(settings: UpSettings, *, ready: Callable[[RunningCluster], None], claim: Claim | None = None) -> int:
    """Be the cluster until SIGTERM or SIGINT. `ready` is called once everything is up."""
    gc.disable()  # until then: collecting while modules are imported finds nothing and takes a tenth of the time
    import asyncio
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    return asyncio.run(_serve(settings, ready, claim))


async def _serve(settings: UpSettings, ready: Callable[[RunningCluster], None], claim: Claim | None) -> int:
    import asyncio

    from edl.cli.local.services import operator_with_brain
    from edl.cli.local.web import web
    from edl.embedded.cluster import Service, running_cluster

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    services: list[Service] = [operator_with_brain, web] if settings.operator else [web]
    async with running_cluster(_cluster_settings(settings), services=services, claim=claim) as cluster:
        running = RunningCluster(
            pid=os.getpid(),
            start=start_time(os.getpid()) or 0,
            url=cluster.url,
            nodes=settings.size.nodes,
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            version=edl.__version__,
        )
        Home(settings.home).save_running(running)
        save_size(settings.home, settings.size)
        gc.enable()
        ready(running)
        rotating = asyncio.create_task(_keep_log_small(Home(settings.home).log))
        await stop.wait()
        rotating.cancel()
    return 0


def _cluster_settings(settings: UpSettings) -> "ClusterSettings":
    from edl.cli.local.admission import edl_groups, edl_rules
    from edl.embedded.cluster import ClusterSettings
    from edl.embedded.node.registration import DeclaredCapacity, capacity_of
    from edl.embedded.node.supervisor.sandbox import MODES

    size = settings.size
    declared = DeclaredCapacity(
        cpu=size.cpu, memory=size.memory, disk=size.disk, gpu=size.gpu, resources=size.resources
    )
    return ClusterSettings(
        home=settings.home,
        nodes=size.nodes,
        capacity=capacity_of(size.nodes, directory=settings.home, declared=declared),
        port=settings.port,
        admission=edl_rules,
        pod_groups=edl_groups,
        modes=(settings.sandbox,) if settings.sandbox else MODES,
        working_dir=settings.working_dir,
    )
