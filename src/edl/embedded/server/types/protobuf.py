"""Decodes protobuf bodies of Kubernetes by the same type table as JSON: typed Go clients send them, kubectl among them.

An envelope `k8s\\0` + runtime.Unknown{typeMeta, raw} holds the message. Responses are always JSON, which such clients
accept.
"""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from edl.api.kubernetes.timestamp import MICROSECOND_LAYOUT, SECOND_LAYOUT
from edl.embedded.server import status
from edl.embedded.server.types.model import Anything, Field, ListOf, MapOf, Scalar, Struct, Type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_DEPTH = 64


class _BrokenError(Exception):
    pass


def decode(body: bytes, kind: Struct) -> dict[str, Any]:
    """The object as its JSON would decode."""
    try:
        if not body.startswith(MAGIC):
            raise _BrokenError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
        envelope = _fields(body[4:])
        meta = _fields(_bytes(envelope.get(1, [b""])[-1]))
        api_version, kind_name = (_bytes(meta.get(number, [b""])[-1]).decode() for number in (1, 2))
        obj = _message(_bytes(envelope.get(2, [b""])[-1]), kind, 0)
    except (_BrokenError, IndexError, struct.error, UnicodeDecodeError, OverflowError, ValueError, OSError) as error:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {kind.short_name}): {error}"
        ) from None
    head = {"kind": kind_name, "apiVersion": api_version}
    return {**{name: value for name, value in head.items() if value}, **obj}


Raw = int | bytes


def _fields(data: bytes) -> dict[int, list[Raw]]:
    found: dict[int, list[Raw]] = {}
    for number, value in _scan(data):
        found.setdefault(number, []).append(value)
    return found


def _scan(data: bytes) -> Iterator[tuple[int, Raw]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise _BrokenError("unexpected EOF")
            yield number, data[position : position + length]
            position += length
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            if position + width > len(data):
                raise _BrokenError("unexpected EOF")
            yield number, data[position : position + width]
            position += width
        else:
            raise _BrokenError(f"proto: illegal wireType {wire}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise _BrokenError("unexpected EOF")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result, position
        shift += 7


def _message(data: bytes, kind: Struct, depth: int) -> dict[str, Any]:
    if depth > _DEPTH:
        raise _BrokenError("exceeded max depth")
    obj: dict[str, Any] = {}
    by_number = {field.number: field for field in kind.fields.values() if not _is_inlined(kind, field)}
    inlined = dict(kind.inlined)
    for number, values in _fields(data).items():
        if number in inlined:
            obj |= _message(_bytes(values[-1]), inlined[number], depth + 1)
        elif number in by_number:
            field = by_number[number]
            obj[field.name] = _value(values, field.type, depth)
    return obj


def _is_inlined(kind: Struct, field: Field) -> bool:
    return any(field.name in inner.fields for _, inner in kind.inlined)


def _value(values: list[Raw], kind: Type, depth: int) -> Any:
    if isinstance(kind, ListOf):
        return [item for value in values for item in _items(value, kind.item, depth)]
    if isinstance(kind, MapOf):
        return dict(_entry(_bytes(value), kind.value, depth) for value in values)
    return _single(values[-1], kind, depth)


def _items(value: Raw, kind: Type, depth: int) -> Iterator[Any]:
    """One element, or several when numbers are packed."""
    if isinstance(value, bytes) and isinstance(kind, Scalar) and kind.name in ("int32", "int64"):
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            yield _signed(number)
    else:
        yield _single(value, kind, depth)


def _entry(data: bytes, kind: Type, depth: int) -> tuple[str, Any]:
    parts = _fields(data)
    key = _bytes(parts.get(1, [b""])[-1]).decode()
    if isinstance(kind, ListOf):  # a list inside a map is a message of its own with the elements under 1
        inner = _fields(_bytes(parts.get(2, [b""])[-1]))
        return key, _value(inner.get(1, []), kind, depth)
    return key, _single(parts.get(2, [b""])[-1], kind, depth)


def _single(value: Raw, kind: Type, depth: int) -> Any:
    if isinstance(kind, Struct):
        return _message(_bytes(value), kind, depth + 1)
    if isinstance(kind, Anything):
        raw = _bytes(_fields(_bytes(value)).get(1, [b"null"])[-1])
        return msgspec.json.decode(raw)
    assert isinstance(kind, Scalar)
    return _scalar(value, kind.name)


def _scalar(value: Raw, name: str) -> Any:
    match name:
        case "int32" | "int64":
            return _signed(_number(value))
        case "bool":
            return bool(_number(value))
        case "float64":
            return struct.unpack("<d", _bytes(value))[0]
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "quantity":
            return _bytes(_fields(_bytes(value)).get(1, [b"0"])[-1]).decode()
        case "time" | "microtime":
            return _time(_bytes(value), name)
        case "intorstring":
            parts = _fields(_bytes(value))
            text = _number(parts.get(1, [0])[-1]) == 1
            return _bytes(parts.get(3, [b""])[-1]).decode() if text else _signed(_number(parts.get(2, [0])[-1]))
        case _:
            return _bytes(value).decode()


def _time(data: bytes, name: str) -> str | None:
    parts = _fields(data)
    if not parts:
        return None
    seconds, nanos = (_signed(_number(parts.get(number, [0])[-1])) for number in (1, 2))
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return moment.strftime(MICROSECOND_LAYOUT if name == "microtime" else SECOND_LAYOUT)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _bytes(value: Raw) -> bytes:
    if not isinstance(value, bytes):
        raise _BrokenError("proto: wrong wireType")
    return value


def _number(value: Raw) -> int:
    if not isinstance(value, int):
        raise _BrokenError("proto: wrong wireType")
    return value
