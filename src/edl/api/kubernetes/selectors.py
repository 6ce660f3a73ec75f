"""Label selectors: whether labels satisfy a requirement, or a whole selector, by the rules of apimachinery's `labels`.

The one evaluator for label, node and pod selectors, typed or as JSON. Nothing here checks whether a selector is
well-formed; an operator that is not known matches nothing. The text form (`a=b,c in (d,e)`) is read by `selector_text`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from edl.api.kubernetes.meta import LabelRequirement, LabelSelector

_LONGEST = 20
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def value_matches(value: str | None, operator: str, values: Collection[str]) -> bool:
    """Whether the value of a label (None: no such label) satisfies an operator and its values."""
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value or "", operator, next(iter(values), ""))
    return False


def _compares(value: str, operator: str, bound: str) -> bool:
    """Gt and Lt are for integers; anything else does not match."""
    if not is_integer(value) or not is_integer(bound):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)


def is_integer(text: str) -> bool:
    """As Go reads integers: a sign and ASCII digits, no spaces and no underscores, within 64 bits. Whoever writes a pod
    may name any number, and Python refuses to read those of thousands of digits."""
    return len(text) <= _LONGEST and _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def requirement_holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    return value_matches(labels.get(requirement.key), requirement.operator, requirement.values)


def selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """No selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    return labels_match(selector.match_labels, labels) and all(
        requirement_holds(one, labels) for one in selector.match_expressions
    )


def labels_match(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether all wanted labels are there with their values (matchLabels, nodeSelector, a Service's selector)."""
    return wanted.items() <= labels.items()


def from_object(selector: Mapping[str, Any]) -> LabelSelector:
    """The typed selector of a JSON object that is known to be well-formed; null fields count as absent."""
    return LabelSelector(
        match_labels=selector.get("matchLabels") or {},
        match_expressions=tuple(
            LabelRequirement(one.get("key", ""), one.get("operator", ""), tuple(one.get("values") or ()))
            for one in selector.get("matchExpressions") or ()
        ),
    )


def text(selector: LabelSelector) -> str:
    """The text form that a URL's labelSelector takes: labels in order of their keys, then the expressions."""
    equal = (f"{key}={value}" for key, value in sorted(selector.match_labels.items()))
    return ",".join((*equal, *(_requirement_text(one) for one in selector.match_expressions)))


def _requirement_text(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(sorted(requirement.values))
    match requirement.operator:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "Gt":
            return f"{key}>{values}"
        case "Lt":
            return f"{key}<{values}"
    raise ValueError(f"{requirement.operator!r} is not an operator of a selector")
