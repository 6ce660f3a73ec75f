"""The clusters that stories run on: the embedded one by default, a real Kubernetes API server in the kube tier."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.stories.backend import embedded, kubernetes
from tests.stories.story import Story


@pytest.fixture(params=["embedded", pytest.param("kubernetes", marks=pytest.mark.kube)])
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    """A namespace on a cluster of two nodes with four cores each."""
    if request.param == "embedded":
        async with embedded(tmp_path) as backend:
            yield await Story.begin(backend)
    else:
        async with kubernetes(request.getfixturevalue("api").kubeconfig, tmp_path) as backend:
            told = await Story.begin(backend)
            yield told
            await told.end()
