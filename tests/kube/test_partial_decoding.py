"""Partial decoding is a short cut and nothing else: the result is what a decoder would have made of every event."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.api.kubernetes.core import KINDS, Pod
from edl.kube.cache.indexes import by_field, by_label, by_owner
from edl.kube.cache.informer import Informer
from edl.kube.cache.partial_decoding import PartialDecoder
from edl.kube.cache.store import Store
from tests.kube.fake_api import FakeApi
from tests.kube.things import THINGS, Meta, OwnerRef, client_of, running, until
from tests.virtual_time import virtual


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    size: int = 0


class Machine(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: Spec = Spec()
    phase: str = ""


class Strict(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: Spec


INDEXES = {
    "owner": by_owner,
    "colour": by_label("colour"),
    "node": by_field("spec.node_name"),
    "phase": by_field("phase"),
}


def machine(version: int, *, name: str = "a", spec: Any = None, phase: str = "", **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": str(version), **metadata}
    return {"metadata": meta, "spec": spec or {}, "phase": phase}


class Cache:
    """A store that is told JSON, as an informer tells it."""

    def __init__(self, kind: Any = Machine) -> None:
        decoder = PartialDecoder.for_kind(kind)
        assert decoder is not None
        self.type, self.store = decoder.type, Store[Any](INDEXES, decoder)

    def reported(self, item: dict[str, Any]) -> Any:
        self.store.upsert(msgspec.json.decode(msgspec.json.encode(item), type=self.type))
        self.store.validate()
        return self.store.get(("default", item["metadata"]["name"]))


OWNER = {"apiVersion": "v1", "kind": "Thing", "name": "o", "uid": "u-o", "controller": True}
ITEMS = st.fixed_dictionaries(
    {"name": st.sampled_from("ab"), "phase": st.sampled_from(["", "Running"])},
    optional={
        "labels": st.sampled_from([None, {}, {"colour": "red"}, {"colour": "blue", "x": "y"}]),
        "ownerReferences": st.sampled_from([None, [], [OWNER], [{**OWNER, "uid": "u-p"}]]),
        "spec": st.sampled_from([None, {"nodeName": "n"}, {"nodeName": None}, {"size": 1, "unknown": [1]}]),
    },
)


@settings(max_examples=100, deadline=None)
@given(st.lists(ITEMS, max_size=12))
def test_a_cache_of_sketches_is_a_cache_of_the_objects(items: list[dict[str, Any]]) -> None:
    cache = Cache()
    for version, item in enumerate(items, start=1):
        spec = item.pop("spec", {})
        whole = machine(version, spec=spec, **item)
        there = {key: value for key, value in whole["metadata"].items() if value is not None}
        plain = {"metadata": there, "spec": {k: v for k, v in (spec or {}).items() if v is not None}}
        found = cache.reported(whole)
        assert found == msgspec.convert({**plain, "phase": whole["phase"]}, Machine)
        assert type(found) is Machine
        assert type(found.metadata) is Meta


def test_what_an_event_repeats_is_taken_over() -> None:
    cache = Cache()
    said: dict[str, Any] = {"spec": {"nodeName": "n"}, "labels": {"colour": "red"}, "ownerReferences": [OWNER]}
    first = cache.reported(machine(1, **said))
    second = cache.reported(machine(2, phase="Running", **said))
    assert second.spec is first.spec
    assert second.metadata.labels is first.metadata.labels
    assert second.metadata.owner_references is first.metadata.owner_references
    assert (second.phase, second.metadata.resource_version) == ("Running", "2")
    assert [item.phase for item in cache.store.by("phase", "Running")] == ["Running"], "this index is of what changes"
    third = cache.reported(machine(3, phase="Running", **{**said, "spec": {"nodeName": "m"}}))
    assert third.spec == Spec("m")
    assert not cache.store.by("node", "n")
    assert cache.store.by("node", "m") == [third]


def test_equal_values_of_many_objects_are_kept_once() -> None:
    cache = Cache()
    said: dict[str, Any] = {"labels": {"colour": "red"}, "ownerReferences": [OWNER]}
    first, second = (cache.reported(machine(1, name=name, **said)).metadata for name in "ab")
    assert second.namespace is first.namespace
    assert second.owner_references is first.owner_references
    assert second.labels["colour"] is first.labels["colour"]
    assert first.owner_references == (OwnerRef("v1", "Thing", "o", "u-o", True),)


@pytest.mark.parametrize(
    ("kind", "spec", "complaint"),
    [
        pytest.param(Machine, {"nodeName": 7}, r"`\$.nodeName`", id="wrong-type"),
        pytest.param(Machine, [], "Expected `object`, got `array`", id="no-object"),
        pytest.param(Strict, None, "missing required field `spec`", id="required-and-null"),
    ],
)
def test_what_does_not_fit_is_noticed_as_it_arrives_and_changes_nothing(kind: Any, spec: Any, complaint: str) -> None:
    cache = Cache(kind)
    first = cache.reported(machine(1, spec={"nodeName": "n"}))
    with pytest.raises(msgspec.ValidationError, match=complaint):
        cache.reported({**machine(2), "spec": spec})
    assert cache.store.by("node", "n") == [first]
    assert cache.reported(machine(3, spec={"nodeName": "n"})).spec is first.spec


@virtual
async def test_a_spec_that_cannot_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi()
    api.put("things", "never", spec={"size": "x"})
    api.put("things", "good", spec={"size": 1})
    informer = Informer(client_of(api), THINGS, Machine)

    def sizes() -> dict[str, int]:
        return {item.metadata.name: item.spec.size for item in informer.all()}

    async with running(informer):
        await informer.wait_synced()
        assert sizes() == {"good": 1}
        api.put("things", "bad", spec={"size": 1})
        api.put("things", "bad", spec={"size": "x"})
        api.put("things", "good", spec={"size": 2})
        await until(lambda: sizes() == {"good": 2, "bad": 1})
        api.put("things", "bad", spec={"size": 3})
        api.remove("things", "good")
        api.put("things", "nulls", spec={"size": 4, "nodeName": None}, phase=None)
        await until(lambda: sizes() == {"bad": 3, "nulls": 4})
    assert informer.malformed == 2
    assert "Thing default/never cannot be read" in caplog.text
    assert "Thing default/bad cannot be read" in caplog.text


class Small(msgspec.Struct, frozen=True):
    metadata: Meta
    value: int = 0


class Checked(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: Spec = Spec()

    def __post_init__(self) -> None:
        assert isinstance(self.spec, Spec)


@pytest.mark.parametrize("kind", [Small, Checked])
def test_other_kinds_are_decoded_as_they_are(kind: Any) -> None:
    assert PartialDecoder.for_kind(kind) is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if "spec" in kind.__struct_fields__])
def test_the_kinds_of_kubernetes_can_be_sketched(kind: Any) -> None:
    decoder = PartialDecoder.for_kind(kind)
    assert decoder is not None
    body = msgspec.json.encode(machine(1, labels={"a": "b"}))
    partial = msgspec.json.decode(body, type=decoder.type)
    decoder.complete(partial, None, None)
    assert partial == msgspec.json.decode(body, type=kind)
    assert type(partial) is kind


def test_objects_stay_frozen() -> None:
    decoder = PartialDecoder.for_kind(Pod)
    assert decoder is not None
    partial = msgspec.json.decode(b'{"metadata":{"name":"a"}}', type=decoder.type)
    decoder.complete(partial, None, None)
    with pytest.raises(AttributeError):
        partial.spec = None
