"""Speed of parameters and task leases, against what the machine allows.

Every server is a process of its own on loopback. Parameters: one shard, dense pushes and pulls of 16 MB, and sparse
rows; the bounds, in the same run, are the same bytes through a bare socket into a buffer and a copy in memory.
Tasks: get and done over one trainer's connections, acknowledged by a job service in memory; the bound is an echo of a
message of that size over the same wire.

    python bench/bench_runtime.py [--quick]
"""

import argparse
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from edl.runtime.environment import Environment
from edl.runtime.parameters.messages import Init, Pull, PullRows, Push, Pushed, Restore
from edl.runtime.parameters.model import Dense, Kind, Model, Optimizer, Rows
from edl.runtime.parameters.server import ParameterServer
from edl.runtime.rpc import Client, Nothing, Reply, Server, listen
from edl.runtime.tasks.messages import Acknowledged, Assignment, Done, GetStats, GetTask, Hello, LeasedTask, Welcome
from edl.runtime.tasks.run import Master
from edl.runtime.trainer_api.local_job import LocalService

TOKEN = "bench"
ELEMENTS = 4 << 20  # 16 MB of float32
PIECE = 1 << 22  # what both take from a socket at once; larger pieces are slower
ROWS, WIDTH = 10_000, 16


class Echoes:
    messages = GetStats

    def connected(self) -> "Echoes":
        return self

    def handle(self, message: GetStats, payload: memoryview) -> Reply:
        return Reply()

    def closed(self) -> None:
        return None


def serve(what: str) -> None:
    """Runs one server in this process, prints its port, and ends with its standard input."""
    if what == "master":
        env = Environment(job="bench", namespace="bench", token=TOKEN, pod_ip="127.0.0.1", master="127.0.0.1:0")
        service = LocalService("")
        Master(replace(env, task_lease=600.0), service, on_fenced=print)
        print(service.master.rpartition(":")[2], flush=True)
    elif what == "bytes":
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=swallow, args=(listener,), daemon=True).start()
        print(listener.getsockname()[1], flush=True)
    else:
        listener = listen("127.0.0.1", 0)
        sessions = ParameterServer(Path(tempfile.mkdtemp())) if what == "pserver" else Echoes()
        Server(sessions, TOKEN, listener).start()
        print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


def swallow(listener: socket.socket) -> None:
    """Takes 16 MB into one buffer and answers a byte, or sends them, again and again."""
    sock, _ = listener.accept()
    buffer, order = memoryview(bytearray(4 * ELEMENTS)), bytearray(1)
    while sock.recv_into(order):
        if order == b"s":
            sock.sendall(buffer)
            continue
        view = buffer
        while len(view):
            view = view[sock.recv_into(view, min(len(view), PIECE)) :]
        sock.sendall(b"k")


