"""How long a join stops training in place, by the size of the state that the newcomer needs, beside the rate at which
loopback moves bytes in the same run. All of the state is trained, or nine tenths of it are frozen."""

import math
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.frameworks.changes import SMALL
from bench.frameworks.contenders.ours import InPlace
from bench.frameworks.contenders.registry import CONTENDERS, IN_PLACE
from bench.frameworks.job import Job
from bench.frameworks.stage import START, StuckError, staged, wait

SIZES = {"6 MB": 5_870_000, "200 MB": 199_700_000, "2 GB": 1_994_000_000}
"""Bytes of parameters, and two moments of those that are trained: 12 for each weight, 4 for one that is frozen."""
FROZEN = {"all trained": 0.0, "9/10 frozen": 0.9}
TELL = 30.0  # seconds that workers have to tell how the change was made
PIECE = 1 << 20


def loopback_rate(total: int = 1 << 30) -> float:
    """Bytes a second of one TCP connection, sender and receiver in threads of this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=_send, args=(server.getsockname(), total))
        sender.start()
        connection, _ = server.accept()
        with connection:
            began, left, buffer = time.perf_counter(), total, bytearray(PIECE)
            while left > 0:
                left -= connection.recv_into(buffer)
            took = time.perf_counter() - began
        sender.join()
    return total / took


def _send(address: tuple[str, int], total: int) -> None:
    piece = bytes(PIECE)
    with socket.create_connection(address) as connection:
        for _ in range(total // PIECE):
            connection.sendall(piece)


def measure(names: Sequence[str], rounds: int) -> Iterator[str]:
    for _ in range(rounds):
        for name in names:
            for how, frozen in FROZEN.items():
                try:
                    yield f"{name:>6} of state, {how}: {_join(SIZES[name], frozen)}"
                except StuckError as error:
                    yield f"{name:>6} of state, {how}: {error}"[:2000]


def _width(count: float) -> int:
    """Of the network whose state has so many bytes: 12 for each of w * w + 19 * w + 1 weights."""
    return round(math.sqrt(count / 12 + 9.5**2 - 1) - 9.5)


def _join(count: int, frozen: float) -> str:
    width, weights = _width(count * (1 - frozen)), int(count * frozen / 4)
    workload = replace(SMALL.workload, width=width, frozen=weights, batch=24, samples=240)
    rate = loopback_rate()
    contender = next(one for one in CONTENDERS if one.name == IN_PLACE)
    with staged(contender, workload, 2, settle=3) as job:
        since = time.monotonic()
        job.resize(3)
        wait(job, 3, since, 2, START)
        pause, sent = job.ledger.pause(since, 2, 3), _sent(job)
    alone = sent / rate
    own = pause.steps * (1 - alone / pause.seconds)
    return (
        f"join stops training {pause.seconds:.2f} s ({pause.steps:.1f} of its own steps); {sent / 1e6:.1f} MB came in "
        f"the pause, {max(0, count - sent) / 1e6:.1f} MB ahead; loopback at {rate / 1e9:.2f} GB/s moves the former in "
        f"{alone:.2f} s, the rest is {own:.1f} steps"
    )


def _sent(job: Job) -> int:
    """In the pause."""
    assert isinstance(job, InPlace)
    end = time.monotonic() + TELL
    while (sent := job.sent(3)) is None:
        if time.monotonic() > end:
            raise StuckError("workers did not tell how the change was made")
        time.sleep(0.05)
    return sent
