"""A loopback address for every pod, unique on the machine, so that two pods may listen on the same port.

Several clusters may run side by side and know nothing of each other, so blocks of addresses are reserved where the
addresses themselves live: an abstract Unix socket, named after the block, exists once per network namespace and ends
with its process. No file, nothing to clean up after kill -9.
"""

import random
import socket
from collections.abc import Callable

_FIRST, _LAST = 16, 95
"""127.16.0.0 to 127.95.255.255: clear of 127.0.0.1, of resolvers at 127.0.0.53, and of services (127.96 and above)."""


class AddressesExhaustedError(Exception):
    pass


class AddressPool:
    """Takes a /24 at a time when the addresses run out. A freed address rests before it is used again."""

    def __init__(self, *, rng: random.Random | None = None, reserve: "Callable[[str], object] | None" = None) -> None:
        self._rng = rng or random.Random()
        self._reserve = reserve or _reserve
        self._reservations: list[object] = []
        self._free: list[str] = []

    def take(self) -> str:
        if not self._free:
            block = self._take_block()
            self._free = [f"{block}.{last}" for last in range(1, 255)]
        return self._free.pop(0)

    def give_back(self, address: str) -> None:
        self._free.append(address)

    def close(self) -> None:
        for reservation in self._reservations:
            if isinstance(reservation, socket.socket):
                reservation.close()
        self._reservations.clear()
        self._free.clear()

    def _take_block(self) -> str:
        for _ in range(1000):
            block = f"127.{self._rng.randint(_FIRST, _LAST)}.{self._rng.randrange(256)}"
            reservation = self._reserve(block)
            if reservation is not None:
                self._reservations.append(reservation)
                return block
        raise AddressesExhaustedError("no free block of loopback addresses: are very many clusters running here?")


def _reserve(block: str) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0edl-addresses-{block}")
    except OSError:
        claim.close()
        return None
    return claim
