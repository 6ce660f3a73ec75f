"""Custom resources: schema, printer columns, subresources and validation of one version of a definition."""

from collections.abc import Callable
from typing import Any

from edl.embedded.server import causes
from edl.embedded.server.crds import schema, schema_validation
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.registry import Resource, Subresource, resource
from edl.embedded.server.status import Cause
from edl.embedded.server.types.model import Struct
from edl.embedded.server.verbs.call import Object

CustomAdmission = Callable[[str, str, Object, Object | None], list[Cause]]
"""(group, kind, new, old) to causes: how the owner of some kinds adds rules of its own (`edl.api` does for EDL's)."""


def admit_all(_group: str, _kind: str, _new: Object, _old: Object | None) -> list[Cause]:
    return []


class CustomVersion:
    """One served version. `strategy` plugs it into the common write path."""

    def __init__(self, definition: Object, version: Object, admission: CustomAdmission) -> None:
        spec = definition["spec"]
        self._group, self._kind_name = spec["group"], spec["names"]["kind"]
        self._admission = admission
        self.schema: schema.Schema = (version.get("schema") or {}).get("openAPIV3Schema") or {schema.PRESERVE: True}
        self.list_kind: str = spec["names"].get("listKind") or f"{self._kind_name}List"
        self.columns: list[Object] = version.get("additionalPrinterColumns") or []
        self.selectable_fields = tuple(entry["jsonPath"].lstrip(".") for entry in version.get("selectableFields") or ())
        subresources = version.get("subresources") or {}
        self.has_status = "status" in subresources
        self.scale: Object | None = subresources.get("scale")
        shape = schema.to_type({"type": "object", **self.schema}, root=True)
        assert isinstance(shape, Struct)
        shape.name = f"{self._group}.{self._kind_name}"
        self.type = shape
        self.strategy = Strategy(
            default=lambda obj: schema.fill_defaults(obj, self.schema),
            prepare_create=self._prepare_create,
            validate=lambda obj: self._validate(obj, None),
            validate_update=self._validate,
            validate_status=self._validate_status,
            generation=True,
            has_status=self.has_status,
            unconditional=False,
        )

    def prune(self, obj: Object) -> list[str]:
        return list(schema.prune(obj, self.schema))

    def _prepare_create(self, obj: Object) -> None:
        if self.has_status:
            obj.pop("status", None)

    def _validate_status(self, obj: Object) -> list[Cause]:
        shape = (self.schema.get("properties") or {}).get("status")
        if shape is None or "status" not in obj:
            return []
        inner = schema_validation.check(obj["status"], shape)
        found = [Cause(cause.reason, cause.message, f"status.{cause.field}") for cause in inner]
        return found + (self._check_count(obj, self.scale["statusReplicasPath"]) if self.scale is not None else [])

    def _validate(self, obj: Object, old: Object | None) -> list[Cause]:
        found = [*schema_validation.check(obj, self.schema), *self._check_scale(obj)]
        return found or self._admission(self._group, self._kind_name, obj, old)

    def _check_scale(self, obj: Object) -> list[Cause]:
        return self._check_count(obj, self.scale["specReplicasPath"]) if self.scale is not None else []

    def _check_count(self, obj: Object, path: str) -> list[Cause]:
        """The paths of the scale subresource must hold integers, whatever the schema says."""
        value: Any = obj
        for name in path.strip(".").split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return []
        if isinstance(value, int) and not isinstance(value, bool):
            return [causes.invalid(path, value, "should be a non-negative integer")] if value < 0 else []
        go = {str: "string", float: "float64", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
        text = f"{path} accessor error: {value} is of the type {go[type(value)]}, expected int64"
        return [causes.invalid(path, 0, text)]


_GET_WRITE = ("get", "patch", "update")


def resources_of(definition: Object, admission: CustomAdmission = admit_all) -> list[Resource]:
    """The resources that a definition adds to the registry, one per served version, preferred versions first."""
    spec = definition["spec"]
    served = [version for version in spec["versions"] if version.get("served")]
    return [
        _resource(definition, version, admission)
        for version in sorted(served, key=lambda v: version_priority(v["name"]))
    ]


def _resource(definition: Object, version: Object, admission: CustomAdmission) -> Resource:
    spec, custom = definition["spec"], CustomVersion(definition, version, admission)
    names = spec["names"]
    subresources = []
    if custom.has_status:
        subresources.append(Subresource("status", names["kind"], _GET_WRITE))
    if custom.scale is not None:
        subresources.append(Subresource("scale", "Scale", _GET_WRITE, "autoscaling", "v1"))
    return resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
        subresources=tuple(subresources),
        custom=custom,
        type=custom.type,
    )


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: stable before beta before alpha, newer first, the rest by name."""
    digits, stage, number = "", "", ""
    if version.startswith("v"):
        rest = version[1:]
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        stage = rest[len(digits) :].rstrip("0123456789")
        number = rest[len(digits) + len(stage) :]
    if not digits or stage not in ("", "beta", "alpha"):
        return (3, 0, 0, version)
    return (("", "beta", "alpha").index(stage), -int(digits), -int(number or 0), version)
