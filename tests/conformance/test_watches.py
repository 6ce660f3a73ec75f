"""Watches: where they begin, what they send and how they end."""

import asyncio
import json

import pytest

from tests.conformance.samples import config
from tests.conformance.trace import Trace


async def test_from_a_list_on(t: Trace) -> None:
    _, listed, _ = await t.send("GET", f"{t.core}/secrets")

    async def changes() -> None:
        await t.make(f"{t.core}/secrets", {"metadata": {"name": "a"}})
        await t.send(
            "PATCH", f"{t.core}/secrets/a", {"data": {"x": "eA=="}}, content_type="application/merge-patch+json"
        )
        await t.send("DELETE", f"{t.core}/secrets/a")

    lines = await t.watch(f"{t.core}/secrets", {"resourceVersion": listed["metadata"]["resourceVersion"]}, 3, changes)
    versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in lines]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("version", ["", "0"])
async def test_from_the_present_state(t: Trace, version: str) -> None:
    await t.make(f"{t.core}/secrets", {"metadata": {"name": "a"}})
    await t.make(f"{t.core}/secrets", {"metadata": {"name": "b"}})
    query = {"resourceVersion": version} if version else {}
    await t.watch(
        f"{t.core}/secrets",
        query,
        3,
        lambda: t.make(f"{t.core}/secrets", {"metadata": {"name": "c"}}),
        show="metadata.name",
    )


async def test_missed_changes_are_replayed(t: Trace) -> None:
    first = await t.make(f"{t.core}/secrets", {"metadata": {"name": "a"}})
    await t.make(f"{t.core}/secrets", {"metadata": {"name": "b"}})
    await t.send("DELETE", f"{t.core}/secrets/a")
    query = {"resourceVersion": first["metadata"]["resourceVersion"]}
    await t.watch(f"{t.core}/secrets", query, 2, show="metadata.name")


async def test_selectors_turn_changes_into_comings_and_goings(t: Trace) -> None:
    _, listed, _ = await t.send("GET", f"{t.core}/secrets")

    async def label(value: str | None) -> None:
        change = {"metadata": {"labels": {"on": value}}}
        await t.send("PATCH", f"{t.core}/secrets/a", change, content_type="application/merge-patch+json")

    async def changes() -> None:
        await t.make(f"{t.core}/secrets", {"metadata": {"name": "a"}})
        for value in ("yes", "still", None, "again"):
            await label(value)
        await t.send("DELETE", f"{t.core}/secrets/a")

    query = {"resourceVersion": listed["metadata"]["resourceVersion"], "labelSelector": "on"}
    await t.watch(f"{t.core}/secrets", query, 5, changes, show="metadata")


async def test_field_selector_watches_one(t: Trace) -> None:
    _, listed, _ = await t.send("GET", f"{t.core}/secrets")

    async def changes() -> None:
        for name in ("a", "b", "c"):
            await t.make(f"{t.core}/secrets", {"metadata": {"name": name}})

    query = {"resourceVersion": listed["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=b"}
    await t.watch(f"{t.core}/secrets", query, 1, changes, show="metadata.name")


async def test_one_object_cannot_be_watched_by_its_path(t: Trace) -> None:
    await t.make(f"{t.core}/secrets", {"metadata": {"name": "b"}})
    await t.get(f"{t.core}/secrets/b", query={"watch": "true"}, code=200)


async def test_initial_events_end_with_a_bookmark(t: Trace) -> None:
    await t.make(f"{t.core}/secrets", {"metadata": {"name": "a"}})
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    lines = await t.watch(f"{t.core}/secrets", query, 2, show="metadata.annotations")
    assert lines[1]["type"] == "BOOKMARK"


async def test_initial_events_need_a_match(t: Trace) -> None:
    await t.get(f"{t.core}/secrets", query={"watch": "true", "sendInitialEvents": "true"}, code=422)


async def test_match_needs_initial_events(t: Trace) -> None:
    await t.get(
        f"{t.core}/secrets",
        query={"watch": "true", "resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"},
        code=422,
    )


async def test_bad_version(t: Trace) -> None:
    await t.get(f"{t.core}/secrets", query={"watch": "true", "resourceVersion": "abc"}, code=500)


async def test_too_old_a_version_is_gone(t: Trace) -> None:
    """The answer is 200 with an ERROR event, or nothing at all if the server still remembers."""
    code, text, _ = await t.send(
        "GET", f"{t.core}/secrets", query={"watch": "true", "resourceVersion": "1", "timeoutSeconds": "1"}, raw=True
    )
    lines = [json.loads(line) for line in str(text).splitlines()]
    assert code == 200
    assert all(line["type"] in ("ADDED", "DELETED", "MODIFIED") or line["object"]["code"] == 410 for line in lines)


async def test_timeout_ends_the_stream(t: Trace) -> None:
    async with asyncio.timeout(20):
        await t.get(f"{t.core}/secrets", query={"watch": "true", "timeoutSeconds": "1"}, code=200)


async def test_table_events_carry_the_columns_once(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config("a"))
    await t.make(f"{t.core}/configmaps", config("b"))
    query = {"watch": "true", "timeoutSeconds": "1", "labelSelector": "!none"}
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    _, text, _ = await t.send("GET", f"{t.core}/configmaps", query=query, accept=accept, raw=True)
    lines = [json.loads(line) for line in str(text).splitlines()]
    assert [line["object"]["kind"] for line in lines] == ["Table"] * len(lines)
    assert [bool(line["object"]["columnDefinitions"]) for line in lines] == [True] + [False] * (len(lines) - 1)
    assert [
        line["object"]["rows"][0]["cells"][0] for line in lines if line["object"]["rows"][0]["cells"][0] in "ab"
    ] == ["a", "b"]


async def test_custom_namespace_only(t: Trace) -> None:
    _, listed, _ = await t.send("GET", "/api/v1/configmaps")

    async def changes() -> None:
        await t.make("/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "elsewhere-"}})
        await t.make(f"{t.core}/configmaps", config("here"))

    await t.watch(
        f"{t.core}/configmaps",
        {"resourceVersion": listed["metadata"]["resourceVersion"]},
        1,
        changes,
        show="metadata.name",
    )
