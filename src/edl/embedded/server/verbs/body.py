"""Parses the body of a request into an object of the resource's type: syntax, kind, namespace and name, fields."""

import contextlib
import json
from typing import Any

import msgspec

from edl.embedded.server import causes, status
from edl.embedded.server.http import yaml_body
from edl.embedded.server.types import protobuf, strict_decoding
from edl.embedded.server.types.model import Struct, builtin_types
from edl.embedded.server.types.normalize import Findings, MismatchError, normalizer
from edl.embedded.server.verbs.call import Call, Object

ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_HEADER = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def parse(call: Call, kind: Struct | None = None) -> Object:
    """The decoded body, whatever its encoding. `kind` is the type of a protobuf message."""
    media = call.content_type.partition(";")[0].strip().lower()
    if media in ("application/json", ""):
        return parse_json(call.body, call.resource.kind)
    if media == "application/yaml":
        return parse_yaml(call, call.resource.kind)
    if media == protobuf.MEDIA_TYPE and (call.resource.custom is None or kind is not None):
        return protobuf.decode(call.body, kind or call.resource.type)
    raise status.unsupported_media_type(ACCEPTED if call.resource.custom is None else ACCEPTED[:2])


def parse_json(body: bytes, kind: str) -> Object:
    try:
        obj = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = body[:30].decode(errors="replace") + (" ..." if len(body) > 30 else "") if body else "<empty>"
        raise _unrecognized(
            kind, f"couldn't get version/kind; json parse error: {_syntax(body, error)} ({shown})"
        ) from None
    if not isinstance(obj, dict):
        word = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(obj), "number")
        problem = f"json: cannot unmarshal {word} into Go value of type {_HEADER} ({body[:30].hex()})"
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {problem}")
    return obj


def _syntax(body: bytes, error: Exception) -> str:
    """The decoder's error in Go's wording where it is known."""
    text = str(error)
    if "truncated" in text:
        return "unexpected end of JSON input"
    try:
        json.loads(body)
    except json.JSONDecodeError as found:
        if found.pos < len(found.doc):
            return f"invalid character {found.doc[found.pos]!r} looking for beginning of value"
        return "unexpected end of JSON input"
    except (RecursionError, UnicodeDecodeError):
        return "exceeded max depth"
    return text


def parse_yaml(call: Call, kind: str) -> Object:
    """JSON is YAML, and what most clients send; only the rest needs the slow parser."""
    if call.body[:1] == b"{" and not call.yaml_as_json:
        with contextlib.suppress(status.ApiError):
            return parse_json(call.body, kind)
    call.yaml_as_json = call.yaml_as_json or yaml_to_json(call.body)
    return parse_json(call.yaml_as_json, kind)


def yaml_to_json(body: bytes) -> bytes:
    try:
        return msgspec.json.encode(yaml_body.load(body))
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError, AttributeError) as error:
        raise status.bad_request(str(error)) from None


def _unrecognized(kind: str, why: str) -> status.ApiError:
    return status.bad_request(f"the object provided is unrecognized (must be of type {kind}): {why}")


def parse_object(call: Call) -> Object:
    """The object of a create or replace: kind, namespace and name agree with the URL, every field has its type."""
    obj = parse(call)
    repeats = strict_decoding.may_repeat(call.document, obj)
    check_kind(call, obj)
    strict_decoding.normalize(call, obj, lambda: call.document, repeats=repeats)
    set_namespace_and_name(call, obj["metadata"])
    return obj


def parse_as(call: Call, type_name: str) -> Object:
    """The normalized body of a subresource that has a kind of its own, such as `policy.Eviction`."""
    kind = builtin_types()[type_name]
    obj = parse(call, kind)
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    try:
        normalized: Object = normalizer(kind)(obj, Findings())
    except MismatchError as mismatch:
        name = kind.short_name
        raise status.bad_request(f'{name} in version "v1" cannot be handled as a {name}: {mismatch}') from None
    return normalized


def check_kind(call: Call, obj: Object, *, patched: strict_decoding.Document | None = None) -> None:
    resource = call.resource
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if resource.custom is not None and not (kind and api_version):
        missing = "Kind" if not kind else "apiVersion"
        text = call.body.decode(errors="replace")
        shown = f"{text[:30]} ..." if len(text) > 30 else text
        raise _unrecognized(resource.kind, f"Object '{missing}' is missing in '{text}' ({shown})")
    kind, api_version = kind or resource.kind, api_version or resource.api_version
    version = str(api_version).rpartition("/")[2]
    if api_version != resource.api_version:
        if resource.custom is None:
            why = f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
            raise status.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')
        raise status.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind and resource.custom is not None:
        cause = causes.invalid("kind", kind, f"must be {resource.kind}")
        meta = obj.get("metadata")
        name = meta.get("name", "") if isinstance(meta, dict) else ""
        raise status.invalid(resource.group, str(kind), str(name), [cause])
    if kind != resource.kind:
        why = f"converting (v1.{kind}) to (core.{resource.kind}): unknown conversion"
        if patched is not None:
            raise status.invalid("", "", "", [causes.invalid("patch", patched().decode(), why)])
        raise status.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')
    obj["kind"], obj["apiVersion"] = kind, api_version


def set_namespace_and_name(call: Call, meta: dict[str, Any]) -> None:
    namespace = meta.get("namespace") or ""
    if call.resource.namespaced:
        if namespace and namespace != call.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = call.namespace
    elif namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    name = meta.get("name") or ""
    if call.name and name and name != call.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if call.name:
        meta["name"] = call.name
