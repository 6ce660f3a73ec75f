"""Validates names, label keys and label values with the API server's own messages, and generates names.

The grammar is that of `edl.api.kubernetes.names`.
"""

from random import Random

from edl.api.kubernetes.names import DNS_1035_LABEL, DNS_LABEL, DNS_SUBDOMAIN, LABEL_MAX, LABEL_TEXT, SUBDOMAIN_MAX
from edl.embedded.server.memoize import memoized
from edl.embedded.server.status import Cause

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, as Kubernetes does

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


def generate(prefix: str, random: Random) -> str:
    return prefix[:58] + "".join(random.choices(_ALPHABET, k=5))


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


@memoized
def subdomain_problems(name: str) -> list[str]:
    found = ["must be no more than 253 bytes"] if len(name) > SUBDOMAIN_MAX else []
    return found if DNS_SUBDOMAIN.fullmatch(name) else [*found, SUBDOMAIN_RULE]


@memoized
def label_problems(name: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(name) > LABEL_MAX else []
    return found if DNS_LABEL.fullmatch(name) else [*found, LABEL_RULE]


def label_1035_problems(name: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(name) > LABEL_MAX else []
    return found if DNS_1035_LABEL.fullmatch(name) else [*found, LABEL_1035_RULE]


def path_problems(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


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


@memoized
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
    elif len(name) > LABEL_MAX:
        found.append("name part must be no more than 63 bytes")
    if not LABEL_TEXT.fullmatch(name):
        found.append(_NAME_PART_RULE)
    return found


@memoized
def label_value_problems(value: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(value) > LABEL_MAX else []
    return found if not value or LABEL_TEXT.fullmatch(value) else [*found, _VALUE_RULE]