@contextmanager
def server(what: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the quickest run: the one that the rest of the machine disturbed least."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def line(name: str, figure: str, ratio: str) -> None:
    print(f"{name:<34}{figure:>18}   {ratio}")


def bounds(repeats: int) -> dict[str, float]:
    source, target = np.ones(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    copied = best(lambda: np.copyto(target, source), repeats)
    with server("bytes") as address:
        host, _, port = address.partition(":")
        sock = socket.create_connection((host, int(port)))
        view = memoryview(target.data).cast("B")

        def push() -> None:
            sock.sendall(b"r")
            sock.sendall(source.data)
            sock.recv(1)

        def pull() -> None:
            sock.sendall(b"s")
            rest = view
            while len(rest):
                rest = rest[sock.recv_into(rest, min(len(rest), PIECE)) :]

        found = {"copy": copied, "push": best(push, repeats), "pull": best(pull, repeats)}
        sock.close()
    megabytes = 4 * ELEMENTS / 1e6
    line("copy in memory", f"{megabytes / found['copy']:.0f} MB/s", "bound")
    line("bare socket, towards the server", f"{megabytes / found['push']:.0f} MB/s", "bound")
    line("bare socket, from the server", f"{megabytes / found['pull']:.0f} MB/s", "bound")
    return found


def dense(bound: dict[str, float], repeats: int) -> None:
    grad, megabytes = np.full(ELEMENTS, 1e-6, np.float32), 4 * ELEMENTS / 1e6
    kinds: list[Kind] = ["sgd", "momentum", "adam"]
    for kind in kinds:
        with server("pserver") as address:
            client = Client(address, TOKEN)
            model = Model((Dense("w", (ELEMENTS,)),), optimizer=Optimizer(kind, 0.01))
            client.call(Restore(1, 1, 0, 1, 0, 0), Nothing)
            client.call(Init(1, model), Nothing, [grad.data])
            steps = iter(range(10**6))

            def push() -> None:
                client.call(Push(1, 1, 0, 0, next(steps), ["w"]), Pushed, [grad.data])  # noqa: B023 - called here

            took = best(push, repeats)
            line(f"push, {kind}", f"{megabytes / took:.0f} MB/s", f"{bound['push'] / took:.2f} of the bare socket")
            if kind == "sgd":
                target = memoryview(np.empty(ELEMENTS, np.float32).data).cast("B")

                def pull() -> None:
                    client.send(Pull(1))  # noqa: B023 - called here
                    client.receive(Nothing)  # noqa: B023
                    client.into(target)  # noqa: B023

                took = best(pull, repeats)
                line("pull", f"{megabytes / took:.0f} MB/s", f"{bound['pull'] / took:.2f} of the bare socket")
            client.close()


def sparse(repeats: int) -> None:
    rng = np.random.default_rng(0)
    ids = rng.choice(10**9, ROWS, replace=False)
    grads = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    with server("pserver") as address:
        client = Client(address, TOKEN)
        client.call(Restore(1, 1, 0, 1, 0, 0), Nothing)
        client.call(Init(1, Model(rows=(Rows("e", WIDTH),), optimizer=Optimizer("adam"))), Nothing)
        steps = iter(range(10**6))

        def pull() -> None:
            client.call(PullRows(1, "e"), Nothing, [ids.data])

        def push() -> None:
            message = Push(1, 1, 0, 0, next(steps), [], [("e", ROWS)])
            client.call(message, Pushed, [ids.data, grads.reshape(-1).data])

        table = np.zeros((ROWS, WIDTH), np.float32)
        order = rng.permutation(ROWS)
        gathered = best(lambda: table[order], repeats)
        for name, work in (("pull rows", pull), ("push rows, adam", push)):
            took = best(work, repeats)
            line(name, f"{ROWS / took / 1e6:.2f} M rows/s", f"{gathered / took:.3f} of a gather in memory")
        client.close()


def tasks(count: int) -> None:
    with server("echo") as address:
        client = Client(address, TOKEN)
        began = time.perf_counter()
        for _ in range(count):
            client.call(GetStats(), Nothing)
        echo = count / (time.perf_counter() - began)
        client.close()
    with server("master") as address:
        ask, tell, beats = (Client(address, TOKEN) for _ in range(3))
        beats.call(Hello(1, "bench", heartbeat=True), Welcome)
        for client in (ask, tell):
            client.call(Hello(1, "bench"), Welcome)
        finished: list[LeasedTask] = []
        began = time.perf_counter()
        while (answer := ask.call(GetTask(count, 1, 5.0), Assignment)).task is not None:
            finished.append(answer.task)
            if len(finished) == 64:  # as many as a courier gathers while a write is on its way
                tell.call(Done(finished), Acknowledged)
                finished = []
            if len(finished) and finished[-1].chunk == count - 1:
                break
        if finished:
            tell.call(Done(finished), Acknowledged)
        rate = count / (time.perf_counter() - began)
        for client in (ask, tell, beats):
            client.close()
    line("echo of a message", f"{echo:.0f} /s", "bound")
    line("tasks given out and acknowledged", f"{rate:.0f} /s", f"{rate / echo:.2f} of an echo")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--serve", metavar="WHAT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    repeats = 5 if options.quick else 25
    dense(bounds(repeats), repeats)
    sparse(repeats)
    tasks(1000 if options.quick else 10_000)


if __name__ == "__main__":
    main()
