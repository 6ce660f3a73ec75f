"""`edl doctor` notices pods whose token or authority is not the operator's, and only those."""

import base64
import time
from typing import Any

import msgspec
import pytest

from edl.doctor.cluster import ClusterObjects, examine_cluster
from edl.doctor.finding import Finding
from edl.jobs.core.children import seal
from edl.operator.credentials.identity import Identity, Previous, load_identity
from edl.operator.resources import NAMESPACES
from tests.operator.stage import stage

pytestmark = pytest.mark.case("attack-3")

NAMES = ["localhost"]


@pytest.fixture
async def identities() -> tuple[Identity, Identity]:
    """Two installations that know nothing of each other."""
    async with stage() as scene:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        await scene.client.create(NAMESPACES, space)
        return (
            await load_identity(scene.client, "ns", "a", NAMES),
            await load_identity(scene.client, "ns", "b", NAMES),
        )


def secret(name: str, values: dict[str, str]) -> dict[str, Any]:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"name": name, "namespace": "x", "labels": {"edl.dev/job-uid": "uid"}}, "data": data}


def pod(phase: str = "Running", **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", **container}]}
    return {"metadata": {"name": "p", "namespace": "x"}, "spec": spec, "status": {"phase": phase}}


SHARED = pod(envFrom=[{"secretRef": {"name": "s"}}])
BY_KEY = pod(env=[{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}])


def found(identity: Identity, ca: str, token: str, user: dict[str, Any], **more: Any) -> list[Finding]:
    keys = ("EDL_JOB_TOKEN", "EDL_SERVICE_CA") if user is SHARED else ("token", "ca.crt")
    values = dict(zip(keys, (token, ca), strict=True))
    seen = ClusterObjects(version="v1.36.0", identity=identity, secrets=[secret("s", values)], pods=[user], **more)
    return [one for one in examine_cluster(seen, time.time()) if one.about in ("keys", "webhook")]


@pytest.mark.parametrize("user", [SHARED, BY_KEY], ids=["shared", "by key"])
async def test_pods_of_another_key_or_authority_are_named(
    identities: tuple[Identity, Identity], user: dict[str, Any]
) -> None:
    ours, other = identities
    assert found(ours, ours.ca, ours.token("uid"), user) == []
    for ca, token in ((other.ca, ours.token("uid")), (ours.ca, other.token("uid")), ("", ours.token("uid"))):
        [finding] = found(ours, ca, token, user)
        assert "x/p" in finding.message
    assert found(ours, other.ca, other.token("uid"), {**user, "status": {"phase": "Succeeded"}}) == []


async def test_a_pod_that_was_sealed_with_another_key_is_named(identities: tuple[Identity, Identity]) -> None:
    """Its Secret says the right thing now, but the pod read it before."""
    ours, other = identities
    for made, told in ((ours, 0), (other, 1)):
        user = pod(env=BY_KEY["spec"]["containers"][0]["env"])
        user["metadata"] |= {
            "labels": {"edl.dev/job-uid": "uid"},
            "annotations": {"edl.dev/seal": seal(made.token("uid"), "Pod", "p")},
        }
        assert len(found(ours, ours.ca, ours.token("uid"), user)) == told


async def test_while_one_replaces_the_other_both_are_good(identities: tuple[Identity, Identity]) -> None:
    ours, before = identities
    during = msgspec.structs.replace(ours, previous=Previous((before.key,), (0.0,), before.ca, before.ca_key))
    assert found(during, before.ca, before.token("uid"), SHARED) == []
    assert found(during, during.trusted, during.token("uid"), SHARED) == []
    assert found(during, ours.ca, ours.token("uid"), SHARED) != [], "it would not trust the former one, which issues"


async def test_a_webhook_that_trusts_another_authority_is_told_of(identities: tuple[Identity, Identity]) -> None:
    ours, other = identities
    for ca, told in ((ours.ca, 0), (other.ca, 1)):
        hook = {"webhooks": [{"clientConfig": {"caBundle": base64.b64encode(ca.encode()).decode()}}]}
        assert len(found(ours, ours.ca, ours.token("uid"), SHARED, webhook=hook)) == told
