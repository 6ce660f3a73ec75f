"""`edl install --apply`: twice changes nothing, what another way of installing left goes, a second one is refused."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.cli.local.admission import edl_rules
from edl.cli.main import main
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.install.cluster.applying import MANAGER, apply_all, ours_alone
from edl.install.cluster.installed import SecondInstallationError, refuse_second
from edl.install.cluster.pruning import KEPT, everything, prune
from edl.install.manifests import manifests
from edl.install.options import NAME, PART_OF, InstallOptions
from edl.install.permissions import JOBS_ROLE
from edl.install.resources import resource_of
from edl.install.values import read_values
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from tests.install.every_option import names, values_with
from tests.install.test_removal import UNKNOWN

Data = dict[str, Any]
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
REVISION = "deployment.kubernetes.io/revision"  # by the controller of Deployments
SPACE = {"apiVersion": "v1", "kind": "Namespace"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with embedded_cluster(home=tmp_path, nodes=1, admission=edl_rules) as cluster:
        for name in ("a", "b"):
            await cluster.client.create(resource_of({**SPACE}), {**SPACE, "metadata": {"name": name}})
        yield cluster.client


def objects(**choices: Any) -> list[Data]:
    """Those whose kinds the embedded API server knows; no operator runs."""
    made = manifests(InstallOptions(replicas=0, **choices))
    return [body for body in made if body["kind"] not in UNKNOWN]


async def seen(client: Client, made: list[Data]) -> dict[tuple[str, str], Data]:
    """Every object with all that is ours of it. What controllers write meanwhile, and so the version, is theirs."""
    found = {}
    for body in made:
        metadata = body["metadata"]
        live = await client.get(resource_of(body), metadata["name"], namespace=metadata.get("namespace"))
        whole = live["metadata"]
        whole.pop("resourceVersion")
        whole["annotations"] = {key: text for key, text in whole.get("annotations", {}).items() if key != REVISION}
        whole["managedFields"] = [one for one in whole.get("managedFields", []) if one["manager"] == MANAGER]
        live.pop("status", None)
        found[body["kind"], metadata["name"]] = live
    return found


async def test_applying_twice_changes_nothing(client: Client) -> None:
    made = objects()
    await apply_all(client, made, lambda line: None)
    before = await seen(client, made)
    await apply_all(client, made, lambda line: None)
    assert await seen(client, made) == before
    await apply_all(client, objects(max_load="0.5"), lambda line: None)
    assert await seen(client, made) != before


async def test_objects_of_options_that_were_dropped_go_and_nothing_else(client: Client) -> None:
    await apply_all(client, objects(dashboard=True, namespaces="a,b", service_account="other"), lambda line: None)
    theirs = {"metadata": {"name": "theirs", "namespace": "edl-system", "labels": PART_OF}}
    for resource in (CONFIG_MAPS, ACCOUNTS):
        body = {"apiVersion": "v1", "kind": resource.kind, **theirs}
        await client.create(resource, body, namespace="edl-system")
    wanted, said = objects(namespaces="a"), list[str]()
    await apply_all(client, wanted, lambda line: None)
    await prune(client, "edl-system", wanted, said.append)
    assert sorted(said) == [
        "ConfigMap edl-dashboard removed",
        "Role edl-operator-jobs removed",
        "RoleBinding edl-operator-jobs removed",
        "ServiceAccount other removed",
    ]
    assert [one["metadata"]["namespace"] for one in (await client.list(ROLES)).items if _is_for_jobs(one)] == ["a"]
    assert await client.get(CONFIG_MAPS, "theirs", namespace="edl-system")
    assert await client.get(ACCOUNTS, "theirs", namespace="edl-system")
    await prune(client, "edl-system", wanted, said.append)
    assert len(said) == 4, "a second time there is nothing to do"


def _is_for_jobs(role: Data) -> bool:
    return bool(role["metadata"]["name"] == JOBS_ROLE)


def test_every_kind_of_an_installation_can_be_pruned_but_those_that_hold_what_is_dear() -> None:
    kinds = {body["kind"] for body in manifests(InstallOptions(service_monitor=True, dashboard=True))}
    assert kinds - {body["kind"] for body in everything("any")} == {"Namespace", "CustomResourceDefinition"}
    assert {"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"} == KEPT


@pytest.mark.parametrize("name", names())
def test_whatever_an_option_makes_is_known_to_pruning_and_removal(name: str) -> None:
    given = InstallOptions(**read_values(yaml.safe_dump(values_with(name)), "values.yaml"))
    known = {(body["kind"], body["metadata"]["name"]) for body in everything(given.namespace, given.namespaces)}
    made = {(body["kind"], body["metadata"]["name"]) for body in manifests(given) if body["kind"] not in KEPT}
    accounts = {("ServiceAccount", given.service_account)}  # found by their labels
    assert made - accounts <= known


async def test_fields_of_another_way_to_install_go_and_those_of_operators_stay(client: Client) -> None:
    """Somebody piped an older version into kubectl; an operator has added to an object since."""
    (binding,) = [
        body for body in objects() if (body["kind"], body["metadata"]["name"]) == ("ClusterRoleBinding", NAME)
    ]
    resource = resource_of(binding)
    noted = {**binding, "metadata": {**binding["metadata"], "annotations": {"dropped": "since"}}}
    await client.apply(resource, NAME, noted, field_manager="kubectl-client-side-apply")
    await client.apply(
        resource,
        NAME,
        {"apiVersion": binding["apiVersion"], "kind": binding["kind"], "metadata": {"annotations": {"kept": "yes"}}},
        field_manager="somebody",
    )
    await apply_all(client, [binding], lambda line: None)
    found = await client.get(resource, NAME)
    assert found["metadata"]["annotations"] == {"kept": "yes"}
    managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
    assert managers == {MANAGER, "somebody"}


def test_field_sets_are_joined() -> None:
    entries = [
        {"manager": "helm", "operation": "Update", "fieldsV1": {"f:a": {"f:b": {}}}},
        {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:a": {"f:c": {}}}},
        {"manager": "helm", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "edl", "operation": "Apply", "fieldsV1": {"f:d": {}}},
    ]
    status, other, own = ours_alone(entries)
    assert (status, other) == (entries[2], entries[3])
    assert own == {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:a": {"f:b": {}, "f:c": {}}}}
    assert ours_alone([entries[1], entries[3]]) == [entries[1], entries[3]]


async def test_a_second_installation_is_refused_with_the_reason(client: Client) -> None:
    await refuse_second(client, InstallOptions())
    await apply_all(client, objects(), lambda line: None)
    await refuse_second(client, InstallOptions())
    for namespaces in ("", "a"):
        with pytest.raises(SecondInstallationError, match="EDL is in namespace edl-system of this cluster already"):
            await refuse_second(client, InstallOptions(namespace="ml", namespaces=namespaces))


async def test_the_command_refuses_it_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with embedded_cluster(home=tmp_path, nodes=1, admission=edl_rules) as cluster:
        await apply_all(cluster.client, objects(), lambda line: None)
        words = ["install", "--apply", "-n", "ml", "--kubeconfig", str(cluster.kubeconfig)]
        assert await asyncio.to_thread(main, words) == 1
        assert "ClusterRoleBinding edl-operator gives its rights to the operators there" in capsys.readouterr().err
        assert not await _is_there(cluster, "ml")


async def _is_there(cluster: EmbeddedCluster, namespace: str) -> bool:
    found = (await cluster.client.list(resource_of(SPACE))).items
    return namespace in [one["metadata"]["name"] for one in found]


def test_pruning_without_applying_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--prune"]) == 1
    assert "--prune removes objects from a cluster, so it wants --apply" in capsys.readouterr().err
