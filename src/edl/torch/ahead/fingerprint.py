"""A fingerprint of 128 bits, by which one process tells whether bytes are still what they were.

Not for secrets, and not to be compared between processes. It is computed in the pause over all that was sent ahead, so
it has to be faster than sending, which hashes of hashlib are not everywhere: it is two sums of products.
"""

import functools
import hashlib
import struct

import torch

BLOCK = 1 << 20  # bytes: what is computed in between stays in the cache
WORD = 8


class Fingerprint:
    """Of bytes that are added one chunk after the other, each but the last of whole blocks."""

    def __init__(self) -> None:
        self._sums: list[torch.Tensor] = []
        self._length = 0

    def add(self, chunk: torch.Tensor) -> None:
        """Of type uint8, in one piece."""
        for block in chunk.split(BLOCK) if chunk.numel() else ():
            self._sums += _sums(_words(block))
            self._length += block.numel()

    def digest(self) -> bytes:
        sums = torch.stack(self._sums).tolist() if self._sums else []
        found = hashlib.blake2b(struct.pack("<q", self._length), digest_size=16)
        found.update(struct.pack(f"<{len(sums)}q", *sums))
        return found.digest()


def fingerprint(data: torch.Tensor) -> bytes:
    made = Fingerprint()
    made.add(data)
    return made.digest()


def _words(block: torch.Tensor) -> torch.Tensor:
    length = block.numel()
    if length % WORD or block.storage_offset() % WORD:
        padded = block.new_zeros(-(-length // WORD) * WORD)
        padded[:length] = block
        block = padded
    return block.view(torch.int64)


def _sums(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Modulo 2**64. The upper bits of a word have hardly any weight in the first sum (the signs of two numbers would
    cancel each other out), so its upper half is weighed once more in the second."""
    first, second = _weights(words.device)
    count = words.numel()
    upper = words >> 32
    return (words * first[:count]).sum(), upper.mul_(second[:count]).sum()


@functools.lru_cache
def _weights(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The same on all devices."""
    generator = torch.Generator().manual_seed(0x9E3779B97F4A7C15)
    shape = (2, BLOCK // WORD)
    weights = torch.randint(-(1 << 63), (1 << 63) - 1, shape, dtype=torch.int64, generator=generator)
    first, second = (weights | 1).to(device).unbind()
    return first, second
