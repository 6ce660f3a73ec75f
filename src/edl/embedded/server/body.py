"""From the bytes of a request to an object of the resource's type: syntax, kind, place, fields."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec

from edl.embedded.server import causes, fields, protobuf, status, yamlbody
from edl.embedded.server.call import Call, Object
from edl.embedded.server.registry import Resource
from edl.embedded.server.settle import MismatchError, Outcome, settler
from edl.embedded.server.types import Struct, builtin_types

ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_MODES = ("", "Ignore", "Strict", "Warn")
_HEADER = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def parse(call: Call, kind: Struct | None = None) -> Object:
    """The decoded body, whatever its encoding. `kind` is what a protobuf message is read as."""
    media = call.content_type.partition(";")[0].strip().lower()
    if media in ("application/json", ""):
        return parse_json(call.body, call.resource.kind)
    if media == "application/yaml":
        return parse_yaml(call.body, call.resource.kind)
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
    """The decoder's complaint in Go's words where they are known."""
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


def parse_yaml(body: bytes, kind: str) -> Object:
    """JSON is YAML, and what most clients send as such; only the rest needs the slow parser."""
    if body[:1] == b"{":
        with contextlib.suppress(status.ApiError):
            return parse_json(body, kind)
    try:
        encoded = msgspec.json.encode(yamlbody.load(body))
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError, AttributeError) as error:
        raise status.bad_request(str(error)) from None
    return parse_json(encoded, kind)


def _unrecognized(kind: str, why: str) -> status.ApiError:
    return status.bad_request(f"the object provided is unrecognized (must be of type {kind}): {why}")


def parse_object(call: Call) -> Object:
    """The object of a create or replace: kind, namespace and name agree with the URL, every field has its type."""
    obj = parse(call)
    check_kind(call, obj)
    complain(call, settle(call, obj, call.body))
    settle_place(call, obj["metadata"])
    return obj


def parse_as(call: Call, type_name: str) -> Object:
    """The body of a subresource that has a kind of its own, such as `policy.Eviction`, in the form of its type."""
    kind = builtin_types()[type_name]
    obj = parse(call, kind)
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    try:
        settled: Object = settler(kind)(obj, Outcome())
    except MismatchError as mismatch:
        name = kind.short_name
        raise status.bad_request(f'{name} in version "v1" cannot be handled as a {name}: {mismatch}') from None
    return settled


def check_kind(call: Call, obj: Object, *, patched: bytes | None = None) -> None:
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
            raise status.invalid("", "", "", [causes.invalid("patch", patched.decode(), why)])
        raise status.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')
    obj["kind"], obj["apiVersion"] = kind, api_version


def settle(call: Call, obj: Object, document: bytes, *, patched: bool = False) -> list[str]:
    """Give the object its type's form; the result names unknown and duplicate fields of `document`."""
    resource, mode = call.resource, _mode(call)
    kind, api_version = obj.pop("kind"), obj.pop("apiVersion")
    found: list[str] = []
    try:
        if resource.custom is not None:
            found = _settle_custom(resource, obj)
        else:
            outcome = Outcome()
            settler(resource.type)(obj, outcome)
            if outcome.unknown and mode != "Ignore":
                found = fields.problems(document, resource.type) if document[:1] == b"{" else ["unknown field"]
    except MismatchError as mismatch:
        if patched:
            raise status.invalid("", "", "", [causes.invalid("patch", document.decode(), str(mismatch))]) from None
        text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {mismatch}'
        raise status.bad_request(text) from None
    obj["kind"], obj["apiVersion"] = kind, api_version
    if mode == "Ignore":
        return []
    if not found and _repeats(document):
        found = [text for text in fields.problems(document, resource.type) if text.startswith("duplicate")]
    return found


def _settle_custom(resource: Resource, obj: Object) -> list[str]:
    outcome = Outcome()
    meta = obj.setdefault("metadata", {})
    unknown = set(meta) - set(_METADATA.fields) if isinstance(meta, dict) else set()
    settler(_METADATA)(meta, outcome)
    dropped = [f"metadata.{name}" for name in unknown] + resource.custom.prune(obj)
    return [f'unknown field "{path}"' for path in sorted(dropped)]


_METADATA = builtin_types()["meta.ObjectMeta"]


def _repeats(document: bytes) -> bool:
    """Whether the JSON names some field of an object twice. Cheap and only ever too cautious: the number of keys is
    compared with that of the decoded document, and only if it differs is the document walked."""
    if document[:1] != b"{":
        return False
    decoded = msgspec.json.encode(msgspec.json.decode(document))
    return document.count(b'":') != decoded.count(b'":') and fields.has_duplicates(document)


def _mode(call: Call) -> str:
    mode = call.query.get("fieldValidation")
    if mode not in _MODES:
        listed = ", ".join(f'"{name}"' for name in _MODES)
        cause = status.Cause(
            "FieldValueNotSupported", f'Unsupported value: "{mode}": supported values: {listed}', "fieldValidation"
        )
        raise status.invalid("meta.k8s.io", "CreateOptions" if call.method == "POST" else "UpdateOptions", "", [cause])
    return mode or "Warn"


def complain(call: Call, found: list[str], *, patched: bytes | None = None) -> None:
    """Refuse (Strict) or warn about unknown and duplicate fields."""
    if not found:
        return
    if _mode(call) != "Strict":
        call.warnings.extend(found)
        return
    resource, text = call.resource, f"strict decoding error: {', '.join(found)}"
    if patched is not None:
        raise status.invalid("", "", "", [causes.invalid("patch", patched.decode(), text)])
    raise status.bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {text}'
    )


def settle_place(call: Call, meta: dict[str, Any]) -> None:
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
