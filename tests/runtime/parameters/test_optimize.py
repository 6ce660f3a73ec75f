"""Optimisers against the textbook in double precision, for tensors and for rows with histories of their own."""

import numpy as np
import pytest

from edl.runtime.parameters.model import Kind, Model, Optimizer, Rows
from edl.runtime.parameters.optimize import step
from edl.runtime.parameters.rows import RowTable

RATE = 0.1
KINDS: list[Kind] = ["sgd", "momentum", "adam"]


def textbook(optimizer: Optimizer, grads: list[np.ndarray], start: np.ndarray) -> np.ndarray:
    value, first, second = start.astype(np.float64), np.zeros_like(start, float), np.zeros_like(start, float)
    for count, grad in enumerate(grads, 1):
        if optimizer.kind == "sgd":
            value -= RATE * grad
        elif optimizer.kind == "momentum":
            first = optimizer.momentum * first + grad
            value -= RATE * first
        else:
            first = optimizer.beta1 * first + (1 - optimizer.beta1) * grad
            second = optimizer.beta2 * second + (1 - optimizer.beta2) * grad**2
            mean, square = first / (1 - optimizer.beta1**count), second / (1 - optimizer.beta2**count)
            value -= RATE * mean / (np.sqrt(square) + optimizer.epsilon)
    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 5, 100_000])
def test_tensors_follow_the_textbook(kind: Kind, size: int) -> None:
    rng, optimizer = np.random.default_rng(size), Optimizer(kind, RATE)
    start = rng.normal(size=size).astype(np.float32)
    grads = [rng.normal(size=size).astype(np.float32) for _ in range(5)]
    values, slots = start.copy(), [np.zeros(size, np.float32) for _ in range(optimizer.slots)]
    for count, grad in enumerate(grads, 1):
        step(optimizer, RATE, values, slots, grad.copy(), count)
    np.testing.assert_allclose(values, textbook(optimizer, grads, start), rtol=1e-4, atol=1e-5)
    assert values.dtype == np.float32


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_has_its_own_history(kind: Kind) -> None:
    rng, optimizer = np.random.default_rng(3), Optimizer(kind, RATE)
    table = RowTable(Model(rows=(Rows("t", 4),), optimizer=optimizer), Rows("t", 4))
    ids = np.array([7, -2, 2**62])
    start = table.pull(ids)
    history: dict[int, list[np.ndarray]] = {row: [] for row in range(3)}
    for chosen in ([0, 1], [1], [2, 0], [1, 2, 0]):
        grads = rng.normal(size=(len(chosen), 4)).astype(np.float32)
        for row, grad in zip(chosen, grads, strict=True):
            history[row].append(grad)
        table.apply(RATE, ids[chosen], grads.copy())
    for row, grads_of_row in history.items():
        np.testing.assert_allclose(
            table.pull(ids[[row]])[0], textbook(optimizer, grads_of_row, start[row]), rtol=1e-4, atol=1e-5
        )


def test_many_rows_keep_their_values_while_the_table_grows() -> None:
    table = RowTable(Model(rows=(Rows("t", 2, 1.0, 5),)), Rows("t", 2, 1.0, 5))
    first = table.pull(np.arange(10)).copy()
    table.pull(np.arange(5000, 20_000))
    assert (table.pull(np.arange(10)) == first).all()
    assert len(table) == 15_010
