"""Tokens of pods: one fixed rule says what they open, and a pod gets one only if it asks."""

from typing import Any

import pytest

from edl.embedded.server import ADMIN, Server, User
from tests.conformance.samples import DEFINITIONS, GADGETS, definition, gadget, made, pod
from tests.embedded.server.requests import ask

pytestmark = pytest.mark.case("attack-12")

TOKENS = {"t": ADMIN}

POD_MAY: list[tuple[str, str, Any]] = [
    ("GET", "/api/v1/namespaces/default/pods", None),
    ("POST", "/api/v1/namespaces/default/configmaps", made("ConfigMap", "c")),
    ("GET", "/api/v1/namespaces/default/configmaps/c", None),
    ("POST", f"/apis/{GADGETS}/v1/namespaces/default/gadgets", gadget("g")),
    ("GET", f"/apis/{GADGETS}/v1/namespaces/default/gadgets/g", None),
    ("GET", "/version", None),
    ("GET", "/api/v1", None),
]
POD_MAY_NOT: list[tuple[str, str, Any]] = [
    ("GET", "/api/v1/namespaces/default/secrets", None),
    ("GET", "/api/v1/namespaces/other/pods", None),
    ("GET", "/api/v1/namespaces/other/configmaps/c", None),
    ("POST", "/api/v1/namespaces/other/configmaps", made("ConfigMap", "c")),
    ("GET", f"/apis/{GADGETS}/v1/namespaces/other/gadgets", None),
    ("GET", f"/apis/{GADGETS}/v1/gadgets", None),
    ("GET", "/api/v1/pods", None),
    ("GET", "/api/v1/nodes", None),
    ("GET", "/api/v1/namespaces", None),
    ("DELETE", "/api/v1/namespaces/default", None),
    ("GET", "/api/v1/namespaces/default/services", None),
    ("POST", "/api/v1/namespaces/default/serviceaccounts", made("ServiceAccount", "s")),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}),
    ("GET", "/apis/apps/v1/namespaces/default/deployments", None),
    ("GET", "/apis/batch/v1/namespaces/default/jobs", None),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases", None),
    ("GET", DEFINITIONS, None),
    ("POST", "/api/v1/namespaces/default/pods/p/exec", None),
    ("POST", "/api/v1/namespaces/default/pods/p/binding", {}),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {}}),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", made("ClusterRoleBinding", "b")),
]


async def pod_user(server: Server) -> User:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    _, answer = await ask(server, "POST", path, {"spec": {}})
    user = server.api.tokens.user(answer["status"]["token"])
    assert user is not None
    return user


async def test_a_pods_token_opens_pods_configmaps_and_our_kinds_of_its_namespace_alone() -> None:
    async with Server(None, tokens=TOKENS, pod_groups=lambda: frozenset([GADGETS])) as server:
        await ask(server, "POST", DEFINITIONS, definition(GADGETS))
        await ask(server, "POST", "/api/v1/namespaces", made("Namespace", "other"))
        caller = await pod_user(server)
        for method, path, body in POD_MAY:
            status, answer = await ask(server, method, path, body, user=caller)
            assert status in (200, 201), (method, path, answer)
        for method, path, body in POD_MAY_NOT:
            status, answer = await ask(server, method, path, body, user=caller)
            assert status == 403, (method, path, answer)
            assert 'User "system:serviceaccount:default:default" cannot' in answer["message"]


async def test_a_pods_token_is_told_what_it_may() -> None:
    async with Server(None, tokens=TOKENS) as server:
        caller, path = await pod_user(server), "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        for resource, namespace, expected in (
            ("pods", "default", True),
            ("pods", "other", False),
            ("secrets", "default", False),
        ):
            wanted = {"verb": "get", "resource": resource, "namespace": namespace}
            _, review = await ask(server, "POST", path, {"spec": {"resourceAttributes": wanted}}, user=caller)
            assert review["status"]["allowed"] is expected, wanted


@pytest.mark.parametrize(
    ("account", "asked", "mounted"),
    [("default", None, False), ("default", True, True), ("robot", None, True), ("robot", False, False)],
)
async def test_a_pod_of_the_default_account_has_a_token_only_if_it_asks(
    account: str, asked: bool | None, mounted: bool
) -> None:
    async with Server(None, tokens=TOKENS, default_tokens=False) as server:
        await ask(server, "POST", "/api/v1/namespaces", made("Namespace", "ns"))
        await ask(server, "POST", "/api/v1/namespaces/ns/serviceaccounts", made("ServiceAccount", "robot"))
        spec: dict[str, Any] = {"serviceAccountName": account}
        if asked is not None:
            spec["automountServiceAccountToken"] = asked
        status, answer = await ask(server, "POST", "/api/v1/namespaces/ns/pods", pod("p", **spec))
        assert status == 201, answer
        volumes = [volume["name"] for volume in answer["spec"].get("volumes", ())]
        assert any(name.startswith("kube-api-access-") for name in volumes) is mounted
