"""Label selectors inside objects (`spec.selector`): their rules, and whether they select a template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edl.embedded.server import causes, names
from edl.embedded.server.call import Object
from edl.embedded.server.status import Cause

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_selector(selector: Object, path: str) -> Iterator[Cause]:
    for key, value in (selector.get("matchLabels") or {}).items():
        for problem in names.label_key_problems(key):
            yield causes.invalid(f"{path}.matchLabels", key, problem)
        for problem in names.label_value_problems(value):
            yield causes.invalid(f"{path}.matchLabels", value, problem)
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = term.get("operator", ""), term.get("values")
        if operator not in _OPERATORS:
            yield causes.invalid(f"{at}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            yield causes.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield causes.forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        for problem in names.label_key_problems(term.get("key", "")):
            yield causes.invalid(f"{at}.key", term.get("key", ""), problem)


def is_empty(selector: Object) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(term, labels) for term in selector.get("matchExpressions") or ())


def _holds(term: Object, labels: Mapping[str, str]) -> bool:
    key, values = term["key"], term.get("values") or ()
    match term["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def render(selector: Object) -> str:
    """A selector in the text form of a URL's labelSelector, as Scale's status carries it."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        key, values = term["key"], ",".join(sorted(term.get("values") or ()))
        words = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(words[term["operator"]])
    return ",".join(parts)
