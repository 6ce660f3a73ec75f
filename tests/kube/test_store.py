"""The cache's rules on plain data: any order of the same facts gives the same truth."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.kube.cache.indexes import Index, by_field, by_label, by_owner
from edl.kube.cache.objects import key_of
from edl.kube.cache.store import TOMBSTONES, Store
from tests.kube.things import Meta, Thing

KEY = ("default", "a")


def thing(version: int, *, uid: str = "u1", name: str = "a", value: int = 0, colour: str = "") -> Thing:
    labels = {"colour": colour} if colour else {}
    return Thing(Meta(name, "default", uid, str(version), labels), value)


def colours(store: Store[Thing]) -> dict[str, list[str]]:
    return {c: [item.metadata.name for item in store.by("colour", c)] for c in ("red", "blue") if store.by("colour", c)}


@pytest.mark.parametrize(
    ("known", "fact", "changes"),
    [
        pytest.param(None, thing(5), [("-", "u1@5")], id="new"),
        pytest.param(thing(5), thing(6), [("u1@5", "u1@6")], id="newer"),
        pytest.param(thing(5), thing(5), [], id="the-same"),
        pytest.param(thing(5), thing(4), [], id="older"),
        pytest.param(thing(9), thing(10), [("u1@9", "u1@10")], id="compared-as-numbers-not-as-texts"),
        pytest.param(thing(5), thing(7, uid="u2"), [("u1@5", "-"), ("-", "u2@7")], id="namesake"),
        pytest.param(thing(7, uid="u2"), thing(5), [], id="former-namesake"),
    ],
)
def test_upsert(known: Thing | None, fact: Thing, changes: list[tuple[str, str]]) -> None:
    store: Store[Thing] = Store()
    if known:
        store.upsert(known)
    reported = [(_short(old), _short(new)) for old, new in store.upsert(fact)]
    assert reported == changes
    store.validate()


@pytest.mark.parametrize(
    ("known", "uid", "version", "gone"),
    [
        pytest.param(thing(5), "u1", 6, True, id="deleted"),
        pytest.param(thing(5), "u1", 4, True, id="deleted-by-an-event-that-carries-an-older-version"),
        pytest.param(thing(5, uid="u2"), "u1", 4, False, id="a-former-namesake"),
        pytest.param(thing(5), "u2", 9, True, id="a-later-namesake-came-and-went"),
        pytest.param(None, "u1", 6, False, id="not-known"),
    ],
)
def test_remove(known: Thing | None, uid: str, version: int, gone: bool) -> None:
    store: Store[Thing] = Store()
    if known:
        store.upsert(known)
    assert bool(store.remove(KEY, uid, version)) == gone
    if gone or known is None:
        for late in range(1, version + 1):
            assert not store.upsert(thing(late)), "an event that comes late brings nothing back"
        assert store.upsert(thing(100, uid="u9"))
    store.validate()


def test_complete_tells_what_is_gone_and_begins_anew() -> None:
    store: Store[Thing] = Store({"colour": by_label("colour")})
    for number, name in enumerate("abc"):
        store.upsert(thing(number + 1, name=name, uid=name, colour="red"))
    store.begin_list()
    store.upsert(thing(2, name="b", uid="b", colour="red"))
    store.mark_listed(("default", "c"))
    store.mark_listed(("default", "never-known"))
    reported = [_short(old) for old, _ in store.complete_list(10)]
    assert reported == ["a@1"]
    assert store.version == 10
    assert [key_of(item) for item in store.all()] == [("default", "b"), ("default", "c")]
    assert colours(store) == {"red": ["b", "c"]}
    store.validate()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=20), st.randoms(use_true_random=False))
def test_any_order_of_the_facts_gives_the_truth(history: list[tuple[str, bool]], rng: random.Random) -> None:
    """Creations, changes, deletions and namesakes, each told up to three times, in any order at all."""
    truth: dict[str, Thing] = {}
    facts: list[tuple[str, Thing]] = []
    for version, (name, write) in enumerate(history, start=1):
        old = truth.get(name)
        uid = old.metadata.uid if old else f"{name}{version}"
        item = thing(version, name=name, uid=uid, colour=rng.choice(["", "red", "blue"]))
        if write:
            truth[name] = item
            facts.append(("put", item))
        elif old:
            del truth[name]
            facts.append(("delete", item))
    facts = facts * rng.randint(1, 3)
    rng.shuffle(facts)
    store: Store[Thing] = Store({"colour": by_label("colour")})
    for what, item in facts:
        store.upsert(item) if what == "put" else store.remove(key_of(item), item.metadata.uid, _version(item))
        store.validate()
    assert {item.metadata.name: item for item in store.all()} == truth


def test_tombstones_are_bounded() -> None:
    store: Store[Thing] = Store()
    for number in range(TOMBSTONES + 10):
        store.remove(("default", f"t{number}"), "u", 5)
    assert len(store._tombstones) == TOMBSTONES
    assert store.upsert(thing(3, name="t0")), "the oldest was forgotten"
    assert not store.upsert(thing(3, name="t15"))


def test_an_index_that_fails_leaves_the_object_out_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    def first_letter(labels: dict[str, str]) -> tuple[str, ...]:
        return (labels["colour"][0],)

    indexes = {"letter": Index("metadata.labels", first_letter), "owner": by_owner, "absent": by_field("nothing.here")}
    store: Store[Thing] = Store(indexes)
    store.upsert(thing(5, name="a"))
    store.upsert(thing(6, name="b", uid="b", colour="red"))
    assert [item.metadata.name for item in store.by("letter", "r")] == ["b"]
    assert store.by("absent", "x") == []
    assert "index 'letter' failed for default/a" in caplog.text
    store.upsert(thing(7, name="a", colour="rose"))
    assert len(store.by("letter", "r")) == 2
    store.remove(KEY, "u1", 8)
    assert len(store.by("letter", "r")) == 1


def _version(item: Thing) -> int:
    return int(item.metadata.resource_version)


def _short(item: Thing | None) -> str:
    return f"{item.metadata.uid}@{item.metadata.resource_version}" if item else "-"
