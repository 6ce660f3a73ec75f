"""Label and field selectors: parsed once per request, then a test of the few values of an object that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from edl.embedded.server import names, status
from edl.embedded.server.registry import Resource
from edl.embedded.server.revisions import Entry

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_SPECIAL = frozenset("=!<>(),") | {"==", "!="}

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


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or watch keeps."""

    labels: tuple[Test, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    @property
    def name(self) -> str:
        """The one name that can match, when the fields pin it: a lookup then replaces a scan."""
        return next((wanted for path, wanted, equal in self.fields if equal and path == "metadata.name"), "")

    def matches(self, entry: Entry) -> bool:
        if self.labels:
            labels = _decode_labels(entry.body).metadata.labels
            if not all(test(labels) for test in self.labels):
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
    return Selector(parse_labels(labels), _parse_fields(resource, fields))


@lru_cache(maxsize=256)
def parse_labels(text: str) -> tuple[Test, ...]:
    tokens = [match.group(1) for match in _TOKEN.finditer(text)]
    tests: list[Test] = []
    position = 0
    while position < len(tokens):
        if tokens[position] != "!" and tokens[position] in _SPECIAL:
            raise status.bad_request(f"found '{tokens[position]}', expected: !, identifier, or 'end of string'")
        test, position = _requirement(tokens, position)
        tests.append(test)
        if position < len(tokens):
            position = _after_comma(tokens, position)
    return tuple(tests)


def _after_comma(tokens: list[str], at: int) -> int:
    if tokens[at] != ",":
        raise status.bad_request(f"found '{tokens[at]}', expected: ',' or 'end of string'")
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if not following or (following != "!" and following in _SPECIAL):
        raise status.bad_request(f"found '{following}', expected: identifier after ','")
    return at + 1


def _requirement(tokens: list[str], at: int) -> tuple[Test, int]:
    if tokens[at] == "!":
        key = _key(tokens, at + 1)
        return (lambda labels: key not in labels), at + 2
    key = _key(tokens, at)
    at += 1
    operator = tokens[at] if at < len(tokens) else ","
    if operator == ",":
        return (lambda labels: key in labels), at
    if operator in ("in", "notin"):
        values, at = _set(tokens, at + 1)
        if operator == "in":
            return (lambda labels: labels.get(key) in values), at
        return (lambda labels: labels.get(key) not in values), at
    if operator not in ("=", "==", "!=", ">", "<"):
        raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    value, at = _value(tokens, at + 1, key)
    return _comparison(key, operator, value), at


def _comparison(key: str, operator: str, value: str) -> Test:
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    if operator in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if not value.lstrip("-").isdigit():
        rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise _unparsable(f'values[0]: Invalid value: "{value}": {rule}')
    bound, greater = int(value), operator == ">"

    def compare(labels: Labels) -> bool:
        actual = labels.get(key, "")
        if not actual.lstrip("-").isdigit():
            return False
        return int(actual) > bound if greater else int(actual) < bound

    return compare


def _key(tokens: list[str], at: int) -> str:
    token = tokens[at] if at < len(tokens) else ""
    if not token or token in _SPECIAL:
        raise _unparsable(
            f"found '{token}', expected: !, identifier, or 'end of string'"
            if token
            else "found '', expected: identifier"
        )
    problems = names.label_key_problems(token) if token.count("/") < 2 else [names.QUALIFIED_RULE]
    if problems:
        raise _unparsable(f'<nil>: Invalid value: "{token}": {problems[0]}')
    return token


def _value(tokens: list[str], at: int, key: str) -> tuple[str, int]:
    if at >= len(tokens) or tokens[at] == ",":
        return "", at
    if tokens[at] in _SPECIAL:
        raise _unparsable(f"found '{tokens[at]}', expected: identifier")
    if not _NAME.match(tokens[at]):
        problem = names.label_value_problems(tokens[at])[0]
        raise _unparsable(f'values[0][{key}]: Invalid value: "{tokens[at]}": {problem}')
    return tokens[at], at + 1


def _set(tokens: list[str], at: int) -> tuple[frozenset[str], int]:
    if at >= len(tokens) or tokens[at] != "(":
        raise _unparsable(f"found '{tokens[at] if at < len(tokens) else ''}' expected: '('")
    values: list[str] = [""] if at + 1 < len(tokens) and tokens[at + 1] in (",", ")") else []
    at += 1
    while at < len(tokens) and tokens[at] != ")":
        if tokens[at] != ",":
            values.append(tokens[at])
        at += 1
    if at >= len(tokens):
        raise _unparsable("found '', expected: ',' or ')'")
    return frozenset(values), at + 1


def _unparsable(why: str) -> status.ApiError:
    return status.bad_request(f"unable to parse requirement: {why}")


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
