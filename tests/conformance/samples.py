"""Small objects that the cases start from."""

from typing import Any

Object = dict[str, Any]


def made(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def container(name: str = "c", **fields: Any) -> Object:
    return {"name": name, "image": "busybox:1", **fields}


def pod(name: str = "p", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    spec.setdefault("containers", [container()])
    result = made("Pod", name, spec=spec)
    if labels:
        result["metadata"]["labels"] = labels
    return result


def config(name: str = "m", labels: dict[str, str] | None = None, **data: str) -> Object:
    result = made("ConfigMap", name, data=data)
    if labels:
        result["metadata"]["labels"] = labels
    return result


def template(**spec: Any) -> Object:
    spec.setdefault("containers", [container()])
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec}


def workload(kind: str, name: str = "w", **spec: Any) -> Object:
    base: Object = {"selector": {"matchLabels": {"app": "a"}}, "template": template()}
    if kind == "StatefulSet":
        base["serviceName"] = "s"
    return made(kind, name, "apps/v1", spec={**base, **spec})


def job(name: str = "j", **spec: Any) -> Object:
    return made(
        "Job",
        name,
        "batch/v1",
        spec={"template": {"spec": {"containers": [container()], "restartPolicy": "Never"}}, **spec},
    )


def service(name: str = "s", **spec: Any) -> Object:
    return made("Service", name, spec={"selector": {"app": "a"}, "ports": [{"port": 80}], **spec})


_SPEC_SCHEMA = {
    "type": "object",
    "required": ["replicas"],
    "properties": {
        "replicas": {"type": "integer", "minimum": 1, "maximum": 5},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "title": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "keyed": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {
                    "k": {"type": "string"},
                    "v": {"type": "integer"},
                    "d": {"type": "string", "default": "x"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "either": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "maybe": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "one": {
            "type": "object",
            "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
        },
        "nested": {"type": "object", "properties": {"deep": {"type": "string", "default": "down"}}},
    },
}
_STATUS_SCHEMA = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string"}},
}


def definition(group: str, plural: str = "gadgets", kind: str = "Gadget", **version: Any) -> Object:
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": _SPEC_SCHEMA, "status": _STATUS_SCHEMA}}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    first = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        **version,
    }
    names = {"plural": plural, "kind": kind, "shortNames": [f"g{plural[:2]}"]}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [first]}
    return made("CustomResourceDefinition", f"{plural}.{group}", "apiextensions.k8s.io/v1", spec=spec)


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "conformance.edl.dev"


def gadget(name: str = "g", **spec: Any) -> Object:
    spec.setdefault("replicas", 1)
    return made("Gadget", name, f"{GADGETS}/v1", spec=spec)
