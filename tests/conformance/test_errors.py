"""Unknown paths, wrong methods and headers, missing credentials."""

import pytest

from tests.conformance.samples import pod
from tests.conformance.trace import Trace


@pytest.mark.parametrize(
    "path",
    [
        "/foo",
        "/api/v1/nothings",
        "/api/v2",
        "/apis/nothing.dev/v1",
        "/apis/apps/v9/deployments",
        "/api/v1/namespaces/default/pods/p/nothing",
        "/apis/apps/v1/namespaces/default/deployments/d/log",
    ],
)
async def test_no_such_path(t: Trace, path: str) -> None:
    await t.get(path, code=404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("PUT", "/api/v1/namespaces/default/pods"),
        ("PATCH", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/namespaces/default/pods/p"),
        ("DELETE", "/api/v1/namespaces"),
        ("DELETE", "/api/v1/namespaces/default/pods/p/status"),
        ("PUT", "/api/v1/namespaces/default/pods/p/eviction"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
async def test_method_not_allowed(t: Trace, method: str, path: str) -> None:
    await t.call(method, path, pod() if method in ("POST", "PUT") else None, code=405)


@pytest.mark.parametrize(
    ("path", "token"),
    [
        ("/api/v1/namespaces/default/pods", "wrong"),
        ("/healthz", "wrong"),
    ],
)
async def test_wrong_token(t: Trace, path: str, token: str) -> None:
    await t.get(path, token=token, code=401)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/default/pods"),
        ("GET", "/api/v1/namespaces/default/pods/x"),
        ("GET", "/api/v1/nodes"),
        ("POST", "/apis/apps/v1/namespaces/default/deployments"),
        ("DELETE", "/api/v1/namespaces/default"),
        ("GET", "/api"),
        ("GET", "/foo"),
        ("GET", "/apis/apps/v1"),
    ],
)
async def test_no_token_no_entry(t: Trace, method: str, path: str) -> None:
    await t.call(method, path, token="", code=403)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_public(t: Trace, path: str) -> None:
    await t.get(path, token="", code=200)


async def test_version_is_public(t: Trace) -> None:
    await t.get(
        "/version",
        token="",
        view=lambda found: [found["major"], found["minor"], found["gitVersion"].partition("+")[0]],
        code=200,
    )


async def test_not_acceptable(t: Trace) -> None:
    await t.get(
        f"{t.core}/pods", accept="text/html", show="", view=lambda found: [found["reason"], found["code"]], code=406
    )


async def test_too_large(t: Trace) -> None:
    body = b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * (3 << 20) + b'"}}'
    await t.call("POST", f"{t.core}/configmaps", body, code=413)


async def test_escaped_path(t: Trace) -> None:
    await t.get(f"{t.core}/pods/a%2Fb", code=404)
    await t.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anothing", code=404)
