"""A job service, and a Brain beside it that the job's pods are not told of yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.brain.log_store import LogBounds
from tests.runtime.logs.served_brain import ServedBrain
from tests.runtime.torch.service_thread import ServiceThread, serving


@pytest.fixture
def service() -> Iterator[ServiceThread]:
    with serving() as found:
        yield found


@pytest.fixture
def brain(service: ServiceThread, tmp_path: Path) -> Iterator[ServedBrain]:
    found = ServedBrain(service, tmp_path, LogBounds())
    yield found
    found.close()
