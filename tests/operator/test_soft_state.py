"""Delays of status writes that change only numbers, while jobs start."""

import pytest

from edl.operator.reconcile.soft_state import CROWD, MOVING, STARTING, for_numbers


@pytest.mark.parametrize(
    ("current", "phase", "waiting", "times"),
    [
        pytest.param(1, "creating", 1, MOVING, id="most of its pods are still to come"),
        pytest.param(5, "creating", 1, STARTING, id="it will run soon"),
        pytest.param(5, "Pending", 1, STARTING, id="kinds spell phases their own way"),
        pytest.param(8, "running", 1, 1, id="it runs"),
        pytest.param(7, "running", 1000, 1, id="it has lost a pod, and others start meanwhile"),
        pytest.param(5, "creating", 30, 30, id="many start"),
        pytest.param(1, "creating", 30, 30, id="many have just begun"),
        pytest.param(1, "scaling", 1, MOVING, id="it has just begun to grow"),
        pytest.param(5, "creating", 1000, CROWD, id="a stampede is told of in the end"),
    ],
)
def test_of_a_job_of_eight_pods(current: int, phase: str, waiting: int, times: int) -> None:
    assert for_numbers(current, 8, phase, waiting) == times
