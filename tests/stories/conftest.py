"""The clusters that stories run on: the embedded one by default, a real Kubernetes in the kube tier."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.stories.backend import Backend, embedded, kubernetes, node_command, node_environment
from tests.stories.pods import in_pods
from tests.stories.story import Story
from tests.tier_kube.cluster.kubectl import Kubectl, existing_kubeconfig

NODES = ("node-0", "node-1")
KUBERNETES = pytest.param("kubernetes", marks=[pytest.mark.kube, pytest.mark.xdist_group("stories")])
IN_PODS = pytest.param("pods", marks=[pytest.mark.kube, pytest.mark.xdist_group("pods")])


@pytest.fixture(params=["embedded", KUBERNETES])
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    """A namespace on a cluster of two nodes with four cores each, whose pods are processes."""
    async with _reported(request, tmp_path) as story:
        yield story


@pytest.fixture(params=[KUBERNETES])
async def story_on_kubernetes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    """The same, for what a real API server alone does, as Pod Security."""
    async with _reported(request, tmp_path) as story:
        yield story


@pytest.fixture(params=["embedded", IN_PODS])
async def story_on_both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    """The same; on the real Kubernetes the pods are containers, and the operators are in pods."""
    async with _reported(request, tmp_path) as story:
        yield story


@pytest.fixture(params=[IN_PODS])
async def story_in_pods(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    """For what the embedded cluster does not have."""
    async with _reported(request, tmp_path) as story:
        yield story


@contextlib.asynccontextmanager
async def _reported(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[Story]:
    async with await _backend(request, root) as backend:
        story = await Story.begin(backend)
        try:
            yield story
        finally:
            if request.param != "embedded":
                await story.end()


async def _backend(request: pytest.FixtureRequest, root: Path) -> contextlib.AbstractAsyncContextManager[Backend]:
    if request.param == "embedded":
        return embedded(root)
    if request.param == "kubernetes":
        return kubernetes(request.getfixturevalue("process_nodes").kubeconfig, root)
    own = None if existing_kubeconfig() else request.getfixturevalue("own_cluster")
    # Without Brain: where there is no storage for it, its pod waits for ever, and jobs make room for it.
    await asyncio.to_thread(request.getfixturevalue("installation").present, "--no-brain")
    return in_pods(request.getfixturevalue("cluster"), request.getfixturevalue("image"), own)


@pytest.fixture(scope="package")
def process_nodes(own_api: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl of an API server, which two nodes have joined for all stories."""
    running = []
    try:
        for name in NODES:
            command, home = node_command(own_api.kubeconfig, name, "4"), tmp_path_factory.mktemp(name)
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=node_environment(home)))
        for process in running:
            assert process.stdout is not None
            assert b"is ready" in process.stdout.readline()
        yield own_api
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.communicate(timeout=30)
        own_api("delete", "node", *NODES, "--ignore-not-found")
