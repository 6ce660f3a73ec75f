"""The declaration of a model: dense tensors, sparse tables, optimiser. Trainers send it, parameter servers store it.

Its encoding is hashed into the digest that both sides compare: field names and order are part of the format.
"""

import hashlib
from math import prod
from typing import Literal, cast, get_args

import msgspec

Kind = Literal["sgd", "momentum", "adam"]


class Dense(msgspec.Struct, frozen=True, array_like=True):
    """A tensor of float32 that is pulled and pushed whole."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)


class Rows(msgspec.Struct, frozen=True, array_like=True):
    """A table of float32 rows addressed by any 64-bit number; a row is created when it is first pulled.

    It starts uniform in -scale..scale, from its number and `seed` alone, so that every replay gives the same.
    """

    name: str
    width: int
    scale: float = 0.01
    seed: int = 0


class Optimizer(msgspec.Struct, frozen=True):
    kind: Kind = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    @classmethod
    def named(cls, kind: str, learning_rate: float) -> "Optimizer":
        if kind not in get_args(Kind):
            raise ValueError(f"optimizer is {kind!r}, it must be one of {', '.join(get_args(Kind))}")
        return cls(cast(Kind, kind), learning_rate)

    @property
    def slots(self) -> int:
        """The number of arrays of the parameter's size that it keeps."""
        return {"sgd": 0, "momentum": 1, "adam": 2}[self.kind]


class Model(msgspec.Struct, frozen=True):
    """`lockstep` is synchronous training: a step is the mean of what all working trainers push, applied once."""

    dense: tuple[Dense, ...] = ()
    rows: tuple[Rows, ...] = ()
    optimizer: Optimizer = Optimizer()
    lockstep: bool = False

    @property
    def digest(self) -> str:
        return hashlib.blake2b(msgspec.msgpack.encode(self), digest_size=16).hexdigest()

    def width(self, table: str) -> int:
        for rows in self.rows:
            if rows.name == table:
                return rows.width
        raise ValueError(f"the model has no table {table!r}")

    def validate(self) -> None:
        names = [*(tensor.name for tensor in self.dense), *(table.name for table in self.rows)]
        if not names:
            raise ValueError("a model needs at least one dense tensor or one table of rows")
        if len(set(names)) != len(names):
            raise ValueError(f"the names of a model's parts must differ: {sorted(names)}")
        if any(part.width < 1 for part in self.rows):
            raise ValueError("the width of a table must be at least 1")
        if self.optimizer.learning_rate <= 0:
            raise ValueError(f"learning_rate is {self.optimizer.learning_rate}, it must be above 0")
