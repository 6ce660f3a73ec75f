"""Label and field selectors of a list or watch: parsed once per request, then asked of each entry.

Labels follow `edl.api.kubernetes.selectors`; here are the API server's messages, and the fields that each resource
lets a client select by.
"""

import re
from functools import lru_cache
from typing import Any

import msgspec

from edl.api.kubernetes import selector_text
from edl.api.kubernetes.selectors import value_matches
from edl.embedded.server import names, status
from edl.embedded.server.registry import Resource
from edl.embedded.server.storage.revisions import Entry

Requirement = tuple[str, str, frozenset[str]]
"""Key, operator and values: a set, because a client may name thousands."""

_META = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "/pods": (
        "spec.nodeName",
        "spec.host",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "/events": (
        *(
            f"involvedObject.{part}"
            for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        ),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "/nodes": ("spec.unschedulable",),
    "/namespaces": ("status.phase",),
    "/secrets": ("type",),
    "/services": ("spec.clusterIP", "spec.type"),
    "apps/replicasets": ("status.replicas",),
    "batch/jobs": ("status.successful",),
}
_BOOLEAN = frozenset({"spec.hostNetwork", "spec.unschedulable"})
_COUNT = frozenset({"status.replicas", "status.successful"})
_RENAMED = {
    "status.successful": "status.succeeded",
    "reportingComponent": "reportingComponent",
    "source": "source.component",
}


class _Metadata(msgspec.Struct, gc=False):
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct, gc=False):
    metadata: _Metadata


_decode_labels = msgspec.json.Decoder(_Labelled).decode


class Selector(msgspec.Struct, frozen=True, gc=False):
    """Selects entries of a list or watch."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    @property
    def name(self) -> str:
        """The one name that can match, when the fields fix it: then a lookup replaces the scan."""
        return next((wanted for path, wanted, equal in self.fields if equal and path == "metadata.name"), "")

    def matches(self, entry: Entry) -> bool:
        if self.labels:
            labels = _decode_labels(entry.body).metadata.labels
            for key, operator, values in self.labels:
                if not value_matches(labels.get(key), operator, values):
                    return False
        return not self.fields or self._fields_match(entry)

    def _fields_match(self, entry: Entry) -> bool:
        decoded = None
        for path, wanted, equal in self.fields:
            if path == "metadata.name":
                actual = entry.name
            elif path == "metadata.namespace":
                actual = entry.namespace
            else:
                decoded = decoded or msgspec.json.decode(entry.body)
                actual = _field(decoded, path)
            if (actual == wanted) is not equal:
                return False
        return True


EVERYTHING = Selector()


def parse(resource: Resource, labels: str, fields: str) -> Selector:
    if not labels and not fields:
        return EVERYTHING
    return Selector(_parse_labels(labels), _parse_fields(resource, fields))


@lru_cache(maxsize=256)
def _parse_labels(text: str) -> tuple[Requirement, ...]:
    try:
        found = selector_text.parse(text, key_problem=_key_problem, value_problem=_value_problem)
    except selector_text.SelectorError as error:
        raise status.bad_request(str(error)) from None
    return tuple((one.key, one.operator, frozenset(one.values)) for one in found)


def _key_problem(key: str) -> str | None:
    if key.count("/") > 1:
        return names.QUALIFIED_RULE
    return next(iter(names.label_key_problems(key)), None)


def _value_problem(value: str) -> str | None:
    return next(iter(names.label_value_problems(value)), None)


def _parse_fields(resource: Resource, text: str) -> tuple[tuple[str, str, bool], ...]:
    terms: list[tuple[str, str, bool]] = []
    for term in filter(None, re.split(r"(?<!\\),", text)):
        match = re.match(r"(.*?)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if match is None:
            raise status.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = match.groups()
        _check_supported(resource, path)
        terms.append((path, re.sub(r"\\([\\,=])", r"\1", value), operator != "!="))
    return tuple(terms)


def supported_fields(resource: Resource) -> tuple[str, ...]:
    if resource.custom is not None:
        return (*_META, *resource.custom.selectable_fields)
    return (*_META, *_FIELDS.get(resource.storage, ()))


def _check_supported(resource: Resource, path: str) -> None:
    if path in supported_fields(resource) and (resource.namespaced or path != "metadata.namespace"):
        return
    if resource.storage in _FIELDS or resource.custom is not None:
        raise status.bad_request(f"field label not supported: {path}")
    raise status.bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def _field(body: dict[str, Any], path: str) -> str:
    value: Any = body
    for part in _RENAMED.get(path, path).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "reportingComponent" and not value:
        value = body.get("source", {}).get("component")
    if value is None:
        return "false" if path in _BOOLEAN else "0" if path in _COUNT else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
