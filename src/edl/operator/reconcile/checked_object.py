"""Reads an object of ours as it came from the API server into a typed, checked and defaulted one."""

from typing import Any

import msgspec

from edl.jobs.admission import Checked, check
from edl.operator.resources import RawJob


def check_raw(raw: RawJob) -> Checked:
    return check(whole(raw))


def whole(raw: RawJob) -> dict[str, Any]:
    """As the API server gave it."""
    parts = {
        "apiVersion": raw.api_version,
        "kind": raw.kind,
        "metadata": msgspec.to_builtins(raw.metadata),
        "spec": raw.spec,
        "status": raw.status,
    }
    return {name: value for name, value in parts.items() if value is not None}


def status_of(kind: type[Any], raw: RawJob) -> Any:
    """A status that a hand has spoilt is no status: everything in it is found out anew."""
    try:
        return msgspec.convert(raw.status or {}, kind)
    except msgspec.ValidationError:
        return kind()
