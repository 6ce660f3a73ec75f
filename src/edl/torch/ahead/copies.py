"""What was sent ahead, on both ends; and which of it is still true when the round is entered.

A tensor is sent again if torch knows of a change to it, or its place, kind or memory is another one, or its bytes
differ: scripts may write through `.data`, of which torch does not know. So nothing depends on what was sent ahead,
whatever was half changed when it was read.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import torch

from edl.torch.ahead.fingerprint import fingerprint
from edl.torch.ahead.views import Seen, view_of
from edl.torch.rounds import transfer


@dataclass(frozen=True)
class Copy:
    """A tensor as it was before it was copied, and the fingerprint of what was sent of it."""

    seen: Seen
    fingerprint: bytes

    def true(self, now: Seen) -> bool:
        return self.seen.same(now) and fingerprint(transfer.flat(now.tensor)) == self.fingerprint


@dataclass
class Sent:
    """`targets`: ranks that have all copies, in this order."""

    targets: Collection[int]
    copies: dict[transfer.Path, Copy] = field(default_factory=dict)

    def true(self, state: Any) -> dict[transfer.Path, int]:
        """Which places need not be sent, with the number of their copy."""
        view = view_of(state)
        numbered = enumerate(self.copies.items())
        return {path: at for at, (path, copy) in numbered if path in view and copy.true(view[path])}


@dataclass
class Received:
    """From one rank: copies in the order in which they came, as bytes."""

    source: int
    copies: list[torch.Tensor] = field(default_factory=list)
