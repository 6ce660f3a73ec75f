"""OpenAPI v3 documents, enough for `kubectl explain`, kubectl's validation and typed clients.

The schemas of built-in kinds come from the type table, those of custom resources from their definitions.
"""

import hashlib
from typing import Any

from edl.api.kubernetes.version import NEWEST
from edl.embedded.server.core import encode
from edl.embedded.server.http.descriptions import describe
from edl.embedded.server.registry import Registry, Resource
from edl.embedded.server.types.model import Field, ListOf, MapOf, Scalar, Struct, Type, builtin_types, walk
from edl.embedded.server.verbs.call import Response

_PREFIX = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
}
_SCALARS: dict[str, dict[str, Any]] = {
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "intorstring": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}
_METHODS = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_ACTIONS = {"get": "get", "list": "list", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}


def respond(registry: Registry, path: str, accept: str) -> Response | None:
    parts = path.strip("/").split("/")
    if parts == ["openapi", "v3"]:
        return Response(
            200, encode({"paths": {place: {"serverRelativeURL": _url(registry, place)} for place in _places(registry)}})
        )
    if parts[:2] == ["openapi", "v3"] and "/".join(parts[2:]) in _places(registry):
        group, version = _places(registry)["/".join(parts[2:])]
        return Response(200, encode(_document(registry, group, version)))
    return None


def _places(registry: Registry) -> dict[str, tuple[str, str]]:
    return {
        (f"apis/{group}/{version}" if group else f"api/{version}"): (group, version)
        for group, versions in registry.groups().items()
        for version in versions
    }


def _url(registry: Registry, place: str) -> str:
    seed = f"{NEWEST} {place} {registry.generation}".encode()
    return f"/openapi/v3/{place}?hash={hashlib.sha256(seed).hexdigest()[:32].upper()}"


def _document(registry: Registry, group: str, version: str) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for resource in registry.of_version(group, version):
        _add_schemas(resource, schemas)
        _add_paths(resource, paths)
    info = {"title": "Kubernetes", "version": NEWEST}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _model(struct: Struct) -> str:
    group, _, name = struct.name.rpartition(".")
    return f"{_PREFIX.get(group, f'io.k8s.api.{group}.v1')}.{name}"


def _root(resource: Resource) -> str:
    if resource.custom is None:
        return _model(resource.type)
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _add_schemas(resource: Resource, schemas: dict[str, Any]) -> None:
    for struct in walk(resource.type) if resource.custom is None else walk(builtin_types()["meta.ObjectMeta"]):
        if _model(struct) not in schemas:
            schemas[_model(struct)] = _struct(struct)
    root = schemas[_root(resource)] = {
        **(_custom(resource) if resource.custom is not None else schemas[_root(resource)])
    }
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    root["properties"] = {**head, **root.get("properties", {})}
    root["x-kubernetes-group-version-kind"] = [_kind(resource)]
    root.setdefault("description", describe(resource.kind))


def _kind(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _custom(resource: Resource) -> dict[str, Any]:
    schema = {**resource.custom.schema}
    meta = {
        "allOf": [{"$ref": f"#/components/schemas/{_PREFIX['meta']}.ObjectMeta"}],
        "description": describe("metadata"),
    }
    schema["properties"] = {**schema.get("properties", {}), "metadata": meta}
    return {"type": "object", **schema}


def _struct(struct: Struct) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _field(entry) for name, entry in struct.fields.items()},
    }
    required = [entry.name for entry in struct.fields.values() if entry.required]
    if required:
        schema["required"] = required
    if struct.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    text = describe(struct.short_name)
    return {"description": text, **schema} if text else schema


def _field(entry: Field) -> dict[str, Any]:
    schema = _shape(entry.type)
    if "$ref" in schema:
        schema = {"allOf": [schema], "default": {}}
    text = describe(entry.name)
    if text:
        schema["description"] = text
    if entry.strategy:
        schema["x-kubernetes-patch-strategy"] = entry.strategy
    if entry.merge_key:
        schema["x-kubernetes-patch-merge-key"] = entry.merge_key
    return schema


def _shape(kind: Type) -> dict[str, Any]:
    if isinstance(kind, Struct):
        return {"$ref": f"#/components/schemas/{_model(kind)}"}
    if isinstance(kind, ListOf):
        style = "map" if kind.keys else "set" if kind.is_set else "atomic"
        schema = {"type": "array", "items": _shape(kind.item), "x-kubernetes-list-type": style}
        return {**schema, "x-kubernetes-list-map-keys": list(kind.keys)} if kind.keys else schema
    if isinstance(kind, MapOf):
        schema = {"type": "object", "additionalProperties": _shape(kind.value)}
        return {**schema, "x-kubernetes-map-type": "atomic"} if kind.atomic else schema
    if isinstance(kind, Scalar):
        if kind.values:
            return {"type": "string", "enum": list(kind.values)}
        return {**_SCALARS.get(kind.name, {"type": "string"})}
    return {"type": "object"}


def _add_paths(resource: Resource, paths: dict[str, Any]) -> None:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    many, one = f"{scope}/{resource.plural}", f"{scope}/{resource.plural}/{{name}}"
    paths[many] = {_METHODS[verb]: _operation(resource, verb) for verb in ("list", "create") if verb in resource.verbs}
    named = {
        _METHODS[verb]: _operation(resource, verb)
        for verb in ("get", "update", "patch", "delete")
        if verb in resource.verbs
    }
    if named:
        paths[one] = named


def _operation(resource: Resource, verb: str) -> dict[str, Any]:
    names = ["pretty"] + (
        ["dryRun", "fieldManager", "fieldValidation"] if verb in ("create", "update", "patch") else []
    )
    parameters = [{"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in names]
    reference = {"$ref": f"#/components/schemas/{_root(resource)}"}
    operation: dict[str, Any] = {
        "operationId": f"{verb}{resource.group.partition('.')[0].title()}{resource.version.title()}{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": _ACTIONS[verb],
        "x-kubernetes-group-version-kind": _kind(resource),
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"content": {"*/*": {"schema": reference}}, "required": True}
    elif verb == "patch":
        types = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
        operation["requestBody"] = {"content": {media: {"schema": {"type": "object"}} for media in types}}
    return operation
