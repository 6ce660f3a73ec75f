"""Faults of a soak in turn: kills, a pause of a minute, a full disk; and half-open clients all along."""

import asyncio
import contextlib
import os
import random
import signal
import socket
from pathlib import Path

import psutil

from tests.stories.machine import Machine

PAUSE = 60.0
FULL = 10.0
HALF_OPEN = 50


class Faults:
    def __init__(self, machine: Machine, *, small_disk: bool, random_: random.Random) -> None:
        self._machine, self._small_disk, self._random = machine, small_disk, random_
        self.counted: dict[str, int] = {}

    async def one(self, number: int) -> None:
        kinds = [
            self.kill_a_pod,
            self.pause,
            self.kill_a_pod,
            self.fill_the_disk,
            self.kill_a_pod,
            self.kill_the_cluster,
        ]
        await kinds[number % len(kinds)]()

    async def kill_a_pod(self) -> None:
        victims = [one for one in self._below() if _role(one) in ("trainer", "worker")]
        if victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._random.choice(victims).kill()
                self._count("processes of pods killed")

    async def kill_the_cluster(self) -> None:
        self._machine.kill_tree("up")
        self._count("clusters killed")

    async def pause(self) -> None:
        pid = self._machine.pid("up")
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(PAUSE)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        self._count("pauses of a minute")

    async def fill_the_disk(self) -> None:
        """Only where the home has a small disk of its own."""
        if not self._small_disk:
            return
        filler = self._machine.home / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * (1 << 20))
        await asyncio.sleep(FULL)
        filler.unlink()
        self._count("disks filled and emptied")

    def _below(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._machine.pid("up")).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _count(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1


def _role(process: psutil.Process) -> str:
    try:
        return process.environ().get("EDL_ROLE", "")
    except (psutil.Error, OSError):
        return ""


async def half_open(url: Path) -> None:
    """For ever: so many clients that connect to the API server, say half a word, and connect again when dropped."""
    clients: list[socket.socket] = []
    try:
        while True:
            with contextlib.suppress(OSError, ValueError, IndexError):
                port = int(_server(url).rpartition(":")[2])
                clients = [one for one in clients if _connected(one)]
                while len(clients) < HALF_OPEN:
                    one = socket.create_connection(("127.0.0.1", port), timeout=1)
                    one.setblocking(False)
                    one.send(b"\x16\x03\x01")
                    clients.append(one)
            await asyncio.sleep(1.0)
    finally:
        for one in clients:
            one.close()


def _server(kubeconfig: Path) -> str:
    return next(line.split()[1] for line in kubeconfig.read_text().splitlines() if line.strip().startswith("server:"))


def _connected(one: socket.socket) -> bool:
    try:
        if one.recv(1):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    one.close()
    return False
