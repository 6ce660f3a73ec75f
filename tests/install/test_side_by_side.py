"""Two installations in one cluster, each limited to namespaces of its own: neither takes anything of the other."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edl.cli.local.admission import edl_rules
from edl.cli.main import main
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.install.cluster.applying import apply_all
from edl.install.cluster.installed import SecondInstallationError, installations, refuse_second
from edl.install.cluster.pruning import prune, prune_renamed
from edl.install.cluster.removal import remove
from edl.install.manifests import manifests
from edl.install.options import InstallOptions
from edl.install.resources import resource_of
from edl.kube.rest.client import Client
from edl.operator.settings import NAMESPACE, OperatorSettings
from tests.install.test_removal import UNKNOWN, there

Data = dict[str, Any]
FIRST = InstallOptions(replicas=0, namespaces="a,b")
SECOND = InstallOptions(replicas=0, namespace="ml", namespaces="c,d", web=True)
WHOLE = InstallOptions(replicas=0, namespace="ml")
SPACE = {"apiVersion": "v1", "kind": "Namespace"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with embedded_cluster(home=tmp_path, nodes=1, admission=edl_rules) as made:
        for name in "abcd":
            await made.client.create(resource_of(SPACE), {**SPACE, "metadata": {"name": name}})
        yield made


def objects(options: InstallOptions) -> list[Data]:
    """Those whose kinds the embedded API server knows."""
    return [body for body in manifests(options) if body["kind"] not in UNKNOWN]


async def install(client: Client, options: InstallOptions) -> list[Data]:
    await refuse_second(client, options)
    made = objects(options)
    await apply_all(client, made, lambda line: None)
    await prune_renamed(client, options, lambda line: None)
    return made


async def missing(client: Client, made: list[Data]) -> set[tuple[str, str]]:
    return {
        (body["kind"], body["metadata"]["name"])
        for body in made
        if not await there(client, resource_of(body), body["metadata"]["name"], body["metadata"].get("namespace"))
    }


def in_no_namespace(options: InstallOptions) -> set[tuple[str, str]]:
    made = manifests(options)
    return {(body["kind"], body["metadata"]["name"]) for body in made if "namespace" not in body["metadata"]}


def test_they_share_the_kinds_alone() -> None:
    shared = in_no_namespace(FIRST) & in_no_namespace(SECOND)
    assert {kind for kind, _ in shared} == {"CustomResourceDefinition"}
    assert in_no_namespace(FIRST) == in_no_namespace(InstallOptions()), "the default one is called as ever"
    assert in_no_namespace(WHOLE) - {("Namespace", "ml")} <= in_no_namespace(InstallOptions()), "there is but one"


def test_the_operator_knows_what_its_webhook_is_called() -> None:
    for options in (FIRST, SECOND, WHOLE):
        settings = OperatorSettings(namespace=options.namespace, namespaces=options.job_namespaces)
        (made,) = [body for body in manifests(options) if body["kind"] == "ValidatingWebhookConfiguration"]
        assert made["metadata"]["name"] == settings.webhook_configuration


async def test_both_are_there_and_each_goes_alone(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    first, second = await install(client, FIRST), await install(client, SECOND)
    assert {(one.namespace, one.namespaces) for one in await installations(client)} == {
        (NAMESPACE, frozenset("ab")),
        ("ml", frozenset("cd")),
    }
    assert await missing(client, [*first, *second]) == set()
    for options, made in ((FIRST, first), (SECOND, second)):
        await prune(client, options.namespace, made, lambda line: None)
    assert await missing(client, [*first, *second]) == set(), "pruning one leaves the other's"

    await remove(client, "ml", crds=False, say=lambda line: None)
    assert await missing(client, first) == set()
    gone = [body for body in second if body["kind"] != "CustomResourceDefinition"]
    assert len(await missing(client, gone)) == len({(body["kind"], body["metadata"]["name"]) for body in gone})


async def test_removing_the_default_one_leaves_the_other(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    first, second = await install(client, FIRST), await install(client, SECOND)
    await remove(client, NAMESPACE, crds=False, say=lambda line: None)
    assert await missing(client, second) == set()
    gone = [body for body in first if body["kind"] != "CustomResourceDefinition"]
    assert len(await missing(client, gone)) == len({(body["kind"], body["metadata"]["name"]) for body in gone})


async def test_a_namespace_that_was_dropped_is_pruned_and_may_be_the_others(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    await install(client, FIRST)
    fewer = InstallOptions(replicas=0, namespaces="a")
    await prune(client, NAMESPACE, await install(client, fewer), lambda line: None)
    await install(client, InstallOptions(replicas=0, namespace="ml", namespaces="b"))
    assert {one.namespaces for one in await installations(client)} == {frozenset("a"), frozenset("b")}


@pytest.mark.parametrize(
    ("namespaces", "said"),
    [("", "would look after jobs everywhere"), ("c,b,a", "a, b is where"), (NAMESPACE, f"{NAMESPACE} is where")],
)
async def test_what_overlaps_is_refused_with_the_names(cluster: EmbeddedCluster, namespaces: str, said: str) -> None:
    await install(cluster.client, FIRST)
    with pytest.raises(SecondInstallationError, match=said):
        await refuse_second(cluster.client, InstallOptions(namespace="ml", namespaces=namespaces))


async def test_the_kinds_stay_while_another_needs_them(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    first = await install(cluster.client, FIRST)
    second = await install(cluster.client, SECOND)
    words = ["uninstall", "--crds", "-n", "ml", "--kubeconfig", str(cluster.kubeconfig)]
    assert await asyncio.to_thread(main, words) == 1
    assert f"EDL in namespace {NAMESPACE} needs the kinds" in capsys.readouterr().err
    assert await missing(cluster.client, [*first, *second]) == set(), "and nothing was removed"


@pytest.mark.parametrize(("before", "after"), [(WHOLE, SECOND), (SECOND, WHOLE)])
async def test_names_that_an_installation_had_before_go(
    cluster: EmbeddedCluster, before: InstallOptions, after: InstallOptions
) -> None:
    """Its operators would keep rights everywhere, or a webhook that nobody answers would stay."""
    await install(cluster.client, before)
    made = await install(cluster.client, after)
    assert await missing(cluster.client, made) == set()
    former = in_no_namespace(before) - in_no_namespace(after)
    old = [body for body in objects(before) if (body["kind"], body["metadata"]["name"]) in former]
    assert await missing(cluster.client, old) == {(body["kind"], body["metadata"]["name"]) for body in old}
    assert old
