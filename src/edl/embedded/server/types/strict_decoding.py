"""Normalizes a parsed object by its resource's type, and reports fields that are unknown or named twice.

`fieldValidation` selects how: Strict refuses, Warn (the default) warns, Ignore is silent. The document as it was
written is needed only for a problem, so it comes as a function.
"""

from collections.abc import Callable

import msgspec

from edl.embedded.server import causes, status
from edl.embedded.server.registry import Resource
from edl.embedded.server.types import field_problems
from edl.embedded.server.types.model import builtin_types
from edl.embedded.server.types.normalize import Findings, MismatchError, normalizer
from edl.embedded.server.verbs.call import Call, Object

Document = Callable[[], bytes]

_MODES = ("", "Ignore", "Strict", "Warn")
_METADATA = builtin_types()["meta.ObjectMeta"]


def normalize(
    call: Call, obj: Object, document: Document, *, patched: Object | None = None, repeats: bool = False
) -> None:
    """Normalizes the object in place. `patched` is the normalized object that a patch was applied to; `repeats`: some
    field may be named twice in the document.
    """
    mode = _mode(call)
    kind, api_version = obj.pop("kind"), obj.pop("apiVersion")
    try:
        found = _normalize(call.resource, obj, document, patched)
    except MismatchError as mismatch:
        raise _mismatch(call.resource, document, mismatch, patched is not None) from None
    obj["kind"], obj["apiVersion"] = kind, api_version
    if mode == "Ignore":
        return
    if repeats and not found:
        found = [
            text for text in field_problems.problems(document(), call.resource.type) if text.startswith("duplicate")
        ]
    if found:
        _report(call, mode, found, document if patched is not None else None)


def _normalize(resource: Resource, obj: Object, document: Document, patched: Object | None) -> list[str]:
    if resource.custom is not None:
        return _normalize_custom(resource, obj)
    findings = Findings()
    normalizer(resource.type)(obj, findings, patched)
    if not findings.unknown:
        return []
    written = document()
    return field_problems.problems(written, resource.type) if written[:1] == b"{" else ["unknown field"]


def _normalize_custom(resource: Resource, obj: Object) -> list[str]:
    meta = obj.setdefault("metadata", {})
    unknown = set(meta) - set(_METADATA.fields) if isinstance(meta, dict) else set()
    normalizer(_METADATA)(meta, Findings())
    dropped = [f"metadata.{name}" for name in unknown] + resource.custom.prune(obj)
    return [f'unknown field "{path}"' for path in sorted(dropped)]


def may_repeat(document: bytes, obj: Object) -> bool:
    """Whether some field may be named twice: then the decoded object has fewer keys than the document. Cheap; errs only
    on the side of true (spaces before a colon).
    """
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


def _report(call: Call, mode: str, found: list[str], patched: Document | None) -> None:
    if mode != "Strict":
        call.warnings.extend(found)
        return
    kind, version, text = call.resource.kind, call.resource.version, f"strict decoding error: {', '.join(found)}"
    if patched is not None:
        raise status.invalid("", "", "", [causes.invalid("patch", patched().decode(), text)])
    raise status.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {text}')
