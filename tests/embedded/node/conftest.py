"""An API server and one process node."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.embedded.cluster_fixture import Cluster, cluster_with_node


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster_with_node(tmp_path) as made:
        yield made
