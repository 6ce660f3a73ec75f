"""The clusters that stories run on: the embedded one by default."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.stories.backend import embedded
from tests.stories.story import Story


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    """A namespace on a cluster of two nodes with four cores each."""
    async with embedded(tmp_path) as backend:
        yield await Story.begin(backend)
