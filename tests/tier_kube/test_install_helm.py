"""The Helm chart: Helm makes of it what `edl install` prints, accepts it, and installs, upgrades and removes it."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.api.kubernetes import version
from edl.install.manifests import manifests
from edl.install.options import InstallOptions
from edl.install.values import read_values
from edl.operator.settings import NAMESPACE
from tests.install.every_option import OTHERS
from tests.tier_kube.cluster.build import binary, build
from tests.tier_kube.cluster.kubectl import Kubectl, eventually
from tests.tier_kube.installed import Installation, leader, operators, until_phase

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300), pytest.mark.xdist_group("cluster")]
CHART = Path(__file__).parents[2] / "charts" / "edl"
TEMPLATE = ("template", "edl", str(CHART), "--kube-version", f"{version.oldest()}.0")
Data = dict[str, Any]
Helm = Callable[..., str]


class HelmError(Exception):
    """Helm refused; the message is its own."""


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    build("helm")
    home = tmp_path_factory.mktemp("helm")
    names = ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")  # else it leaves a cache where it runs
    environment = dict.fromkeys(names, str(home))

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(binary("helm")), *words], capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode:
            raise HelmError(done.stderr)
        return done.stdout

    return run


def by_name(objects: list[Data]) -> dict[tuple[str, str, str], Data]:
    """The one difference: Helm is told not to remove the kinds, nor what Brain has learned."""
    found = {(body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body for body in objects}
    for (kind, _, _), body in found.items():
        if kind in ("CustomResourceDefinition", "PersistentVolumeClaim") and "annotations" in body["metadata"]:
            assert body["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    return found


@pytest.mark.parametrize(
    ("values", "choices"),
    [
        pytest.param({}, InstallOptions(), id="defaults"),
        pytest.param(
            {
                "namespace": "ml",
                "image": "registry.example.com/edl:1",
                "pullSecret": "key",
                "replicas": 3,
                "maxLoad": "0.5",
                "cpu": 1,
                "lease": 20,
                "webhook": False,
                "brainStorage": "5Gi",
                "serviceMonitor": True,
                "dashboard": True,
            },
            InstallOptions(
                namespace="ml",
                image="registry.example.com/edl:1",
                pull_secret="key",
                replicas=3,
                max_load="0.5",
                cpu="1",
                lease="20",
                webhook=False,
                brain_storage="5Gi",
                service_monitor=True,
                dashboard=True,
            ),
            id="others",
        ),
        pytest.param(
            {"createNamespace": False, "crds": False, "brain": False},
            InstallOptions(create_namespace=False, crds=False, brain=False),
            id="less",
        ),
        pytest.param({"namespaces": "a,b"}, InstallOptions(namespaces="a,b"), id="some namespaces"),
        pytest.param(
            {"namespace": "ml", "namespaces": "c", "web": True},
            InstallOptions(namespace="ml", namespaces="c", web=True),
            id="beside another one",
        ),
        pytest.param(
            {"apiServerCidr": "10.0.0.0/24", "metricsFrom": "monitoring"},
            InstallOptions(api_server_cidr="10.0.0.0/24", metrics_from="monitoring"),
            id="network",
        ),
        pytest.param({"brainStorage": ""}, InstallOptions(brain_storage=""), id="history with the pod"),
        pytest.param({"brainDatabase": "pg"}, InstallOptions(brain_database="pg"), id="PostgreSQL"),
    ],
)
def test_helm_makes_what_edl_install_prints(helm: Helm, tmp_path: Path, values: Data, choices: InstallOptions) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    made = [body for body in yaml.safe_load_all(helm(*TEMPLATE, "-f", str(file))) if body]
    assert by_name(made) == by_name(manifests(choices))


@pytest.mark.parametrize("left_out", [("brain", "brainDatabase", "crds"), ()], ids=["with Brain", "all"])
def test_helm_makes_the_same_of_every_option(helm: Helm, tmp_path: Path, left_out: tuple[str, ...]) -> None:
    """One file of values with everything changed, for both."""
    values = {name: value for name, value in OTHERS.items() if name not in left_out}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    made = [body for body in yaml.safe_load_all(helm(*TEMPLATE, "-f", str(file))) if body]
    wanted = manifests(InstallOptions(**read_values(file.read_text(), "values.yaml")))
    assert by_name(made) == by_name(wanted)


def test_it_has_no_fault_and_refuses_slips(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    with pytest.raises(HelmError, match="replica"):
        helm(*TEMPLATE, "--set", "replica=3")
    with pytest.raises(HelmError, match="policy"):
        helm(*TEMPLATE, "--set", "policy=fair")
    with pytest.raises(HelmError, match="authoritySecret"):
        helm(*TEMPLATE, "--set", "certManagerIssuer=corporate")
    with pytest.raises(HelmError, match="imageDigest"):
        helm(*TEMPLATE, "--set", "imageDigest=latest")
    with pytest.raises(HelmError, match=r"app\.kubernetes\.io/name"):
        helm(*TEMPLATE, "--set", r"podLabels.app\.kubernetes\.io/name=mine")


def test_a_release_works_is_upgraded_and_goes(
    helm: Helm, cluster: Kubectl, namespace: Kubectl, image: str, installation: Installation
) -> None:
    def release(*words: str) -> str:
        return helm(*words, "--kubeconfig", str(cluster.kubeconfig), "--timeout", "90s")

    installation.absent()
    try:
        release("install", "edl", str(CHART), "--set", f"image={image},brainStorage=", "--wait")
        eventually(lambda: leader(cluster), within=30, what="an operator leads")
        trainer = {"entrypoint": "true", "min-instance": 1}
        namespace.apply(
            {
                "apiVersion": "paddlepaddle.org/v1",
                "kind": "TrainingJob",
                "metadata": {"name": "brief"},
                "spec": {"trainer": trainer},
            }
        )
        until_phase(namespace, "succeeded", "brief")
        old = set(operators(cluster))
        release("upgrade", "edl", str(CHART), "--set", f"image={image},brainStorage=,policy=fulfillment", "--wait")
        eventually(lambda: not old & set(operators(cluster)), within=60, what="the old operators are gone")
        eventually(lambda: leader(cluster), within=30, what="a new one leads")

        release("uninstall", "edl", "--wait")
        gone = [
            cluster("get", kind, "--ignore-not-found", "-o", "name")
            for kind in (f"ns/{NAMESPACE}", "clusterrole/edl-operator")
        ]
        assert gone == ["", ""]
        assert until_phase(namespace, "succeeded", "brief"), "the kinds and jobs stay"
    finally:
        installation.absent()
