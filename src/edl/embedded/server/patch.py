"""JSON Patch and JSON Merge Patch, as pure functions from an object and a patch to a new object."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from edl.embedded.server import status
from edl.embedded.server.call import Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_MOST_OPERATIONS = 10_000


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
    """RFC 6902. Kubernetes does not say which operation failed, and neither do we in what clients may compare."""
    operations = _decode(body)
    if not isinstance(operations, list):
        word = "object" if isinstance(operations, dict) else "string"
        text = f"error decoding patch: json: cannot unmarshal {word} into Go value of type []handlers.jsonPatchOp"
        raise status.bad_request(text)
    if len(operations) > _MOST_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise status.ApiError(413, "RequestEntityTooLarge", text)
    try:
        result = jsonpatch.apply_patch(copy.deepcopy(target), operations)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
    ):
        text = "the server rejected our request due to an error in our request"
        raise status.ApiError(422, "Invalid", text, {}) from None
    if not isinstance(result, dict):
        raise status.ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    return result


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
