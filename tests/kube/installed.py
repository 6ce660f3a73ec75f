"""EDL on the cluster as users put it there: `edl install | kubectl apply -f -`, operators in pods of our image."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.cli.main import main
from edl.operator.settings import NAMESPACE
from tests.kube.cluster.kubectl import Kubectl, Manifest, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "fit_a_line" / "train.py"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: looks back at what the other tests did to the clusters of the session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)  # stable: the others stay as they are


def edl(*words: str) -> str:
    """What a command of ours printed; it must succeed."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = main(words)
    assert code == 0, f"edl {' '.join(words)} ended with {code}\n{output.getvalue()}"
    return output.getvalue()


def install(kubectl: Kubectl, image: str, *words: str) -> None:
    """Returns when every operator is ready and one of them leads."""
    apply(kubectl, edl("install", "--image", image, *words))


def apply(kubectl: Kubectl, manifests: str) -> None:
    inside = kubectl.within(NAMESPACE)
    inside("apply", "-f", "-", stdin=manifests)
    inside("rollout", "status", "deployment/edl-operator", "--timeout=90s", timeout=100)
    eventually(lambda: leader(kubectl), within=30, what="an operator leads")


def uninstall(kubectl: Kubectl, *words: str) -> str:
    return edl("uninstall", "--kubeconfig", str(kubectl.kubeconfig), *words)


def leader(kubectl: Kubectl) -> str:
    """The name of the pod that leads, if it is there."""
    holder = kubectl.within(NAMESPACE)(
        "get", "lease", "edl-operator", "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}"
    )
    return next((name for name in operators(kubectl) if holder.startswith(f"{name}-")), "")


def operators(kubectl: Kubectl) -> dict[str, Manifest]:
    """The pods of the operators that are not on their way out, by name."""
    found = kubectl.within(NAMESPACE).get("pods", "-l", "app.kubernetes.io/name=edl-operator")["items"]
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


@pytest.fixture(scope="module")
def installed(cluster: Kubectl, image: str) -> Iterator[Kubectl]:
    """kubectl of a cluster with two operators, which are removed after the module."""
    try:
        install(cluster, image)
        yield cluster
    finally:
        uninstall(cluster, "--crds")


def training_job(
    name: str = "fit", *, seconds_per_task: float = 0.05, size: tuple[int, int] = (1, 3)
) -> list[Manifest]:
    """The first example, whole: a master, a parameter server, trainers that learn; its code is in a ConfigMap."""
    entrypoint = f"SECONDS_PER_TASK={seconds_per_task} CHUNKS=12 SAMPLES=1200 python /code/train.py"
    small = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    code = {"name": "code", "configMap": {"name": f"{name}-code"}}
    mount = {"name": "trainer", "volumeMounts": [{"name": "code", "mountPath": "/code"}]}
    spec = {
        "fault_tolerant": True,
        "master": {"resources": small},
        "pserver": {"min-instance": 1, "resources": small},
        "trainer": {
            "entrypoint": entrypoint,
            "min-instance": size[0],
            "max-instance": size[1],
            "resources": small,
            "template": {"spec": {"containers": [mount], "volumes": [code]}},
        },
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-code"},
            "data": {"train.py": EXAMPLE.read_text()},
        },
        {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec},
    ]


def until_phase(kubectl: Kubectl, phase: str, name: str = "fit", within: float = 90) -> Manifest:
    def status() -> Manifest | None:
        found: Manifest = kubectl.get("trainingjob", name).get("status", {})
        return found if found.get("phase") == phase else None

    found: Manifest = eventually(status, within=within, what=f"{name} is {phase}")
    return found


def running_trainers(kubectl: Kubectl, name: str = "fit") -> dict[str, str]:
    """uid and start of every trainer that runs, by name: the same again means that nothing happened to it."""
    pods = kubectl.get("pods", "-l", f"edl.dev/job={name},edl.dev/role=trainer")["items"]
    return {
        pod["metadata"]["name"]: f"{pod['metadata']['uid']} {pod['status'].get('containerStatuses')}"
        for pod in pods
        if pod["status"]["phase"] == "Running"
    }
