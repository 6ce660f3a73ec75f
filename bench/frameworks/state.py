"""How long a join stops training in place, by the size of the state that the newcomer needs, beside the rate at which
loopback moves bytes in the same run."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.frameworks.changes import SMALL
from bench.frameworks.contenders.registry import CONTENDERS, IN_PLACE
from bench.frameworks.stage import START, StuckError, staged, wait

WIDTHS = {"6 MB": 690, "200 MB": 4070, "2 GB": 12_880}
"""Of the network whose parameters and two moments make up so many bytes: 12 for each weight."""
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
            try:
                yield _join(name)
            except StuckError as error:
                yield f"{name:>6} of state: {error}"[:2000]


def _join(name: str) -> str:
    width = WIDTHS[name]
    workload = replace(SMALL.workload, width=width, batch=24, samples=240)
    count = 12 * (width * width + 19 * width + 1)  # bytes
    rate = loopback_rate()
    contender = next(one for one in CONTENDERS if one.name == IN_PLACE)
    with staged(contender, workload, 2, settle=3) as job:
        since = time.monotonic()
        job.resize(3)
        wait(job, 3, since, 2, START)
        pause = job.ledger.pause(since, 2, 3)
    alone = count / rate
    own = pause.steps * (1 - alone / pause.seconds)
    return (
        f"{name:>6} of state ({count / 1e6:.0f} MB): join stops training {pause.seconds:.2f} s "
        f"({pause.steps:.1f} of its own steps); loopback at {rate / 1e9:.2f} GB/s moves that in {alone:.2f} s, "
        f"the rest is {own:.1f} steps"
    )
