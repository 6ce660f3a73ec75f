"""Variables, commands and the downward API."""

import base64
import os
import sys
from typing import Any

import msgspec
import pytest

from edl.api.kubernetes.core import ConfigMap, Secret
from edl.embedded.node.pod.environment import Image, command_of, expand, inherited, variables_of
from edl.embedded.node.pod.inputs import ConfigurationError, PodInputs, references_of
from edl.embedded.node.pod.types import Container, Pod

FACTS = PodInputs(
    config_maps={"c": ConfigMap(data={"k": "v", "other": "w", "bad key": "x"}), "absent": None},
    secrets={"s": Secret(data={"password": base64.b64encode(b"hunter2").decode()})},
    variables={"SVC_SERVICE_HOST": "127.20.0.1"},
    allocatable={"cpu": "8", "memory": "1Gi"},
    pod_ip="127.16.0.9",
    host_ip="127.16.0.1",
)
RESOURCES = {"limits": {"cpu": "1500m"}, "requests": {"cpu": "250m", "memory": "64Mi"}}


def container(**fields: Any) -> Container:
    return msgspec.convert({"name": "a", "resources": RESOURCES, **fields}, Container)


def pod(one: Container) -> Pod:
    meta = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x", "z": 'q"'}, "annotations": {"n": "1"}}
    made = msgspec.convert({"metadata": meta, "spec": {"nodeName": "n1", "serviceAccountName": "sa"}}, Pod)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=(one,)))


def resolve(env: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, str]:
    one = container(env=env or [], **fields)
    return variables_of(one, pod(one), FACTS, {"PATH": "/bin"})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("a$$b", "a$b"),
    ],
)
def test_expansion(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "ns"),
        ({"fieldRef": {"fieldPath": "metadata.uid"}}, "u"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "x"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['n']"}}, "1"),
        ({"fieldRef": {"fieldPath": "metadata.labels['absent']"}}, ""),
        ({"fieldRef": {"fieldPath": "metadata.labels"}}, 'app="x"\nz="q\\""'),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "n1"),
        ({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "sa"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "127.16.0.9"),
        ({"fieldRef": {"fieldPath": "status.hostIP"}}, "127.16.0.1"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}, "64"),
        ({"resourceFieldRef": {"resource": "limits.memory"}}, str(1 << 30)),
        ({"resourceFieldRef": {"resource": "requests.cpu", "containerName": "a"}}, "1"),
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "v"),
        ({"secretKeyRef": {"name": "s", "key": "password"}}, "hunter2"),
    ],
)
def test_where_values_come_from(source: dict[str, Any], value: str) -> None:
    assert resolve([{"name": "V", "valueFrom": source}])["V"] == value


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"configMapKeyRef": {"name": "absent", "key": "k"}}, 'configmap "absent" not found'),
        ({"configMapKeyRef": {"name": "c", "key": "nope"}}, "couldn't find key nope in ConfigMap ns/c"),
        ({"secretKeyRef": {"name": "none", "key": "k"}}, 'secret "none" not found'),
        ({"fieldRef": {"fieldPath": "spec.x"}}, "fieldPath 'spec.x' is not supported"),
        ({"resourceFieldRef": {"resource": "cpu"}}, "unsupported container resource : cpu"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "b"}}, "container b not found"),
    ],
)
def test_what_is_missing_is_named(source: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says.replace("(", "\\(")):
        resolve([{"name": "V", "valueFrom": source}])


def test_optional_references_may_be_missing() -> None:
    sources: list[dict[str, Any]] = [
        {"configMapKeyRef": {"name": "absent", "key": "k", "optional": True}},
        {"secretKeyRef": {"name": "s", "key": "nope", "optional": True}},
    ]
    env = resolve([{"name": f"V{i}", "valueFrom": source} for i, source in enumerate(sources)])
    assert not {"V0", "V1"} & set(env)


def test_the_order_of_precedence() -> None:
    env = resolve(
        [{"name": "k", "value": "own"}, {"name": "X", "value": "$(k)/$(pre_other)/$(SVC_SERVICE_HOST)"}],
        envFrom=[{"configMapRef": {"name": "c"}}, {"prefix": "pre_", "configMapRef": {"name": "c"}}],
    )
    assert env["k"] == "own"
    assert env["X"] == "own/w/127.20.0.1"
    assert env["HOSTNAME"] == "p"
    assert "bad key" not in env


def test_a_container_inherits_what_it_needs_to_run_and_no_secrets() -> None:
    env = inherited({"PATH": "/usr/bin", "HOME": "/h", "AWS_SECRET_ACCESS_KEY": "x"}, Image())
    assert env["PATH"].split(os.pathsep)[0] == os.path.dirname(sys.executable)
    assert env["PATH"].endswith("/usr/bin")
    assert (env["HOME"], env["PYTHONUNBUFFERED"]) == ("/h", "1")
    assert "AWS_SECRET_ACCESS_KEY" not in env
    mapped = inherited({"PATH": "/usr/bin"}, Image(virtualenv="/venv", env={"A": "b"}))
    assert (mapped["PATH"], mapped["VIRTUAL_ENV"], mapped["A"]) == ("/venv/bin:/usr/bin", "/venv", "b")


@pytest.mark.parametrize(
    ("fields", "image", "argv"),
    [
        ({"command": ["a", "$(V)"], "args": ["b"]}, Image(), ["a", "1", "b"]),
        ({"args": ["b"]}, Image(command=("e",), args=("x",)), ["e", "b"]),
        ({}, Image(command=("e",), args=("x",)), ["e", "x"]),
        ({"command": ["a"]}, Image(command=("e",), args=("x",)), ["a"]),
        ({"args": ["b", "c"]}, Image(), ["b", "c"]),
    ],
)
def test_command_and_arguments(fields: dict[str, Any], image: Image, argv: list[str]) -> None:
    assert command_of(container(**fields), image, {"V": "1"}) == argv


def test_an_image_alone_has_no_command() -> None:
    with pytest.raises(ConfigurationError, match=r'no command specified: image "nginx" is only a name here'):
        command_of(container(image="nginx"), Image(), {})


def test_needs_name_everything_that_is_referred_to() -> None:
    body = {
        "containers": [
            {
                "name": "a",
                "env": [
                    {"name": "x", "valueFrom": {"configMapKeyRef": {"name": "c1", "key": "k"}}},
                    {"name": "y", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "c2"}}, {"secretRef": {"name": "s2"}}],
            }
        ],
        "volumes": [
            {"name": "v", "configMap": {"name": "c3"}},
            {"name": "w", "secret": {"secretName": "s3"}},
            {
                "name": "t",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token"}},
                        {"configMap": {"name": "c4"}},
                        {"secret": {"name": "s4"}},
                    ]
                },
            },
        ],
    }
    needs = references_of(msgspec.convert({"spec": body}, Pod))
    assert needs.config_maps == {"c1", "c2", "c3", "c4"}
    assert needs.secrets == {"s1", "s2", "s3", "s4"}
    assert [token.path for token in needs.tokens] == ["token"]
