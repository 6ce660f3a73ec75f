"""The three patch formats of Kubernetes, as pure functions from an object and a patch to a new object."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec

from edl.embedded.server import status
from edl.embedded.server.call import Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


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
    try:
        operations = msgspec.json.decode(body)
        if not isinstance(operations, list):
            raise status.bad_request(
                "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
            )
        result: Object = jsonpatch.apply_patch(copy.deepcopy(target), operations)
    except msgspec.DecodeError as error:
        raise status.bad_request(f"error decoding patch: {error}") from None
    except jsonpatch.JsonPatchTestFailed as error:
        raise status.ApiError(
            422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
        ) from None
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
        raise status.ApiError(
            422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
        ) from None
    return result


def decode_merge(body: bytes) -> Object:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise status.bad_request(f"error decoding patch: {error}") from None
    if not isinstance(decoded, dict):
        raise status.bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return decoded
