"""The worker's connection to the memory that its agent holds. Without an agent of ours there is none.

An agent that does not answer is as good as none: what the worker saves is then on disk alone.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edl.runtime.torch import packets
from edl.runtime.torch.checkpoint_memory import MEMORY
from edl.runtime.torch.packets import Packet, Packets

log = logging.getLogger(__name__)

ANSWER = 30.0


@dataclass(frozen=True)
class Key:
    """Which checkpoint: `branch` numbers the starts of the training, so that no two are mixed up that happen to have
    the same step; `slot` is its shard."""

    step: int
    branch: int
    slot: str = ""


class MemoryLink:
    def __init__(self, connection: Packets, name: str) -> None:
        self._packets, self._name = connection, name
        self._lock = threading.Lock()
        self._stop: bool | None = None
        self.lost = False
        os.register_at_fork(after_in_child=connection.abandon)  # a process that loads data must not keep it open

    @classmethod
    def open(cls, env: Mapping[str, str], name: str) -> "MemoryLink | None":
        link, _, token = env.get(MEMORY, "").partition(":")
        if not link:
            return None
        try:
            connection = packets.connect(link)
        except OSError as error:
            log.warning("checkpoints are not kept in memory: the agent cannot be reached (%s)", error)
            return None
        connection.send("hello", token=token, local_rank=int(env.get("LOCAL_RANK", "0")), pid=os.getpid())
        return cls(connection, name)

    def say(self, kind: str, **fields: Any) -> None:
        self._packets.send(kind, **fields)

    def asked_to_stop(self) -> bool:
        self._hear()
        return self._stop is not None

    @property
    def leaving(self) -> bool:
        """Whether what is in memory here will be gone."""
        return bool(self._stop)

    def resume(self) -> None:
        self._stop = None
        self.say("resumed")

    def close(self) -> None:
        self.lost = True
        self._packets.close()

    def put(self, key: Key, file: int, *, keep: int) -> bool:
        """From now on the agent holds it."""
        return self._ask("put", key, file=file, keep=keep) is not None

    def withdraw(self, key: Key) -> bool:
        """Nobody else holds it any more, so that it can be filled again."""
        return self._ask("withdraw", key) is not None

    def forget(self, branch: int) -> None:
        """What is of trainings before this one."""
        self.say("forget", name=self._name, branch=branch)

    def held(self) -> list[Key]:
        answer = self._ask("list")
        return [] if answer is None else [Key(**one) for one in answer[0].get("images", [])]

    def get(self, key: Key) -> int | None:
        """Its file, which is the caller's to close."""
        answer = self._ask("get", key)
        return None if answer is None else answer[1]

    def _ask(self, kind: str, key: Key | None = None, **more: Any) -> tuple[Packet, int | None] | None:
        fields: dict[str, Any] = {} if key is None else {"step": key.step, "branch": key.branch, "slot": key.slot}
        with self._lock:
            if self.lost:
                return None
            self._packets.send(kind, name=self._name, **fields, **more)
            with contextlib.suppress(TimeoutError):
                for packet, file in self._received(ANSWER):
                    if packet["type"] != "stop":
                        return packet, file
                    self._stop = bool(packet["leaving"])
            self._lose()
            return None

    def _hear(self) -> None:
        """What the agent says unasked."""
        with self._lock, contextlib.suppress(TimeoutError):
            if self.lost:
                return
            for packet, _ in self._received(0.0):
                self._stop = bool(packet.get("leaving"))
            self._lose()

    def _received(self, timeout: float) -> Iterator[tuple[Packet, int | None]]:
        return iter(_reader(self._packets, timeout), None)

    def _lose(self) -> None:
        self.lost = True
        log.warning("the agent does not answer: checkpoints are not kept in memory any more")


def _reader(connection: Packets, timeout: float) -> Callable[[], Any]:
    return lambda: connection.receive(timeout)
