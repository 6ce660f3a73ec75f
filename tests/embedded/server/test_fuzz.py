"""Hostile requests: whatever comes in, a Status comes out, nothing breaks, and the next honest request is served."""

import copy
import json
import random
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from edl.embedded.server import ADMIN, Server
from edl.embedded.server.api import Request
from edl.embedded.server.call import Answer, parse_query
from edl.embedded.server.watch import Watch
from tests.conformance.samples import GADGETS, config, container, definition, gadget, job, made, pod, service, workload

CORE, NS = "/api/v1", "/namespaces/default"
SAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    (
        f"{CORE}{NS}",
        "pods",
        pod(
            "x",
            containers=[
                container(
                    env=[{"name": "A", "value": "1"}],
                    ports=[{"containerPort": 1}],
                    resources={"limits": {"cpu": "1"}},
                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                    livenessProbe={"exec": {"command": ["x"]}},
                )
            ],
            volumes=[{"name": "v", "emptyDir": {}}],
            tolerations=[{"operator": "Exists"}],
            nodeSelector={"a": "b"},
        ),
    ),
    (f"{CORE}{NS}", "configmaps", config("x", a="1")),
    (f"{CORE}{NS}", "secrets", made("Secret", "x", data={"a": "eA=="}, stringData={"b": "c"})),
    (f"{CORE}{NS}", "services", service("x")),
    (f"{CORE}{NS}", "serviceaccounts", made("ServiceAccount", "x", automountServiceAccountToken=True)),
    (
        f"{CORE}{NS}",
        "resourcequotas",
        made("ResourceQuota", "x", spec={"hard": {"pods": "99", "cpu": "99"}, "scopes": ["NotTerminating"]}),
    ),
    (
        f"{CORE}{NS}",
        "limitranges",
        made("LimitRange", "x", spec={"limits": [{"type": "Container", "max": {"cpu": "9"}}]}),
    ),
    (
        f"{CORE}{NS}",
        "events",
        made("Event", "x", involvedObject={"kind": "Pod", "name": "p", "namespace": "default"}, message="m"),
    ),
    (
        CORE,
        "nodes",
        made("Node", "x", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}, status={"capacity": {"cpu": "1"}}),
    ),
    (CORE, "namespaces", made("Namespace", "x")),
    (f"/apis/apps/v1{NS}", "deployments", workload("Deployment", "x")),
    (f"/apis/apps/v1{NS}", "replicasets", workload("ReplicaSet", "x")),
    (f"/apis/apps/v1{NS}", "statefulsets", workload("StatefulSet", "x")),
    (f"/apis/batch/v1{NS}", "jobs", job("x", completions=2)),
    (
        f"/apis/coordination.k8s.io/v1{NS}",
        "leases",
        made("Lease", "x", "coordination.k8s.io/v1", spec={"renewTime": "2026-01-01T00:00:00.000000Z"}),
    ),
    (
        f"/apis/discovery.k8s.io/v1{NS}",
        "endpointslices",
        made(
            "EndpointSlice",
            "x",
            "discovery.k8s.io/v1",
            addressType="IPv4",
            endpoints=[{"addresses": ["10.0.0.1"]}],
            ports=[{"port": 1}],
        ),
    ),
    (
        f"/apis/rbac.authorization.k8s.io/v1{NS}",
        "rolebindings",
        made(
            "RoleBinding",
            "x",
            "rbac.authorization.k8s.io/v1",
            roleRef={"kind": "Role", "name": "r"},
            subjects=[{"kind": "User", "name": "u"}],
        ),
    ),
    ("/apis/scheduling.k8s.io/v1", "priorityclasses", made("PriorityClass", "x", "scheduling.k8s.io/v1", value=5)),
    ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", definition("fuzz.edl.dev", "fuzzes", "Fuzz")),
    (
        f"/apis/{GADGETS}/v1{NS}",
        "gadgets",
        gadget("x", keyed=[{"k": "a"}], set=["x"], free={"a": 1}, map={"a": 1}, one={"x": "1"}),
    ),
]
JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    -(2**70),
    "",
    "x",
    "\u0000",
    "💥",
    "a" * 300,
    [],
    {},
    [None],
    {"": None},
    [[]],
    {"a": {"b": []}},
    ["x", 1],
    "2026-01-01T00:00:00Z",
    "10Gi",
    "-",
    "../..",
    "%2F",
    {"$patch": "delete"},
    {"$retainKeys": [1]},
    {"$setElementOrder/containers": [1]},
]
MEDIA = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def mutated(dice: random.Random, sample: dict[str, Any]) -> dict[str, Any]:
    """The sample with one to three places replaced, removed, renamed or doubled."""
    value = copy.deepcopy(sample)
    for _ in range(dice.randint(1, 3)):
        path = dice.choice(places(value) or [("metadata",)])
        holder: Any = value
        for key in path[:-1]:
            holder = holder[key]
        change = dice.random()
        if change < 0.7 or isinstance(holder, list):
            holder[path[-1]] = copy.deepcopy(dice.choice(JUNK))
        elif change < 0.85:
            holder.pop(path[-1], None)
        else:
            holder[dice.choice(["unknown", "kind", "metadata", "spec", "status"])] = holder.get(path[-1])
    return value


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(None, tokens={"t": ADMIN}) as running:
        await ask(running, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(GADGETS))
        yield running


async def ask(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    media: str = "application/json",
    accept: str = "application/json",
) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    where, _, query = path.partition("?")
    result = await server.api.handle(Request(method, where, parse_query(query), data, media, accept, ADMIN, "fuzz/1"))
    if isinstance(result, Watch):
        result.stop()
        return 200, b""
    assert isinstance(result, Answer)
    check(result, f"{method} {path} {data[:2000]!r}")
    return result.code, result.body


