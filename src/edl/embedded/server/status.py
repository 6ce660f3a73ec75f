"""Errors as Kubernetes `Status` objects.

Codes, reasons, messages and `details` are those of kube-apiserver, because clients branch on them (`reason:
AlreadyExists`) and people read them.
"""

from collections.abc import Sequence
from typing import Any

import msgspec


class Cause(msgspec.Struct, frozen=True):
    """One violated rule: `field` is a path such as `spec.containers[0].name`."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        headers: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.metadata = metadata or {}

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    def body(self) -> bytes:
        return msgspec.json.encode(self.status())


def success(name: str, group: str, plural: str, uid: str) -> dict[str, Any]:
    details = _details(name, group, plural)
    if uid:
        details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}


def qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{qualified(group, plural)} "{name}" not found', _details(name, group, plural))


def no_such_resource() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    return ApiError(
        409, "AlreadyExists", f'{qualified(group, plural)} "{name}" already exists', _details(name, group, plural)
    )


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(name, group, plural))


def modified(group: str, plural: str, name: str) -> ApiError:
    return conflict(
        group,
        plural,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(name, group, kind)
    details["causes"] = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    qualified_kind = f"{kind}.{group}" if group else kind
    return ApiError(422, "Invalid", f'{qualified_kind} "{name}" is invalid: {joined}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    return ApiError(
        403, "Forbidden", f'{qualified(group, plural)} "{name}" is forbidden: {why}', _details(name, group, plural)
    )


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def expired(rv: int, oldest: int) -> ApiError:
    return ApiError(410, "Expired", f"too old resource version: {rv} ({oldest})")


def continue_expired(token: str) -> ApiError:
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the "
        "continue token in this response to retrieve the remainder of the results. Continuing with the "
        "provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned and now "
        "may show up in the list."
    )
    return ApiError(410, "Expired", message, metadata={"continue": token})


def too_large_version(rv: int, current: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(504, "Timeout", f"Timeout: Too large resource version: {rv}, current: {current}", details)


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(supported: Sequence[str]) -> ApiError:
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(supported)}")


def unsupported_media_type(supported: Sequence[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(supported)}"
    return ApiError(415, "UnsupportedMediaType", message)


def too_large() -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


def internal(message: str) -> ApiError:
    details = {"causes": [{"message": message}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", details)
