"""The worker's connection to its agent: which round is the newest, whether to leave, and that it is alive.

A worker whose agent is gone ends: nobody would tell it of any change again, and its place is given to another.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from edl.runtime.torch.lines import LINK, Lines, connect
from edl.torch.rounds.group import Round

log = logging.getLogger(__name__)

ORPHANED = 3  # exit code


class AgentLink:
    """`changed` wakes whoever waits for what is said here; it is set while the link is in use."""

    def __init__(self, lines: Lines, *, orphaned: Callable[[], None] = lambda: os._exit(ORPHANED)) -> None:
        self.condition = threading.Condition()
        self.round: Round | None = None
        self.out = 0
        self._leave = False
        self._lines, self._orphaned = lines, orphaned
        threading.Thread(target=self._listen, name="edl-link", daemon=True).start()

    @classmethod
    def open(cls, env: Mapping[str, str]) -> "AgentLink":
        lines = connect(env[LINK])
        token = env[LINK].partition(":")[2]
        lines.send("hello", token=token, local_rank=int(env.get("LOCAL_RANK", "0")), pid=os.getpid())
        return cls(lines)

    @property
    def newest(self) -> int:
        return self.round.number if self.round else 0

    @property
    def leaving(self) -> bool:
        """Whether the next change is one without this worker."""
        return self._leave or self.out > self.newest

    @property
    def for_good(self) -> bool:
        return self._leave

    def say(self, kind: str, **fields: Any) -> None:
        self._lines.send(kind, **fields)

    def _listen(self) -> None:
        for message in self._lines.received():
            if message["type"] == "ping":
                self._lines.send("pong")
                continue
            with self.condition:
                self._take(message)
                self.condition.notify_all()
        self._orphaned()

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "round" and message["number"] > self.newest:
            known = ("number", "rank", "size", "endpoint")
            self.round = Round(
                members=tuple(message["members"]),
                endpoints=tuple(message.get("endpoints", ())),
                **{name: message[name] for name in known},
            )
        elif message["type"] == "out":
            self.out = max(self.out, message["number"])
        elif message["type"] == "leave":
            self._leave = True
