"""Half a minute of chaos; `make chaos` has more of it."""

import secrets
from pathlib import Path

import pytest

from edl.runtime.torch.warm_workers import Zygote
from tests.tier_frameworks.chaos.__main__ import run

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
SECONDS = 30.0


@pytest.mark.parametrize("workers", [1, 2])
def test_no_step_is_lost_and_no_sample_seen_twice_whatever_happens(
    tmp_path: Path, zygote: Zygote, workers: int
) -> None:
    """Alone in their pods, or two that share a model."""
    print(run(tmp_path, zygote, SECONDS, secrets.randbelow(1_000_000), workers))
