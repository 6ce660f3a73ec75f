"""Checkpoints in memory that outlive the workers that made them: their agent holds the files, which have no names.

A worker fills a file and only then hands it over, so a checkpoint that is here is whole; a worker that wants to fill
one again takes it back first. The kernel frees them when the agent ends, in whatever way it ends. Before workers are
stopped for a change of members they are asked to save once more, at a step that they agree on among themselves.
"""

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edl.runtime.torch import packets
from edl.runtime.torch.packets import Packet, Packets

log = logging.getLogger(__name__)

MEMORY = "EDL_CHECKPOINT_MEMORY"
"""Environment variable of workers: the abstract name of this socket, a colon, and what opens it."""

REGROUP, LEAVE = 40.0, 20.0  # the others wait for us; a pod is killed some time after it was asked to end
CALLS, GRACE = 3, 5.0  # calls of `save` until all ranks have agreed, and seconds for the copy


@dataclass(frozen=True)
class Held:
    """A checkpoint, or one shard of it. `slot` says which shard; of each slot only the newest are held."""

    name: str
    slot: str
    step: int
    branch: int
    file: int


@dataclass(eq=False)
class Saver:
    """A worker that has connected. `pace` is the time between its calls of `save`, None before there were two."""

    packets: Packets
    local_rank: int
    pid: int
    pace: float | None = None
    parked: bool = False
    written: bool = False


class CheckpointMemory:
    def __init__(self) -> None:
        name, self._token = f"edl-memory-{os.getpid()}-{secrets.token_hex(8)}", secrets.token_hex(16)
        self._listener = packets.listen(name)
        self.link = f"{name}:{self._token}"
        self._changed = threading.Condition()
        self._held: list[Held] = []
        self._savers: list[Saver] = []
        self._closed = False
        threading.Thread(target=self._accept, name="edl-memory", daemon=True).start()

    def stop(self, expected: int, *, leaving: bool = False) -> bool:
        """Has the workers save and wait, and returns whether they did. They train on until then. Waits for nobody if
        one is gone or if they save too rarely. `leaving`: this pod does not come back, so that what is in memory is
        written out as well."""
        with self._changed:
            asked = list(self._savers)
            pace = max((saver.pace or 0.0 for saver in asked), default=0.0)
            limit = LEAVE if leaving else REGROUP
            if len(asked) != expected or CALLS * pace > limit:
                return False
            for saver in asked:
                saver.packets.send("stop", leaving=leaving)

            def settled() -> bool:
                return any(saver not in self._savers for saver in asked) or done()

            def done() -> bool:
                return all(saver.written if leaving else saver.parked for saver in asked)

            began = time.monotonic()
            self._changed.wait_for(settled, min(limit, CALLS * pace + GRACE))
        log.info("workers %s (%.1f s)", "have saved" if done() else "did not save before they stop", _since(began))
        return done()

    @property
    def size(self) -> int:
        """Of all that is held, in bytes."""
        with self._changed:
            return sum(os.fstat(held.file).st_size for held in self._held)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            savers, held, self._held = list(self._savers), self._held, []
        with_shutdown = Packets(self._listener)  # wakes accept(), which close() alone does not
        with_shutdown.close()
        for saver in savers:
            saver.packets.close()
        for one in held:
            os.close(one.file)

    # ---- connections

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="edl-saver", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        ours = Packets(connection)
        hello, _ = ours.receive() or ({}, None)
        if not secrets.compare_digest(str(hello.get("token")), self._token):
            ours.close()
            return
        saver = Saver(ours, int(hello["local_rank"]), int(hello["pid"]))
        while (received := ours.receive()) is not None:
            packet, file = received
            if not self._take(saver, packet, file) and file is not None:
                os.close(file)
        with self._changed:
            if saver in self._savers:
                self._savers.remove(saver)
            self._changed.notify_all()
        ours.close()

    def _take(self, saver: Saver, packet: Packet, file: int | None) -> bool:
        """Whether the file is kept."""
        answers: dict[str, Callable[[Saver, Packet], None]] = {
            "withdraw": self._withdraw,
            "list": self._list,
            "get": self._get,
            "forget": self._forget,
        }
        kind = packet["type"]
        if kind == "put" and file is not None:
            return self._put(saver, packet, file)
        if kind in answers:
            answers[kind](saver, packet)
        else:
            self._hear(saver, packet)
        return False

    def _hear(self, saver: Saver, packet: Packet) -> None:
        kind = packet["type"]
        with self._changed:
            if kind == "pace":
                saver.pace = packet["seconds"]
                if saver not in self._savers:
                    self._savers = [one for one in self._savers if one.local_rank != saver.local_rank] + [saver]
            elif kind == "parked":
                saver.parked = True
            elif kind == "written":
                saver.parked = saver.written = True
            elif kind == "resumed":
                saver.parked = saver.written = False
            self._changed.notify_all()

    # ---- what is held

    def _put(self, saver: Saver, packet: Packet, file: int) -> bool:
        put = Held(packet["name"], packet["slot"], packet["step"], packet["branch"], file)
        with self._changed:
            if self._closed:
                return False
            alike = [one for one in self._held if (one.name, one.slot) == (put.name, put.slot)]
            newer = sorted((one for one in alike if not _same(one, put)), key=lambda one: (one.branch, one.step))
            keep = [*newer, put][-max(1, packet["keep"]) :]
            dropped = [one for one in alike if one not in keep]
            self._held = [one for one in self._held if one not in dropped] + [put]
        for one in dropped:
            os.close(one.file)
        saver.packets.send("done")
        return True

    def _withdraw(self, saver: Saver, packet: Packet) -> None:
        with self._changed:
            gone = self._find(packet)
            self._held = [one for one in self._held if one is not gone]
        if gone is not None:
            os.close(gone.file)
        saver.packets.send("done")

    def _forget(self, saver: Saver, packet: Packet) -> None:
        with self._changed:
            gone = [one for one in self._held if one.name == packet["name"] and one.branch < packet["branch"]]
            self._held = [one for one in self._held if one not in gone]
        for one in gone:
            os.close(one.file)

    def _list(self, saver: Saver, packet: Packet) -> None:
        with self._changed:
            images = [
                {"slot": held.slot, "step": held.step, "branch": held.branch}
                for held in self._held
                if held.name == packet["name"]
            ]
        saver.packets.send("images", images=images)

    def _get(self, saver: Saver, packet: Packet) -> None:
        with self._changed:
            found = self._find(packet)
            if found is None:
                saver.packets.send("none")
            else:
                saver.packets.send("image", file=found.file)

    def _find(self, packet: Packet) -> Held | None:
        wanted = tuple(packet[key] for key in ("name", "slot", "step", "branch"))
        return next((one for one in self._held if (one.name, one.slot, one.step, one.branch) == wanted), None)


def _same(one: Held, other: Held) -> bool:
    return (one.step, one.branch) == (other.step, other.branch)


def _since(began: float) -> float:
    return time.monotonic() - began
