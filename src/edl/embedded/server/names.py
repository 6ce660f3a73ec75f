"""Names of objects: which are allowed, and how one is generated."""

from __future__ import annotations

import re
from random import Random

from edl.embedded.server.remembering import remembered
from edl.embedded.server.status import Cause

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, as Kubernetes does
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character "
    "(e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character "
    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character "
    "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LABELS = frozenset({"/namespaces", "/services"})
_PATH_NAMED = "rbac.authorization.k8s.io/"


def generate(prefix: str, dice: Random) -> str:
    return prefix[:58] + "".join(dice.choices(_ALPHABET, k=5))


def check(storage: str, name: str, field: str = "metadata.name") -> list[Cause]:
    return [
        Cause("FieldValueInvalid", f'Invalid value: "{name}": {problem}', field) for problem in problems(storage, name)
    ]


def problems(storage: str, name: str) -> list[str]:
    if storage.startswith(_PATH_NAMED):
        return path_problems(name)
    if storage not in _LABELS:
        return subdomain_problems(name)
    if "." in name:
        return ["must not contain dots"]
    return [problem.replace("63 bytes", "63 characters") for problem in label_problems(name)]


@remembered
def subdomain_problems(name: str) -> list[str]:
    found = ["must be no more than 253 bytes"] if len(name) > 253 else []
    return found if _SUBDOMAIN.match(name) else [*found, SUBDOMAIN_RULE]


@remembered
def label_problems(name: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(name) > 63 else []
    return found if _LABEL.match(name) else [*found, LABEL_RULE]


def label_1035_problems(name: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(name) > 63 else []
    return found if _LABEL_1035.match(name) else [*found, LABEL_1035_RULE]


def path_problems(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_NAME_PART_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


QUALIFIED_RULE = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyName')"
)


@remembered
def label_key_problems(key: str) -> list[str]:
    """A qualified name: an optional DNS prefix, a slash, and a name of at most 63 characters."""
    prefix, slash, name = key.rpartition("/")
    found: list[str] = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {problem}" for problem in subdomain_problems(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _NAME_PART.match(name):
        found.append(_NAME_PART_RULE)
    return found


@remembered
def label_value_problems(value: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(value) > 63 else []
    return found if _VALUE.match(value) else [*found, _VALUE_RULE]
