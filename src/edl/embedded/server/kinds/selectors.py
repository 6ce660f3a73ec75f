"""Label selectors inside objects (`spec.selector`): their validation, and whether they select a template."""

from collections.abc import Iterator, Mapping

from edl.api.kubernetes.selectors import from_object, selector_matches, text
from edl.embedded.server import causes, names
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

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
    return selector_matches(from_object(selector), labels)


def render(selector: Object) -> str:
    """A selector in the text form of a URL's labelSelector, as Scale's status carries it."""
    return text(from_object(selector))
