"""Connections of which nobody has proved anything yet, and which of them goes when there are too many.

The oldest of the peer that has most goes first, so that one peer's half-open connections cost others nothing. One that
is younger than the grace is let be: an honest client needs but a moment, and a storm of honest ones must get through.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)


class Unproven(Generic[C]):
    """By peer, the oldest first."""

    def __init__(self) -> None:
        self._since: dict[C, tuple[float, str]] = {}
        self._by_peer: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, connection: C) -> bool:
        return connection in self._since

    def add(self, connection: C, peer: str, now: float) -> None:
        self._since[connection] = (now, peer)
        self._by_peer.setdefault(peer, {})[connection] = None

    def discard(self, connection: C) -> None:
        known = self._since.pop(connection, None)
        if known is not None:
            same = self._by_peer[known[1]]
            del same[connection]
            if not same:
                del self._by_peer[known[1]]

    def oldest(self) -> tuple[C, float] | None:
        """The oldest of all, and since when it is here."""
        return next(((connection, since) for connection, (since, _) in self._since.items()), None)

    def victim(self, *, before: float) -> C | None:
        """The one to go, if it came before that time."""
        if not self._by_peer:
            return None
        most = max(self._by_peer.values(), key=len)
        oldest = next(iter(most))
        return oldest if self._since[oldest][0] < before else None
