"""Takes out of objects and texts what must not leave a cluster: values of environments, Secrets, tokens, passwords.

Names stay, so that a reader sees that something was set. Commands and arguments of users stay as they are.
"""

import re
from typing import Any

REMOVED = "<removed>"
_NOISE = {"managedFields"}
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # a copy of the object, environments and all
_SECRET_FIELDS = {"data", "stringData"}
_PATTERNS = (
    (re.compile(r"(://[^/\s:@]+:)[^@\s/]+(@)"), rf"\1{REMOVED}\2"),
    (re.compile(r"(?i)\b(bearer|edl-token:?)\s+[\w.~+/=-]{8,}"), rf"\1 {REMOVED}"),
    (re.compile(r"\bedlb1\.[\w-]+\.\d+\.[\w-]+"), REMOVED),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), REMOVED),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL), REMOVED),
)


def redacted(value: Any, *, secret: bool = False) -> Any:
    """A copy. `secret`: it is a Secret, of which only the names of keys are told."""
    if isinstance(value, dict):
        secret = secret or value.get("kind") == "Secret"
        return {name: _field(name, inner, secret=secret) for name, inner in value.items() if name not in _NOISE}
    if isinstance(value, list):
        return [redacted(inner, secret=secret) for inner in value]
    return redacted_text(value) if isinstance(value, str) else value


def _field(name: str, value: Any, *, secret: bool) -> Any:
    if secret and name in _SECRET_FIELDS and isinstance(value, dict):
        return dict.fromkeys(value, REMOVED)
    if name == "env" and isinstance(value, list):
        return [_variable(one) for one in value]
    if name == "env" and isinstance(value, dict):  # as EasyDL writes environments
        return dict.fromkeys(value, REMOVED)
    if name == _APPLIED:
        return REMOVED
    return redacted(value, secret=secret)


def _variable(variable: Any) -> Any:
    if not isinstance(variable, dict):
        return REMOVED
    return {name: REMOVED if name == "value" else redacted(inner) for name, inner in variable.items()}


def redacted_text(text: str) -> str:
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
