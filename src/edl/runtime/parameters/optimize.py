"""One step of an optimiser, in place and without temporaries of the parameter's size.

`grad` is overwritten. `count` is the number of steps so far, this one included: a number for a tensor, a column of
numbers for rows, each of which has its own count.
"""

import numpy as np
from numpy.typing import NDArray

from edl.runtime.parameters.model import Optimizer

Floats = NDArray[np.float32]
Count = int | NDArray[np.int32]

_BLOCK = 1 << 15  # elements that stay in the processor's cache between operations


def step(optimizer: Optimizer, rate: float, values: Floats, slots: list[Floats], grad: Floats, count: Count) -> None:
    if values.ndim > 1:
        _step(optimizer, rate, values, slots, grad, count)
        return
    for start in range(0, len(values), _BLOCK):
        part = slice(start, start + _BLOCK)
        _step(optimizer, rate, values[part], [slot[part] for slot in slots], grad[part], count)


def _step(optimizer: Optimizer, rate: float, values: Floats, slots: list[Floats], grad: Floats, count: Count) -> None:
    if optimizer.kind == "sgd":
        grad *= np.float32(rate)
        values -= grad
    elif optimizer.kind == "momentum":
        slots[0] *= np.float32(optimizer.momentum)
        slots[0] += grad
        np.multiply(slots[0], np.float32(rate), out=grad)
        values -= grad
    else:
        _adam(optimizer, rate, values, slots, grad, count)


def _adam(optimizer: Optimizer, rate: float, values: Floats, slots: list[Floats], grad: Floats, count: Count) -> None:
    mean, square = slots
    fresh = np.subtract(grad, mean)
    fresh *= np.float32(1 - optimizer.beta1)
    mean += fresh
    grad *= grad
    grad -= square
    grad *= np.float32(1 - optimizer.beta2)
    square += grad
    np.sqrt(square, out=grad)
    grad *= _float32(1 / np.sqrt(1 - optimizer.beta2**count))
    grad += np.float32(optimizer.epsilon)
    np.divide(mean, grad, out=grad)
    grad *= _float32(rate / (1 - optimizer.beta1**count))
    values -= grad


def _float32(number: object) -> Floats:
    """A wider number beside a float32 array would widen the arithmetic."""
    return np.asarray(number, np.float32)
