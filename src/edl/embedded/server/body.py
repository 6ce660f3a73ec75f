"""From the bytes of a request to an object: media type, syntax, kind, name and namespace are settled here."""

from __future__ import annotations

import msgspec
import yaml

from edl.embedded.server import status
from edl.embedded.server.call import Call, Object

ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


def parse(call: Call) -> Object:
    media = call.content_type.partition(";")[0].strip().lower() or "application/json"
    if media == "application/json":
        return parse_json(call.body)
    if media == "application/yaml":
        return parse_yaml(call.body)
    raise status.unsupported_media_type(ACCEPTED)


def parse_json(body: bytes) -> Object:
    try:
        obj = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    return _as_object(obj)


def parse_yaml(body: bytes) -> Object:
    try:
        obj = yaml.safe_load(body)
        return _as_object(msgspec.json.decode(msgspec.json.encode(obj)))
    except (yaml.YAMLError, TypeError, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise status.bad_request(f"error converting YAML to JSON: {error}") from None


def _as_object(obj: object) -> Object:
    if not isinstance(obj, dict):
        word = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(obj), "number")
        raise status.bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {word} into Go value of type struct"
        )
    return obj


def parse_object(call: Call) -> Object:
    """The object of a create or replace, with kind, namespace and name agreeing with the URL."""
    obj = parse(call)
    check_kind(call, obj)
    meta = obj.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise status.bad_request(
            f'{call.resource.kind} in version "{call.resource.version}" cannot be handled as a '
            f"{call.resource.kind}: metadata is not an object"
        )
    settle_place(call, meta)
    return obj


def check_kind(call: Call, obj: Object) -> None:
    resource = call.resource
    kind, api_version = obj.get("kind", ""), obj.get("apiVersion", "")
    if (kind and kind != resource.kind) or (api_version and api_version != resource.api_version):
        if api_version and api_version != resource.api_version:
            message = (
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({resource.api_version})"
            )
        else:
            message = (
                f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: converting '
                f"(v1.{kind}) to (core.{resource.kind}): unknown conversion"
            )
        raise status.bad_request(message)
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version


def settle_place(call: Call, meta: Object) -> None:
    namespace = meta.get("namespace") or ""
    if call.resource.namespaced:
        if namespace and namespace != call.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = call.namespace
    elif namespace:
        raise (
            status.bad_request("namespace is not allowed on this type")
            if False
            else status.invalid(
                call.resource.group,
                call.resource.kind,
                meta.get("name") or "",
                [status.Cause("FieldValueForbidden", "Forbidden: not allowed on this type", "metadata.namespace")],
            )
        )
    name = meta.get("name") or ""
    if call.name and name and name != call.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if call.name:
        meta["name"] = call.name
