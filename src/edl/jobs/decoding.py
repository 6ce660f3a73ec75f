"""Decodes plain data into a typed object of any kind, and reports all that is wrong with its types and bounds.

Good input takes one call of msgspec; anything else is read again by `explain`.
"""

import itertools
from typing import Any

import msgspec

from edl.api.kubernetes.core import without_nulls
from edl.api.schema.explain import Explainer, describe
from edl.api.schema.nearest import nearest, suggestion
from edl.api.schema.problem import MAX_PROBLEMS, Path, Problem, warning
from edl.api.schema.shape import shape_of
from edl.jobs.core.kind import Kind
from edl.jobs.core.objects import EdlObject
from edl.jobs.registry import BY_API_VERSION, KINDS

META_FIELDS = frozenset(
    (
        "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink",
        "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
        "managedFields",
    )
)  # fmt: skip


class Decoded(msgspec.Struct, frozen=True):
    """`object` is there if nothing is wrong. `rest` is what the wrong parts leave, good only for more checks."""

    object: EdlObject | None
    problems: tuple[Problem, ...] = ()
    rest: EdlObject | None = None
    tainted: tuple[Path, ...] = ()


def decode(value: object) -> Decoded:
    """Never raises, whatever the value."""
    if not isinstance(value, dict):
        return _refused((), f"found {describe(value)}, wants an object with apiVersion and kind")
    kind = find_kind(value)
    if isinstance(kind, Problem):
        return Decoded(None, (kind,))
    try:
        return _decode_as(kind, value)
    except RecursionError:
        return _refused((), "is nested too deeply to be read")


def _refused(at: Path, message: str) -> Decoded:
    return Decoded(None, (Problem(at, message),))


def find_kind(value: dict[Any, Any]) -> Kind | Problem:
    """The kind that apiVersion and kind name, or what is wrong with them."""
    api_version, name = value.get("apiVersion"), value.get("kind")
    if isinstance(api_version, str) and isinstance(name, str) and (kind := BY_API_VERSION.get((api_version, name))):
        return kind
    names = {kind.name: kind for kind in KINDS}
    for field, found in (("kind", name), ("apiVersion", api_version)):
        if not isinstance(found, str) or not found:
            known = names if field == "kind" else dict(BY_API_VERSION)
            wanted = ", ".join(key if isinstance(key, str) else key[0] for key in known)
            return Problem((field,), "is required" if found is None else f"found {describe(found)}, wants {wanted}")
    versions = [version for version, kind_name in BY_API_VERSION if kind_name == name]
    if versions:
        return Problem(
            ("apiVersion",), f'"{str(api_version)[:80]}" has no {name}{suggestion(str(api_version), versions)}'
        )
    near = nearest(str(name), names)
    hint = f"; did you mean {near}?" if near else f"; EDL has {', '.join(names)}"
    return Problem(("kind",), f'"{str(name)[:80]}" of {str(api_version)[:80]} is none of EDL\'s kinds{hint}')


def _decode_as(kind: Kind, value: dict[str, Any]) -> Decoded:
    try:
        decoded = msgspec.convert(value, kind.type)
    except msgspec.ValidationError:
        return _explain(kind, value)
    metadata = value.get("metadata", {})
    named = metadata.get("name") or metadata.get("generateName")
    return Decoded(decoded, rest=decoded) if named and META_FIELDS.issuperset(metadata) else _explain(kind, value)


def _explain(kind: Kind, value: dict[str, Any]) -> Decoded:
    explained = Explainer(value, shape_of(kind.type))
    problems = [*explained.problems, *_metadata_problems(value.get("metadata"))]
    mended = explained.mended
    if any(problem.at[:1] == ("status",) for problem in problems):
        problems = [_forgiven(problem) for problem in problems]
        mended.pop("status", None)
    for part in ("metadata", "status"):
        if part in mended:
            mended[part] = without_nulls(mended[part])
    rest = msgspec.convert(mended, kind.type)
    wrong = any(problem.severity == "error" for problem in problems)
    return Decoded(None if wrong else rest, tuple(problems), rest, tuple(explained.tainted))


def _forgiven(problem: Problem) -> Problem:
    """Users do not write a status; a bad one must not keep the operator from its job."""
    if problem.at[:1] != ("status",):
        return problem
    return warning(problem.at, f"{problem.message}; the status is ignored")


def _metadata_problems(metadata: Any) -> list[Problem]:
    if not isinstance(metadata, dict):
        return [] if metadata is not None else [Problem(("metadata", "name"), "is required: the name of the job")]
    unknown = (str(name) for name in metadata if name not in META_FIELDS)
    problems = [
        Problem(("metadata", name), f"unknown field{suggestion(name, sorted(META_FIELDS))}")
        for name in itertools.islice(unknown, MAX_PROBLEMS)
    ]
    if not metadata.get("name") and not metadata.get("generateName"):
        problems.append(Problem(("metadata", "name"), "is required: the name of the object"))
    return problems
