"""JSON Patch and JSON Merge Patch, as pure functions from an object and a patch to a new object."""

import copy
from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from edl.embedded.server import status
from edl.embedded.server.verbs.call import Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_MOST_OPERATIONS = 10_000
_MOST_COPIED_BYTES = 3 << 20


class _TooMuchCopiedError(Exception):
    """The `copy` operations of one patch add more than a request may hold. Kubernetes has the same bound."""


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(target: Object, body: bytes) -> Object:
    """RFC 6902. Kubernetes does not name the operation that failed, so neither does this."""
    operations = _decode(body)
    if not isinstance(operations, list):
        word = "object" if isinstance(operations, dict) else "string"
        text = f"error decoding patch: json: cannot unmarshal {word} into Go value of type []handlers.jsonPatchOp"
        raise status.bad_request(text)
    if len(operations) > _MOST_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise status.ApiError(413, "RequestEntityTooLarge", text)
    try:
        result = _apply(copy.deepcopy(target), operations)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        _TooMuchCopiedError,
    ):
        text = "the server rejected our request due to an error in our request"
        raise status.ApiError(422, "Invalid", text, {}) from None
    if not isinstance(result, dict):
        raise status.ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    return result


def _apply(target: Any, operations: list[Any]) -> Any:
    """A copy may double the object, so that twenty of them are a million times its size: they are counted first."""
    copied = 0
    for operation in operations:
        if isinstance(operation, dict) and operation.get("op") == "copy":
            copied += len(msgspec.json.encode(jsonpointer.resolve_pointer(target, operation["from"])))
            if copied > _MOST_COPIED_BYTES:
                raise _TooMuchCopiedError
        target = jsonpatch.apply_patch(target, [operation], in_place=True)
    return target


def decode_merge(body: bytes, *, prefix: str = "error decoding patch: ") -> Object:
    decoded = _decode(body, prefix)
    if not isinstance(decoded, dict):
        word = {list: "array", str: "string", bool: "bool"}.get(type(decoded), "number")
        text = f"json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
        raise status.bad_request(prefix + text)
    return decoded


def _decode(body: bytes, prefix: str = "error decoding patch: ") -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        text = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise status.bad_request(prefix + text) from None
