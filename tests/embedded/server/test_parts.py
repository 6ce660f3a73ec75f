"""The pure parts, each by tables and properties: refused quantities, protobuf, field sets, patches, JSONPath, ages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.api.kubernetes import quantity
from edl.embedded.server.apply import fieldset
from edl.embedded.server.apply.compare import compare
from edl.embedded.server.apply.merge import merge
from edl.embedded.server.crds.custom import version_priority
from edl.embedded.server.tables import jsonpath
from edl.embedded.server.tables.ages import human
from edl.embedded.server.types.model import ListOf, SchemaOr, Struct, Type, builtin_type, builtin_types
from edl.embedded.server.types.normalize import Findings, normalizer
from edl.embedded.server.types.scalars import SCALARS, MismatchError
from edl.embedded.server.verbs import patch, strategic_merge


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "1 Gi", "Gi", "1KI", "1e", "--1", "1_000", "9" * 200])
def test_no_quantities(text: str) -> None:
    with pytest.raises(MismatchError, match="quantities must match"):
        SCALARS["quantity"](text, Findings())


def test_a_quantity_that_a_job_may_ask_for_is_one_for_its_pods() -> None:
    longest = quantity.MAX_LENGTH
    for text in ("0" * (longest - 1) + "2", "0." + "0" * (longest - 3) + "1", "1" + "0" * (longest - 1)):
        assert quantity.problem(text) is None
        assert SCALARS["quantity"](text, Findings()) == quantity.canonical(text)
    assert quantity.problem("0" * (longest + 1)) is not None


paths = st.lists(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"']), min_size=1, max_size=4).map(tuple), max_size=8
).map(set)


def tree(members: set[tuple[str, ...]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path in members:
        node: dict[str, Any] = {}
        for element in reversed(path):
            node = {element: node}
        result = fieldset.union(result, node)
    return result


@given(paths, paths)
def test_field_sets_are_sets(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> None:
    one, two = tree(left), tree(right)
    assert set(fieldset.members(one)) == left
    assert set(fieldset.members(fieldset.union(one, two))) == left | right
    assert set(fieldset.members(fieldset.difference(one, two))) == left - right
    assert set(fieldset.members(fieldset.intersection(one, two))) == left & right


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


@given(json_objects, json_objects)
def test_merge_patch_is_idempotent(target: dict[str, Any], change: dict[str, Any]) -> None:
    once = patch.merge(target, change)
    assert patch.merge(once, change) == once


@given(json_objects, json_objects)
def test_comparing_finds_nothing_in_equals_and_everything_in_strangers(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    kind = Struct(open=True)
    assert compare(kind, old, old) == ({}, {})
    changed, removed = compare(kind, old, new)
    assert (changed == {} and removed == {}) == (old == new)


def test_normalizing_twice_changes_nothing() -> None:
    shape = builtin_type("apps", "Deployment")
    value = {
        "metadata": {"labels": {}},
        "spec": {
            "replicas": 0,
            "template": {"spec": {"containers": [{"name": "c", "args": [], "resources": {"limits": {"cpu": 0.5}}}]}},
        },
    }
    once = normalizer(shape)(value, Findings())
    assert normalizer(shape)(once, Findings()) == once
    assert once["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}}


def test_every_type_of_the_table_is_complete() -> None:
    for shape in builtin_types().values():
        normalizer(shape)({}, Findings())
        for entry in shape.fields.values():
            assert isinstance(entry.type, Type)
            if isinstance(entry.type, ListOf) and entry.type.keys and isinstance(entry.type.item, Struct):
                assert set(entry.type.keys) <= set(entry.type.item.fields), f"{shape.name}.{entry.name}"
    assert isinstance(builtin_types()["apiextensions.JSONSchemaProps"].fields["items"].type, SchemaOr)


def test_strategic_merge_of_what_is_absent() -> None:
    shape = builtin_type("", "Pod")
    change = {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "$patch": "delete"}]}]}}
    assert strategic_merge.merge(shape, {}, change) == {"spec": {"containers": [{"name": "a", "env": []}]}}


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("ab", "b", "ab"),
        ("ab", "ba", "ba"),
        ("abc", "cd", "abcd"),
        ("abc", "xb", "axbc"),
        ("", "xy", "xy"),
        ("abcd", "bd", "abcd"),
    ],
)
def test_the_order_of_applied_lists(live: str, config: str, merged: str) -> None:
    kind = ListOf(item=Struct(fields={}, open=True), keys=("n",))
    found = merge(kind, [{"n": n} for n in live], [{"n": n} for n in config])
    assert "".join(item["n"] for item in found) == merged


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        (".list[1].n", ["y"]),
        (".list[*].n", ["x", "y"]),
        ('.list[?(@.n=="y")].v', [2]),
        (".a['b']", [1]),
        (".nothing.here", []),
        (".list[9]", []),
        (r".dotted\.name", [5]),
        ("{.a.b}", [1]),
    ],
)
def test_jsonpath(path: str, found: list[Any]) -> None:
    value = {"a": {"b": 1}, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "dotted.name": 5}
    assert jsonpath.find(value, path) == found


@pytest.mark.parametrize("path", ["..x", ".a[", ".a b", "[?(x)]"])
def test_jsonpath_that_is_not_understood(path: str) -> None:
    with pytest.raises(jsonpath.JsonPathError):
        jsonpath.compile_path(path)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11000, "3h3m"),
        (90000, "25h"),
        (180000, "2d2h"),
        (86400 * 9, "9d"),
        (86400 * 400, "400d"),
        (86400 * 800, "2y70d"),
        (86400 * 365 * 9, "9y"),
        (-5, "<invalid>"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    assert human(seconds) == text


def test_versions_in_order_of_preference() -> None:
    versions = ["v1alpha1", "v2", "v1", "v1beta2", "foo", "v1beta10", "v10"]
    assert sorted(versions, key=version_priority) == ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