def check(answer: Answer, what: str) -> None:
    """An answer that Kubernetes might give: an object, or a Status that agrees with the code."""
    if answer.content_type != "application/json":
        return
    body = json.loads(answer.body)
    if answer.code >= 400:
        assert body["kind"] == "Status", what
        assert (body["status"], body["code"]) == ("Failure", answer.code), what
        assert body["message"], what
        assert body.get("reason") != "InternalError", f"{what} -> {body['message']}"
    else:
        assert isinstance(body, dict), what


@pytest.mark.parametrize("seed", range(6))
async def test_mutated_objects(server: Server, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(seed)
    for _ in range(150):
        base, plural, sample = dice.choice(SAMPLES)
        name = sample["metadata"]["name"]
        await ask(server, "POST", f"{base}/{plural}", sample)
        value = mutated(dice, sample)
        path = f"{base}/{plural}/{name}"
        match dice.randrange(6):
            case 0:
                await ask(
                    server,
                    "POST",
                    f"{base}/{plural}?fieldValidation={dice.choice(['Strict', 'Warn', 'Ignore'])}",
                    value,
                )
            case 1:
                await ask(server, "PUT", path, value)
            case 2:
                await ask(
                    server,
                    "PATCH",
                    f"{path}?fieldManager=f&force={dice.choice(['true', 'false'])}",
                    value,
                    dice.choice(MEDIA[1:]),
                )
            case 3:
                operations = [
                    {
                        "op": dice.choice(["add", "remove", "replace", "move", "copy", "test", "x"]),
                        "path": "/" + "/".join(map(str, dice.choice(places(sample)))),
                        "from": "/spec",
                        "value": dice.choice(JUNK),
                    }
                    for _ in range(dice.randint(1, 3))
                ]
                await ask(server, "PATCH", path, operations, MEDIA[0])
            case 4:
                for sub in ("status", "scale", "resize", "binding", "eviction", "finalize", "token"):
                    await ask(
                        server,
                        dice.choice(["PUT", "PATCH", "POST", "GET"]),
                        f"{path}/{sub}",
                        value,
                        dice.choice([*MEDIA, "application/json"]),
                    )
            case _:
                await ask(
                    server,
                    "DELETE",
                    path,
                    mutated(
                        dice, {"gracePeriodSeconds": 0, "preconditions": {"uid": "x"}, "propagationPolicy": "Orphan"}
                    ),
                )
        await ask(
            server,
            "GET",
            f"{base}/{plural}",
            accept=dice.choice(["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"]),
        )
    assert (await ask(server, "GET", f"{CORE}/namespaces/default"))[0] == 200
    assert not caplog.records, caplog.text


@pytest.mark.parametrize("seed", range(2))
async def test_bodies_that_are_no_objects(server: Server, seed: int) -> None:
    dice = random.Random(seed)
    media = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "", *MEDIA]
    for _ in range(300):
        base, plural, sample = dice.choice(SAMPLES)
        good = json.dumps(sample).encode()
        cut = dice.randrange(len(good))
        body = dice.choice(
            [
                dice.randbytes(dice.randrange(200)),
                good[:cut],
                good[:cut] + dice.randbytes(3) + good[cut:],
                b"k8s\0" + dice.randbytes(80),
                b"[" * 5000,
                b'{"a":' * 5000,
                yaml.safe_dump(sample).encode()[:cut],
                b"&a [*a]",
                b"a: &x [*x]",
                b"\xff\xfe",
                b"null",
                b"1e999",
                b'{"metadata":{"name":"x","annotations":{"a":' + b"[" * 900 + b"]" * 900 + b"}}}",
            ]
        )
        method = dice.choice(["POST", "PUT", "PATCH", "DELETE"])
        path = f"{base}/{plural}" + ("" if method == "POST" else "/x")
        await ask(server, method, f"{path}?fieldManager=f", body, dice.choice(media))


@pytest.mark.parametrize("seed", range(2))
async def test_paths_and_queries(server: Server, seed: int) -> None:
    dice = random.Random(seed)
    words = [
        "api",
        "apis",
        "v1",
        "apps",
        "namespaces",
        "default",
        "pods",
        "x",
        "",
        "..",
        "%2e%2e",
        "%00",
        "💥",
        "status",
        "log",
        "watch",
        "openapi",
        "v3",
        "a" * 300,
        GADGETS,
    ]
    names = [
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "includeObject",
        "gracePeriodSeconds",
        "container",
    ]
    values = [
        "",
        "1",
        "-1",
        "true",
        "abc",
        "Exact",
        "NotOlderThan",
        "All",
        "a=b",
        "a in (b",
        "!a",
        "=",
        "99999999999999999999",
        "\u0000",
        "💥",
        "metadata.name=x",
        "spec.nodeName!=",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4XHUwMDAwIn0",
    ]
    for _ in range(400):
        path = "/" + "/".join(
            quote(dice.choice(words)) if dice.random() < 0.8 else dice.choice(words) for _ in range(dice.randint(0, 7))
        )
        query = "&".join(f"{dice.choice(names)}={quote(dice.choice(values))}" for _ in range(dice.randint(0, 4)))
        accept = dice.choice(
            [
                "application/json",
                "*/*",
                "text/html",
                "",
                ";;;",
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                "application/yaml",
                "a/b;q=x,application/json",
            ]
        )
        await ask(
            server,
            dice.choice(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]),
            f"{path}?{query}",
            None,
            accept=accept,
        )
