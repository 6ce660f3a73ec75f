"""The clusters of the kube tier, started when a test first asks and removed when the session ends, however it ends.

Each process that runs tests has its own (see `workers.py`).
"""

import atexit
import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.operator.settings import NAMESPACE
from tests.tier_kube.cluster.build import BuildError, build
from tests.tier_kube.cluster.buildah import ImageError
from tests.tier_kube.cluster.cluster import Cluster, provide
from tests.tier_kube.cluster.kubectl import Kubectl, KubectlError, eventually, existing_kubeconfig, kubectl_of
from tests.tier_kube.cluster.packages import MissingError, require_root
from tests.tier_kube.image import IMAGE, project_image
from tests.tier_kube.workers import group, interrupt, shared

NODES = 2
OPERATOR = f"system:serviceaccount:{NAMESPACE}:edl-operator"
_numbers = itertools.count(1)
_failure = pytest.StashKey[Exception]()
_images = pytest.StashKey[list[Path]]()
# By the groups of tests which ask for their clusters only when they run.
_ASKED_LATER = {"pods": ("image",), "stories": ("own_api",), "cluster": ("cluster",)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a cluster of the user's, tests that would break it are skipped, and may be; some skip themselves."""
    if existing_kubeconfig():
        reason = "breaks the cluster it runs on or counts its cores, and this one is the user's"
        for item in items:
            if "own_cluster" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.may_skip(reason))
                item.add_marker(pytest.mark.skip(reason))
            elif group(item) == "pods":
                item.add_marker(pytest.mark.may_skip(reason))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, where no test's time limit applies and the progress can be seen.

    Only for tests of this tier: others have clusters, too, which are called the same and are not these.
    """
    ours = [item for item in session.items if item.get_closest_marker("kube")]
    wanted = {name for item in ours for name in getattr(item, "fixturenames", ())}
    wanted |= {name for item in ours for name in _ASKED_LATER.get(group(item), ())}
    if session.config.option.collectonly or not wanted & {"api", "own_api", "cluster", "own_cluster", "image"}:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            session.config.stash[_images] = _provide(wanted)
    except (BuildError, ImageError, MissingError) as error:
        session.config.stash[_failure] = error


def _provide(wanted: set[str]) -> list[Path]:
    """The images that nodes must know."""
    own = existing_kubeconfig() is None
    if own and wanted & {"cluster", "own_cluster", "image"}:
        require_root()
        provide(nodes=True)
        return [project_image()] if "image" in wanted else []
    if own or "own_api" in wanted:
        provide(nodes=False)
    else:
        build("kubectl")
    return []


def _running(request: pytest.FixtureRequest, *, nodes: int) -> Iterator[Cluster]:
    if failure := request.config.stash.get(_failure, None):
        raise failure
    name = f"test-{os.getpid()}" if nodes else f"test-api-{os.getpid()}"
    images = request.config.stash.get(_images, [])
    cluster = Cluster(name, nodes=nodes, watched=[OPERATOR], images=images)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    atexit.register(cluster.stop)
    try:
        cluster.start()
        yield cluster
        if directory := shared(request.config):
            shutil.copy(cluster.control_plane.audit_log, directory / f"{name}.audit.log")
    finally:
        cluster.stop()
        atexit.unregister(cluster.stop)


@pytest.fixture(scope="session")
def own_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that is ours to break: control plane, DNS and two container nodes."""
    yield from _running(request, nodes=NODES)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Kubectl:
    """The cluster that KUBECONFIG names, else our own."""
    if existing := existing_kubeconfig():
        return _existing(request, existing)
    own: Cluster = request.getfixturevalue("own_cluster")
    return own.kubectl


@pytest.fixture(scope="session")
def image(request: pytest.FixtureRequest) -> str:
    """The name of the image that ships, known to every node of `cluster`."""
    if existing_kubeconfig() is None:
        request.getfixturevalue("own_cluster")  # which was started with it
    elif "EDL_IMAGE" not in os.environ:
        pytest.fail("a cluster of your own must be told where it finds the image: set EDL_IMAGE")
    return IMAGE


@pytest.fixture(scope="session")
def own_api(request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """An API server with controllers and a scheduler but no nodes; needs no root. Nodes of the tests' own may join."""
    for running in _running(request, nodes=0):
        yield running.kubectl


@pytest.fixture(scope="session")
def api(request: pytest.FixtureRequest) -> Kubectl:
    """For tests of the API alone: that of the cluster that KUBECONFIG names, else `own_api`."""
    if existing := existing_kubeconfig():
        return _existing(request, existing)
    own: Kubectl = request.getfixturevalue("own_api")
    return own


def _existing(request: pytest.FixtureRequest, kubeconfig: Path) -> Kubectl:
    if failure := request.config.stash.get(_failure, None):
        raise failure
    return kubectl_of(kubeconfig)


@pytest.fixture
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a fresh namespace of the cluster."""
    with _fresh_namespace(cluster, stays=False) as inside:
        yield inside


@pytest.fixture
def api_namespace(api: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a fresh namespace of the API server without nodes."""
    with _fresh_namespace(api, stays=existing_kubeconfig() is None) as inside:
        yield inside


@contextlib.contextmanager
def _fresh_namespace(kubectl: Kubectl, *, stays: bool) -> Iterator[Kubectl]:
    """It may stay where nothing runs and all goes as a whole: to remove it the cluster asks for every kind there is."""
    name = f"edl-test-{os.getpid()}-{next(_numbers)}"
    kubectl("create", "namespace", name)
    inside = kubectl.within(name)
    try:
        # Without its service account no pod is admitted.
        eventually(lambda: inside.find("serviceaccounts", "default"), within=20, what="the default service account")
        yield inside
    finally:
        if not stays:
            with contextlib.suppress(KubectlError):
                kubectl("delete", "namespace", name, "--wait=false")
