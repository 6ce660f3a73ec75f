"""EDL on the cluster as users put it there: `edl install | kubectl apply -f -`, operators in pods of our image."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.cli.main import main
from edl.operator.settings import NAMESPACE
from tests.tier_kube.cluster.kubectl import Kubectl, Manifest, eventually, existing_kubeconfig

LEASE = 6  # seconds; the shortest that two cores which run a whole cluster keep without fail
EXAMPLE = Path(__file__).parents[2] / "examples" / "fit_a_line" / "train.py"


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
    kubectl.within("")("apply", "-f", "-", stdin=manifests)  # each object says where it belongs
    kubectl.within(NAMESPACE)("rollout", "status", "deployment/edl-operator", "--timeout=90s", timeout=100)
    eventually(lambda: leader(kubectl), within=30, what="an operator leads")


def uninstall(kubectl: Kubectl, *words: str) -> str:
    return edl("uninstall", "--kubeconfig", str(kubectl.kubeconfig), *words)


def leader(kubectl: Kubectl) -> str:
    """The name of the pod that leads, if it is there. One call, for tests wait for it by asking again and again."""
    found = kubectl.within(NAMESPACE).get("leases,pods")["items"]
    leases = [one for one in found if one["kind"] == "Lease" and one["metadata"]["name"] == "edl-operator"]
    holder = leases[0]["spec"].get("holderIdentity", "") if leases else ""
    pods = [one["metadata"] for one in found if one["kind"] == "Pod" and "deletionTimestamp" not in one["metadata"]]
    return next((pod["name"] for pod in pods if holder.startswith(f"{pod['name']}-")), "")


def operators(kubectl: Kubectl) -> dict[str, Manifest]:
    """The pods of the operators that are not on their way out, by name."""
    found = kubectl.within(NAMESPACE).get("pods", labels="app.kubernetes.io/name=edl-operator")["items"]
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


class Installation:
    """EDL on one cluster, as long as no test wants it gone: putting it there takes ten seconds, so tests share it."""

    def __init__(self, kubectl: Kubectl, image: str) -> None:
        self._kubectl, self._image = kubectl, image
        self._words: tuple[str, ...] | None = None

    def present(self, *words: str) -> None:
        """With these options of `edl install` beside a short lease."""
        if self._words not in (None, words):
            self.absent()
        if self._words is None:
            install(self._kubectl, self._image, "--lease", str(LEASE), *words)
            self._words = words

    def absent(self) -> None:
        """Also to be called when a test has changed what is installed."""
        uninstall(self._kubectl, "--crds")
        self._words = None


@pytest.fixture(scope="session")
def installation(cluster: Kubectl, image: str) -> Iterator[Installation]:
    """For tests that install it themselves: they begin and end with its absence."""
    made = Installation(cluster, image)
    yield made
    if existing_kubeconfig():  # our own goes as a whole
        made.absent()


@pytest.fixture
def installed(cluster: Kubectl, installation: Installation) -> Kubectl:
    """kubectl of a cluster with two operators."""
    installation.present()
    return cluster


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
    pods = kubectl.get("pods", labels=f"edl.dev/job={name},edl.dev/role=trainer")["items"]
    return {
        pod["metadata"]["name"]: f"{pod['metadata']['uid']} {pod['status'].get('containerStatuses')}"
        for pod in pods
        if pod["status"]["phase"] == "Running"
    }
