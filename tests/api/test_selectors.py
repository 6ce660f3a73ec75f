"""Label selectors: one table of what matches, one of the text form, one of what it refuses."""

import pytest

from edl.api.kubernetes import selector_text, selectors
from edl.api.kubernetes.meta import LabelRequirement, LabelSelector

LABELS = {"app": "web", "tier": "", "size": "12", "loose": "1_2"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,size", True),
        ("app=", False),
        ("tier=", True),
        ("absent=", False),
        ("app!=web", False),
        ("absent!=web", True),
        ("app in (api, web)", True),
        ("absent in ()", False),
        ("tier in ()", True),
        ("app notin (api,web)", False),
        ("absent notin (web)", True),
        ("tier", True),
        ("!tier", False),
        ("!absent,app", True),
        ("size>11", True),
        ("size>12", False),
        ("size<13", True),
        ("app<13", False),
        ("absent<13", False),
        ("loose>1", False),
    ],
)
def test_match(text: str, matches: bool) -> None:
    selector = LabelSelector(match_expressions=selector_text.parse(text))
    assert selectors.selector_matches(selector, LABELS) is matches
    again = selector_text.parse(selectors.text(selector))
    assert selectors.selector_matches(LabelSelector(match_expressions=again), LABELS) is matches


def test_selector_of_an_object() -> None:
    expressions = [
        {"key": "app", "operator": "In", "values": ["web", "api"]},
        {"key": "absent", "operator": "DoesNotExist"},
    ]
    selector = selectors.from_object({"matchLabels": {"size": "12", "tier": ""}, "matchExpressions": expressions})
    assert selectors.selector_matches(selector, LABELS)
    assert not selectors.selector_matches(selector, {**LABELS, "size": "1"})
    assert not selectors.selector_matches(selector, {**LABELS, "absent": "no"})
    assert selectors.text(selector) == "size=12,tier=,app in (api,web),!absent"


def test_no_selector_is_not_an_empty_one() -> None:
    assert not selectors.selector_matches(None, LABELS)
    assert selectors.selector_matches(selectors.from_object({"matchLabels": None}), {})


def test_unknown_operator_matches_nothing() -> None:
    assert not selectors.requirement_holds(LabelRequirement("app", "Near", ("web",)), LABELS)
    assert not selectors.requirement_holds(LabelRequirement("size", "Gt"), LABELS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a>b", "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("-a", '<nil>: Invalid value: "-a"'),
        ("a=-b", 'values[0][a]: Invalid value: "-b"'),
    ],
)
def test_refused_text(text: str, why: str) -> None:
    with pytest.raises(selector_text.SelectorError) as refused:
        selector_text.parse(text)
    assert why in str(refused.value)


@pytest.mark.case("attack-5")
@pytest.mark.parametrize("bound", ["9" * 5000, "-" + "9" * 5000, str(2**63), "9" * 21])
def test_a_bound_that_no_integer_holds_matches_nothing(bound: str) -> None:
    """The attack: a pod that asks for nodes with a label above a number of 5,000 digits failed every plan."""
    for operator in ("Gt", "Lt"):
        assert not selectors.requirement_holds(LabelRequirement("size", operator, (bound,)), LABELS)
