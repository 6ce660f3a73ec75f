"""The page as it is installed: its arguments are those of `edl web`, and its account suffices and may write nothing."""

import argparse
from typing import Any

import pytest

from edl.cli.commands.services.web import arguments as parse_web
from edl.embedded.server import ADMIN, Server
from edl.embedded.server.http.direct import direct_transport
from edl.install.manifests import manifests
from edl.install.options import WEB, WEB_PORT, InstallOptions
from edl.install.web import PROOF, permissions
from edl.kube.rest.access_reviews import Access, Identity, Reviews
from edl.kube.rest.client import Client
from edl.operator.crds import register_crds
from edl.operator.settings import READER_TOKEN
from edl.web.model.state import ClusterState
from tests.install.guard import Guard

CHOICES = [
    InstallOptions(web=True),
    InstallOptions(web=True, brain=False, web_actions=True, policy="goodput", log_format="json", verbose=True),
]


def objects(choices: InstallOptions) -> dict[str, Any]:
    return {body["kind"]: body for body in manifests(choices) if body["metadata"]["name"] == WEB}


def test_it_is_there_only_if_wanted() -> None:
    assert objects(InstallOptions()) == {}
    assert set(objects(InstallOptions(web=True))) == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "Service", "Deployment", "NetworkPolicy",
    }  # fmt: skip


@pytest.mark.parametrize("choices", CHOICES, ids=["plain", "all"])
def test_its_arguments_are_those_of_edl_web(choices: InstallOptions) -> None:
    (container,) = objects(choices)["Deployment"]["spec"]["template"]["spec"]["containers"]
    command, *given = container["args"]
    assert command == "web"
    parser = argparse.ArgumentParser(exit_on_error=False)
    parse_web(parser)
    options = parser.parse_args(given)
    assert (options.viewers, options.listen, options.actions) == ("cluster", f":{WEB_PORT}", choices.web_actions)
    assert (options.policy, bool(options.brain_url)) == (choices.policy, choices.brain)


def test_its_account_may_write_nothing_and_read_no_secret() -> None:
    for permission in permissions():
        assert "secrets" not in permission.resources
        reviews = {"tokenreviews", "subjectaccessreviews"}
        assert set(permission.verbs) <= ({"create"} if set(permission.resources) & reviews else {"list", "watch"})


@pytest.mark.case("attack-6")
def test_it_holds_no_key_that_makes_tokens() -> None:
    """Whoever breaks into the page reads the history, and can write none and shape no plan."""
    pod = objects(InstallOptions(web=True))["Deployment"]["spec"]["template"]["spec"]
    mounted = [one["key"] for volume in pod["volumes"] for one in volume.get("secret", {}).get("items", ())]
    assert mounted == [READER_TOKEN, "ca.crt"]
    (container,) = pod["containers"]
    assert f"--brain-token={PROOF}/{READER_TOKEN}" in container["args"]


async def test_its_account_suffices() -> None:
    """Caches fill and viewers are looked up with these permissions alone."""
    async with Server(None, tokens={"t": ADMIN}) as server:
        await register_crds(Client(direct_transport(server.api)))
        guard = Guard(direct_transport(server.api), permissions=permissions())
        client = Client(guard)
        state = ClusterState(client, gather=0.01)
        async with state.running():
            await state.wait_synced()
            assert all(informer.synced for informer in state.caches.all)
        reviews = Reviews(client)
        assert await reviews.identify("t") is not None
        assert await reviews.of(Identity("somebody")).may(Access("list", "", "nodes"))
        assert guard.refused == []
