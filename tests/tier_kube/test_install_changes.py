"""An installation that changes: options that are set show, dropped ones go, and Helm and `edl install` take turns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.certificates import Authority
from edl.install.manifests import manifests
from edl.install.options import InstallOptions
from edl.install.values import read_values
from edl.operator.settings import NAMESPACE
from tests.install.every_option import OTHERS
from tests.tier_kube.cluster.kubectl import Kubectl, eventually
from tests.tier_kube.installed import Installation, edl, leader, operators
from tests.tier_kube.test_install_helm import CHART, Helm, HelmError, helm

__all__ = ["helm"]
pytestmark = [pytest.mark.kube, pytest.mark.timeout(400), pytest.mark.xdist_group("cluster")]
Data = dict[str, Any]
AUTHORITY = "corporate-authority"
FEW: Data = {"lease": 6, "brainStorage": "", "podLabels": {"team": "ml"}, "brainQuotaJobs": 3000}
MANY: Data = {
    **FEW,
    "logFormat": "json",
    "verbose": True,
    "podAnnotations": {"example.com/note": "yes"},
    "extraEnv": [{"name": "NO_PROXY", "value": "*"}],
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "edl-operator"}},
        }
    ],
    "priorityClassName": "system-cluster-critical",
    "serviceAccount": "trainers",
    "cpuLimit": "2",
    "metricsPort": 9444,
    "metricsFrom": "monitoring",
    "authoritySecret": AUTHORITY,
    "brainShareHistory": True,
    "serverBudgets": "default",
    "dashboard": True,
}


class Changing:
    """`edl install -f` with ever other values on one cluster."""

    def __init__(self, kubectl: Kubectl, image: str, directory: Path) -> None:
        self.kubectl, self._image, self._file = kubectl, image, directory / "values.yaml"

    def values(self, given: Data) -> str:
        self._file.write_text(yaml.safe_dump({"image": self._image, **given}))
        return str(self._file)

    def apply(self, given: Data, *words: str) -> str:
        said = edl("install", "-f", self.values(given), "--apply", "--kubeconfig", str(self.kubectl.kubeconfig), *words)
        self.ready()
        return said

    def ready(self) -> None:
        for name in ("edl-operator", "edl-brain"):
            self.inside("rollout", "status", f"deployment/{name}", "--timeout=120s", timeout=130)
        eventually(lambda: leader(self.kubectl), within=60, what="an operator leads")

    @property
    def inside(self) -> Kubectl:
        return self.kubectl.within(NAMESPACE)

    def installed(self) -> dict[str, str]:
        """What every object of the installation was made to be, by kind and name."""
        kinds = "deployments,services,poddisruptionbudgets,networkpolicies,roles,rolebindings,serviceaccounts"
        found = self.inside.get(kinds)["items"]
        found += self.kubectl.get("clusterroles,clusterrolebindings", labels="app.kubernetes.io/part-of=edl")["items"]
        return {
            f"{one['kind']} {one['metadata']['name']}": json.dumps(
                [one.get("spec"), one.get("rules"), one.get("subjects"), one["metadata"].get("labels")]
            )
            for one in found
        }


@pytest.fixture
def changing(cluster: Kubectl, image: str, installation: Installation, tmp_path: Path) -> Iterator[Changing]:
    installation.absent()
    try:
        yield Changing(cluster, image, tmp_path)
    finally:
        cluster.within("default")("delete", "secret", "-l", "owner=helm,name=edl", "--ignore-not-found")
        installation.absent()


def test_options_show_and_dropped_ones_go(changing: Changing) -> None:
    kubectl, inside = changing.kubectl, changing.inside
    authority = Authority.create("corporate CA")
    kubectl("create", "namespace", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, "app.kubernetes.io/part-of=edl")
    inside.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": AUTHORITY, "labels": {"app.kubernetes.io/part-of": "edl"}},
            "stringData": {"tls.crt": authority.pair.certificate.decode(), "tls.key": authority.pair.key.decode()},
        }
    )
    changing.apply(MANY)
    pod = operators(kubectl)[leader(kubectl)]
    assert pod["metadata"]["labels"]["team"] == "ml"
    assert pod["metadata"]["annotations"]["example.com/note"] == "yes"
    assert pod["spec"]["serviceAccountName"] == "trainers"
    assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
    assert json.loads(inside("logs", pod["metadata"]["name"], "--tail=1"))["level"]
    secret = inside.get("secret", "edl-operator")
    issued = inside("get", "secret", "edl-operator", "-o", "jsonpath={.data.ca\\.crt}")
    assert issued == secret["data"]["ca.crt"]
    assert authority.pair.certificate.decode().strip() == _decoded(issued).strip(), "certificates are by our authority"
    brain = inside.get("deployment", "edl-brain")["spec"]["template"]["spec"]["containers"][0]
    assert {"--share-history", "--quota-jobs=3000", "--log-format=json"} <= set(brain["args"])

    said = changing.apply(FEW, "--prune")
    for line in ("ConfigMap edl-dashboard", "PodDisruptionBudget edl-servers", "ServiceAccount trainers"):
        assert f"{line} removed" in said
    before, pods = changing.installed(), set(operators(kubectl))
    assert "removed" not in changing.apply(FEW, "--prune"), "applied again, there is nothing to do"
    assert (changing.installed(), set(operators(kubectl))) == (before, pods)


def _decoded(text: str) -> str:
    import base64

    return base64.b64decode(text).decode()


def test_from_edl_install_to_helm_and_back(changing: Changing, helm: Helm) -> None:
    kubectl = changing.kubectl
    config = ("--kubeconfig", str(kubectl.kubeconfig))
    changing.apply(FEW)
    before, pods = changing.installed(), set(operators(kubectl))

    values = changing.values(FEW)
    helm("install", "edl", str(CHART), "-n", "default", "-f", values, "--take-ownership", "--wait", *config)
    assert set(operators(kubectl)) == pods, "operators do not notice"
    helm("upgrade", "edl", str(CHART), "-n", "default", "-f", changing.values({**FEW, "dashboard": True}), *config)
    assert changing.inside.find("configmap", "edl-dashboard")
    helm("upgrade", "edl", str(CHART), "-n", "default", "-f", changing.values(FEW), *config)
    assert not changing.inside.find("configmap", "edl-dashboard"), "Helm prunes by itself"

    kubectl.within("default")("delete", "secret", "-l", "owner=helm,name=edl")
    changing.apply(FEW, "--prune")
    assert changing.installed() == before, "and nothing of Helm's is left"
    assert set(operators(kubectl)) == pods
    with pytest.raises(HelmError, match=f"EDL is in namespace {NAMESPACE} of this cluster already"):
        helm("install", "second", str(CHART), "-n", "default", "--set", "namespace=other", *config)
    assert not kubectl("get", "namespace", "other", "--ignore-not-found", "-o", "name"), "a second one is refused whole"


# Of kinds that this cluster does not have.
FOREIGN = {"serviceMonitor", "podMonitor", "alerts", "certManagerIssuer", "certManagerIssuerKind"}
PLACES = ("ml", "a", "b")


@pytest.fixture
def places(changing: Changing) -> Iterator[None]:
    """Namespaces that the other values name."""
    for name in PLACES:
        changing.kubectl("create", "namespace", name)
    try:
        yield
    finally:
        edl("uninstall", "-n", "ml", "--kubeconfig", str(changing.kubectl.kubeconfig))
        changing.kubectl.within("default")("delete", "secret", "-l", "owner=helm,name=every", "--ignore-not-found")
        changing.kubectl("delete", "namespace", *PLACES, "--wait=false")


@pytest.mark.usefixtures("places")
def test_both_ways_install_every_option(changing: Changing, helm: Helm, tmp_path: Path) -> None:
    """None at its default. Whether pods with such values run is not the question, but that the API server takes them
    and keeps them: what each of them changes is a test of its own (`tests/install/test_values.py`)."""
    file, config = tmp_path / "others.yaml", ("--kubeconfig", str(changing.kubectl.kubeconfig))
    for left_out in ({"brain", "brainDatabase"}, set[str]()):  # some options show only with Brain
        file.write_text(yaml.safe_dump({name: OTHERS[name] for name in OTHERS.keys() - FOREIGN - left_out}))
        wanted = manifests(InstallOptions(**read_values(file.read_text(), "others.yaml")))
        edl("install", "-f", str(file), "--apply", *config)
        assert changed_by_the_server(changing.kubectl, wanted) == {}
        edl("uninstall", "-n", "ml", *config)
        helm("install", "every", str(CHART), "-n", "default", "-f", str(file), "--take-ownership", *config)
        assert changed_by_the_server(changing.kubectl, wanted) == {}
        helm("uninstall", "every", "-n", "default", *config)


def changed_by_the_server(kubectl: Kubectl, wanted: list[Data]) -> dict[str, Data]:
    """Objects that are not there, or not as they were given; the server may add to them."""
    found = {}
    for body in wanted:
        metadata, kind = body["metadata"], body["kind"]
        group, _, version = body["apiVersion"].rpartition("/")
        inside = kubectl.within(metadata.get("namespace", "default"))
        live = inside.printed(f"{kind.lower()}.{version}.{group}" if group else kind.lower(), metadata["name"])
        if not _contains(live, body):
            found[f"{kind} {metadata['name']}"] = live
    return found


def _contains(live: Any, given: Any) -> bool:
    if isinstance(given, dict) and isinstance(live, dict):
        return all(_contains(live.get(key), value) for key, value in given.items())
    if isinstance(given, list) and isinstance(live, list):
        return len(live) == len(given) and all(map(_contains, live, given))
    return bool(live == given) or (not given and live is None)
