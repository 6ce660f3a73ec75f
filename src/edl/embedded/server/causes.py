"""Causes of an Invalid error with the messages of Kubernetes: `spec.x: Invalid value: 3: must be ...`."""

from collections.abc import Iterable
from typing import Any

import msgspec

from edl.embedded.server.status import Cause


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", field)


def immutable(field: str, value: Any) -> Cause:
    return invalid(field, value, "field is immutable")


def forbidden(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def not_found(field: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{name}"' for name in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field)


def shown(value: Any) -> str:
    """A value in a message: strings quoted, everything else as JSON."""
    return msgspec.json.encode(value).decode()
