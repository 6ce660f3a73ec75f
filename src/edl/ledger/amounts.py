"""Amounts of what jobs use, at a moment or over time: instances, GPUs, cores, GiB of memory."""

from collections.abc import Iterable

import msgspec


class Amounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """At a moment: how many there are. Over time: instance-, GPU-, core- and GiB-seconds."""

    instances: float = 0.0
    gpus: float = 0.0
    cores: float = 0.0
    gib: float = 0.0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.instances + other.instances,
            self.gpus + other.gpus,
            self.cores + other.cores,
            self.gib + other.gib,
        )

    def __sub__(self, other: "Amounts") -> "Amounts":
        return self + other * -1

    def __mul__(self, by: float) -> "Amounts":
        return Amounts(self.instances * by, self.gpus * by, self.cores * by, self.gib * by)

    @property
    def scarcest(self) -> float:
        """Of the resource that a share is best told by: GPUs where there are any, else cores, else instances."""
        return self.gpus or self.cores or self.instances


NOTHING = Amounts()


def total(amounts: Iterable[Amounts]) -> Amounts:
    return sum(amounts, NOTHING)
