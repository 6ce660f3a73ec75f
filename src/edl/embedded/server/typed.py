"""A parsed object takes its resource's type, and the client hears about fields that are unknown or named twice.

`fieldValidation` says how: Strict refuses, Warn (the default) warns, Ignore is silent. The document as it was written
is needed only when something is wrong with it, so it comes as a function.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from edl.embedded.server import causes, fields, status
from edl.embedded.server.call import Call, Object
from edl.embedded.server.registry import Resource
from edl.embedded.server.settle import MismatchError, Outcome, settler
from edl.embedded.server.types import builtin_types

Document = Callable[[], bytes]

_MODES = ("", "Ignore", "Strict", "Warn")
_METADATA = builtin_types()["meta.ObjectMeta"]


def settle(
    call: Call, obj: Object, document: Document, *, patched: Object | None = None, repeats: bool = False
) -> None:
    """Give the object its type's form. `patched` is the settled object that a patch was applied to; `repeats` says that
    some field may be named twice in the document."""
    mode = _mode(call)
    kind, api_version = obj.pop("kind"), obj.pop("apiVersion")
    try:
        found = _settle(call.resource, obj, document, patched)
    except MismatchError as mismatch:
        raise _mismatch(call.resource, document, mismatch, patched is not None) from None
    obj["kind"], obj["apiVersion"] = kind, api_version
    if mode == "Ignore":
        return
    if repeats and not found:
        found = [text for text in fields.problems(document(), call.resource.type) if text.startswith("duplicate")]
    if found:
        _complain(call, mode, found, document if patched is not None else None)


def _settle(resource: Resource, obj: Object, document: Document, patched: Object | None) -> list[str]:
    if resource.custom is not None:
        return _settle_custom(resource, obj)
    outcome = Outcome()
    settler(resource.type)(obj, outcome, patched)
    if not outcome.unknown:
        return []
    written = document()
    return fields.problems(written, resource.type) if written[:1] == b"{" else ["unknown field"]


def _settle_custom(resource: Resource, obj: Object) -> list[str]:
    meta = obj.setdefault("metadata", {})
    unknown = set(meta) - set(_METADATA.fields) if isinstance(meta, dict) else set()
    settler(_METADATA)(meta, Outcome())
    dropped = [f"metadata.{name}" for name in unknown] + resource.custom.prune(obj)
    return [f'unknown field "{path}"' for path in sorted(dropped)]


def may_repeat(document: bytes, obj: Object) -> bool:
    """Whether some field may be named twice: then the decoded object has fewer keys than the document. Cheap, and wrong
    only towards caution (spaces before a colon)."""
    return document[:1] == b"{" and document.count(b'":') != msgspec.json.encode(obj).count(b'":')


def _mismatch(resource: Resource, document: Document, mismatch: MismatchError, patched: bool) -> status.ApiError:
    if patched:
        return status.invalid("", "", "", [causes.invalid("patch", document().decode(), str(mismatch))])
    text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {mismatch}'
    return status.bad_request(text)


def _mode(call: Call) -> str:
    mode = call.query.get("fieldValidation")
    if mode not in _MODES:
        listed = ", ".join(f'"{name}"' for name in _MODES)
        text = f'Unsupported value: "{mode}": supported values: {listed}'
        cause = status.Cause("FieldValueNotSupported", text, "fieldValidation")
        raise status.invalid("meta.k8s.io", "CreateOptions" if call.method == "POST" else "UpdateOptions", "", [cause])
    return mode or "Warn"


def _complain(call: Call, mode: str, found: list[str], patched: Document | None) -> None:
    if mode != "Strict":
        call.warnings.extend(found)
        return
    kind, version, text = call.resource.kind, call.resource.version, f"strict decoding error: {', '.join(found)}"
    if patched is not None:
        raise status.invalid("", "", "", [causes.invalid("patch", patched().decode(), text)])
    raise status.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {text}')
