"""The CustomResourceDefinitions of our kinds, made from their types. Nothing here is written by hand a second time."""

from typing import Any

from edl.api.schema.cel import JOB_NAME
from edl.api.schema.openapi import Schema, schema
from edl.api.schema.shape import shape_of
from edl.jobs.core.kind import Column, Kind
from edl.jobs.registry import KINDS

CATEGORY = "edl"


def crds() -> list[dict[str, Any]]:
    return [crd(kind) for kind in KINDS]


def crd(kind: Kind) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {"app.kubernetes.io/part-of": "edl"}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": [CATEGORY],
            },
            "versions": [_version(kind, name) for name in kind.versions],
        },
    }


def _version(kind: Kind, name: str) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale_paths:
        paths = {
            "specReplicasPath": kind.scale_paths.spec,
            "statusReplicasPath": kind.scale_paths.status,
            "labelSelectorPath": kind.scale_paths.selector,
        }
        subresources["scale"] = {key: path for key, path in paths.items() if path}
    return {
        "name": name,
        "served": True,
        "storage": name == kind.versions[0],
        "schema": {"openAPIV3Schema": _root(kind)},
        "subresources": subresources,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
    }


def _root(kind: Kind) -> Schema:
    made = schema(shape_of(kind.type))
    made["properties"] |= {
        "apiVersion": {"type": "string", "description": f"{' or '.join(kind.api_versions)}."},
        "kind": {"type": "string", "description": f"{kind.name}."},
        "metadata": {"type": "object"},
    }
    if kind.names_pods:
        made["x-kubernetes-validations"] = [JOB_NAME]
    return made


def _column(column: Column) -> dict[str, Any]:
    wide = {"priority": 1} if column.wide else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path, **wide}
