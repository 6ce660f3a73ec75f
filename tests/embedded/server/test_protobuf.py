"""Bodies in protobuf, encoded here by the same table of types and read by the server."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.embedded.server.status import ApiError
from edl.embedded.server.types import protobuf
from edl.embedded.server.types.model import ListOf, MapOf, Scalar, Struct, Type, builtin_type


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, payload: bytes | int) -> bytes:
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def encoded(value: Any, kind: Type) -> bytes | int:
    if isinstance(kind, Struct):
        return message(value, kind)
    assert isinstance(kind, Scalar)
    match kind.name:
        case "int32" | "int64":
            return int(value)
        case "bool":
            return int(value)
        case "quantity":
            return field(1, value.encode())
        case "intorstring":
            return field(1, 0) + field(2, value) if isinstance(value, int) else field(1, 1) + field(3, value.encode())
        case "float64":
            return struct.pack("<d", value)
        case _:
            return str(value).encode()


def message(value: dict[str, Any], kind: Struct) -> bytes:
    out = b""
    inner_names = {name for _, inner in kind.inlined for name in inner.fields}
    for name, item in value.items():
        if name in inner_names:
            continue
        entry = kind.fields[name]
        if isinstance(entry.type, ListOf):
            out += b"".join(field(entry.number, encoded(each, entry.type.item)) for each in item)
        elif isinstance(entry.type, MapOf):
            for key, each in item.items():
                out += field(entry.number, field(1, key.encode()) + field(2, encoded(each, entry.type.value)))
        else:
            out += field(entry.number, encoded(item, entry.type))
    for number, inner in kind.inlined:
        part = {name: item for name, item in value.items() if name in inner.fields}
        if part:
            out += field(number, message(part, inner))
    return out


def envelope(kind: Struct, api_version: str, value: dict[str, Any]) -> bytes:
    meta = field(1, api_version.encode()) + field(2, kind.short_name.encode())
    return protobuf.MAGIC + field(1, meta) + field(2, message(value, kind))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (
            "Pod",
            {
                "metadata": {"name": "p", "labels": {"a": "b", "c": "d"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "i",
                            "args": ["x", "y"],
                            "env": [{"name": "A", "value": "1"}],
                            "ports": [{"containerPort": 80}],
                            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                            "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 3},
                        }
                    ],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "terminationGracePeriodSeconds": -5,
                    "hostNetwork": True,
                },
            },
        ),
        (
            "Service",
            {
                "metadata": {"name": "s"},
                "spec": {"ports": [{"port": 80, "targetPort": 81}, {"port": 90, "targetPort": "x"}]},
            },
        ),
        ("Secret", {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "type": "Opaque"}),
    ],
)
def test_protobuf_bodies(kind: str, value: dict[str, Any]) -> None:
    shape = builtin_type("", kind)
    assert protobuf.decode(envelope(shape, "v1", value), shape) == {"kind": kind, "apiVersion": "v1", **value}


@given(st.binary(max_size=120))
def test_broken_protobuf_is_refused(garbage: bytes) -> None:
    shape = builtin_type("", "Pod")
    try:
        assert isinstance(protobuf.decode(protobuf.MAGIC + garbage, shape), dict)
    except ApiError as error:
        assert error.code == 400  # noqa: PT017 - either outcome is right
