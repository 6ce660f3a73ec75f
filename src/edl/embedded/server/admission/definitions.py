"""CustomResourceDefinitions: defaults, validation, and registration of the resources that they define."""

import re
from collections.abc import Iterator

from edl.embedded.server import causes, names, status
from edl.embedded.server.core import Core, decode
from edl.embedded.server.crds.custom import resources_of
from edl.embedded.server.status import Cause
from edl.embedded.server.tables import jsonpath
from edl.embedded.server.verbs.call import Call, Object

STORAGE = "apiextensions.k8s.io/customresourcedefinitions"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_VERSION = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")


def set_defaults(core: Core, definition: Object, old: Object | None) -> None:
    spec = definition["spec"]
    kind_names = spec["names"]
    if kind_names.get("kind"):
        kind_names.setdefault("singular", kind_names["kind"].lower())
        kind_names.setdefault("listKind", f"{kind_names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    if old is None:
        definition["metadata"]["finalizers"] = [*(definition["metadata"].get("finalizers") or []), CLEANUP]
        definition["status"] = _accepted(core, definition)
    else:
        stored = list(old["status"].get("storedVersions") or [])
        storage = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
        definition["status"] = {**definition["status"], "storedVersions": [*dict.fromkeys([*stored, *storage])]}
        definition["status"]["acceptedNames"] = dict(kind_names)


def _accepted(core: Core, definition: Object) -> Object:
    spec, now = definition["spec"], core.now()

    def condition(kind: str, reason: str, message: str) -> Object:
        return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}

    storage = [version.get("name") for version in spec.get("versions") or () if version.get("storage")]
    return {
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": dict(spec["names"]),
        "storedVersions": storage,
    }


def check(core: Core, call: Call, definition: Object, old: Object | None) -> None:
    found = [*_check(definition), *(_check_change(definition, old) if old is not None else ())]
    if found:
        resource = call.resource
        raise status.invalid(resource.group, resource.kind, definition["metadata"].get("name", ""), found)
    _check_names(core, definition)


def _check(definition: Object) -> Iterator[Cause]:
    spec = definition["spec"]
    kind_names, group = spec["names"], spec.get("group", "")
    wanted = f"{kind_names.get('plural', '')}.{group}"
    if definition["metadata"].get("name", "") != wanted:
        detail = 'must be spec.names.plural+"."+spec.group'
        yield causes.invalid("metadata.name", definition["metadata"].get("name", ""), detail)
    if not group:
        yield causes.required("spec.group")
    elif "." not in group:
        yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield causes.required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield causes.unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    yield from _check_versions(spec)
    for field in ("plural", "kind"):
        if not kind_names.get(field):
            yield causes.required(f"spec.names.{field}")
    for problem in names.label_1035_problems(kind_names.get("plural", "")) if kind_names.get("plural") else ():
        yield causes.invalid("spec.names.plural", kind_names["plural"], problem)


def _check_versions(spec: Object) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    storing = [version for version in versions if version.get("storage")]
    seen: set[str] = set()
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        name = version.get("name", "")
        if not _VERSION.match(name):
            yield causes.invalid(f"{at}.name", name, names.LABEL_1035_RULE)
        if name in seen:
            yield causes.invalid(
                "spec.versions", [entry.get("name") for entry in versions], "must contain unique version names"
            )
        seen.add(name)
        shape = (version.get("schema") or {}).get("openAPIV3Schema")
        if shape is None:
            yield causes.required(f"{at}.schema.openAPIV3Schema")
        else:
            yield from _check_schema(shape, f"{at}.schema.openAPIV3Schema", root=True)
        yield from _check_columns(version, at)
    if not versions:
        yield causes.invalid("status.storedVersions", None, "must have at least one stored version")
    if len(storing) != 1:
        shown = [version.get("name") for version in versions]
        yield causes.invalid("spec.versions", shown, "must have exactly one version marked as storage version")


def _check_schema(shape: Object, at: str, *, root: bool = False) -> Iterator[Cause]:
    if root and shape.get("type") != "object":
        yield (
            causes.invalid(f"{at}.type", shape.get("type", ""), "must be object at the root")
            if shape.get("type")
            else causes.required(f"{at}.type", "must not be empty at the root")
        )
    elif not shape.get("type") and not any(
        key in shape for key in ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    ):
        yield causes.required(
            f"{at}.type",
            "must not be empty for specified object fields"
            if ".properties[" in at
            else "must not be empty for specified array items",
        )
    for name, inner in (shape.get("properties") or {}).items():
        if not (root and name in ("metadata", "apiVersion", "kind")):
            yield from _check_schema(inner, f"{at}.properties[{name}]")
    if isinstance(shape.get("items"), dict):
        yield from _check_schema(shape["items"], f"{at}.items")
    if isinstance(shape.get("additionalProperties"), dict):
        yield from _check_schema(shape["additionalProperties"], f"{at}.additionalProperties")


def _check_columns(version: Object, at: str) -> Iterator[Cause]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        try:
            jsonpath.compile_path(column.get("jsonPath", ""))
        except jsonpath.JsonPathError as error:
            yield causes.invalid(
                f"{at}.additionalPrinterColumns[{index}].jsonPath", column.get("jsonPath", ""), str(error)
            )


def _check_change(new: Object, old: Object) -> Iterator[Cause]:
    for field in ("group", "scope"):
        if new["spec"].get(field) != old["spec"].get(field):
            yield causes.immutable(f"spec.{field}", new["spec"].get(field))
    for field in ("plural", "kind"):
        if new["spec"]["names"].get(field) != old["spec"]["names"].get(field):
            yield causes.immutable(f"spec.names.{field}", new["spec"]["names"].get(field))


def _check_names(core: Core, definition: Object) -> None:
    """Two definitions of one group may not claim one kind; in Kubernetes the second is never established."""
    spec, ours = definition["spec"], definition["spec"]["names"]
    taken = any(
        resource.group == spec["group"] and resource.plural != ours["plural"] and resource.kind == ours["kind"]
        for resource in core.registry
        if resource.custom is not None
    )
    if taken:
        refusals = {
            "NamesAccepted": {"reason": "KindConflict", "message": f'"{ours["kind"]}" is already in use'},
            "Established": {"reason": "NotAccepted", "message": "not all names are accepted"},
        }
        for condition in definition["status"]["conditions"]:
            condition |= {"status": "False", **refusals[condition["type"]]}


def publish(core: Core, new: Object | None, old: Object | None) -> None:
    """Updates the registry to what the definition says now."""
    if old is not None:
        core.registry.remove(old["spec"]["group"], old["spec"]["names"]["plural"])
    if new is None:
        return
    conditions = (new.get("status") or {}).get("conditions") or ()
    established = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
    if established:
        for resource in resources_of(new, core.custom_admission):
            core.registry.add(resource)


def publish_all(core: Core) -> None:
    """Registers every definition of the store, after a restart."""
    for entry in core.store.entries(STORAGE):
        publish(core, decode(entry.body), None)
