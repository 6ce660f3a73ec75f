"""The informer against every way that a list or a watch can go wrong: afterwards the cache is the truth."""

import asyncio

import pytest

from edl.kube.rest.transport import Response
from tests.kube.fake_api import FakeApi, answering, line, refuse, streaming
from tests.kube.things import Heard, cluster, informer_of, running, truth, until, values
from tests.virtual_time import virtual


@virtual
async def test_lists_in_pages_then_follows_the_watch() -> None:
    api = cluster(a=1, b=2, c=3, d=4, e=5)
    informer = informer_of(api, page=2)
    async with running(informer):
        await informer.wait_synced()
        assert values(informer) == truth(api)
        assert [request.query.get("continue", "") for request in api.asked(watch=False)] == ["", "105/2", "105/4"]
        api.put("things", "f", value=6)
        api.put("things", "a", value=9)
        api.remove("things", "b")
        await until(lambda: values(informer) == truth(api))
    assert len(api.asked(watch=False)) == 3, "nothing called for a second list"


@virtual
async def test_handlers_hear_old_and_new() -> None:
    api = cluster(a=1)
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        informer.add_handler("heard", heard, lambda key: None)
        await informer.wait_synced()
        api.put("things", "a", value=2)
        api.remove("things", "a")
        await until(lambda: len(heard.story) == 3)
        late = Heard()
        api.put("things", "b", value=1)
        await until(lambda: "b" in values(informer))
        informer.add_handler("late", late, lambda key: None)
        await until(lambda: bool(late.story))
    assert heard.story[:3] == ["add a=1", "change a=2", "delete a=2"]
    assert late.story == ["add b=1"], "a late handler is told what is there"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param([], id="as-an-event"),
        pytest.param([refuse(410, "Gone")], id="as-a-status"),
        pytest.param([refuse(410, "Expired"), refuse(410, "Gone"), refuse(410)], id="three-times"),
    ],
)
@virtual
async def test_after_410_the_difference_is_told(how: list[Response]) -> None:
    api = cluster(deleted=1, changed=1, kept=1, reborn=1)
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        informer.add_handler("heard", heard, lambda key: None)
        await until(lambda: len(heard.story) == 4 and len(api.asked(watch=True)) == 1)
        heard.story.clear()
        with api.gap():
            api.remove("things", "deleted")
            api.put("things", "changed", value=2)
            api.put("things", "created", value=1)
            api.remove("things", "reborn")
            api.put("things", "reborn", value=7)
            api.compact()
        api.next_watches.extend(answering(*how))
        await until(lambda: values(informer) == truth(api), within=10)
        await until(lambda: len(heard.story) == 5)
    reported = ["add created=1", "add reborn=7", "change changed=2", "delete deleted=1", "delete reborn=1"]
    assert sorted(heard.story) == reported, "the same name with another uid is a delete and an add"


@virtual
async def test_a_gap_that_history_covers_is_resumed_without_a_list() -> None:
    api = cluster(deleted=1, changed=1)
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        informer.add_handler("heard", heard, lambda key: None)
        await until(lambda: len(heard.story) == 2 and len(api.asked(watch=True)) == 1)
        heard.story.clear()
        with api.gap():
            api.remove("things", "deleted")
            api.put("things", "changed", value=2)
            await asyncio.sleep(20)
            assert informer.failure is not None
            assert "refused" in informer.failure
            assert informer.age >= 20
        await until(lambda: values(informer) == truth(api))
        assert informer.failure is None
    assert heard.story == ["delete deleted=1", "change changed=2"]
    assert len(api.asked(watch=False)) == 1


@virtual
async def test_an_object_that_cannot_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    api = cluster(good=1, bad=1)
    api.put("things", "bad", value="a text")
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        informer.add_handler("heard", heard, lambda key: None)
        await informer.wait_synced()
        assert values(informer) == {"good": 1}
        api.put("things", "bad", value=2)
        api.put("things", "bad", value=["no", "number"])
        api.put("things", "good", value=2)
        await until(lambda: values(informer) == {"good": 2, "bad": 2})
        with api.gap():
            api.put("things", "good", value=3)
            api.compact()
        await until(lambda: values(informer) == {"good": 3, "bad": 2})
        api.remove("things", "bad")
        await until(lambda: values(informer) == {"good": 3})
    assert "delete bad=2" in heard.story
    assert informer.malformed >= 3
    assert "Thing default/bad cannot be read" in caplog.text
    assert "$.value" in caplog.text


@virtual
async def test_null_means_absent() -> None:
    api = cluster(a=1)
    api.objects["things"]["default", "a"]["value"] = None
    informer = informer_of(api)
    async with running(informer):
        await informer.wait_synced()
        assert values(informer) == {"a": 0}
        api.put("things", "b", value=None)
        await until(lambda: values(informer) == {"a": 0, "b": 0})
    assert informer.malformed == 0


@virtual
async def test_a_megabyte_in_pieces() -> None:
    api = cluster(a=1)
    informer = informer_of(api)
    async with running(informer):
        await until(lambda: len(api.asked(watch=True)) == 1)
        with api.gap():
            big = line("ADDED", api.put("things", "big", value=7, padding="x" * 2**20))
        pieces = [big[at : at + 65_536] for at in range(0, len(big), 65_536)]
        api.next_watches.append(streaming(*pieces, then_silence=True))
        await until(lambda: values(informer) == truth(api))
    assert len(api.asked(watch=False)) == 1


@virtual
async def test_reading_your_own_writes() -> None:
    api = cluster(a=1)
    informer = informer_of(api)
    async with running(informer):
        await informer.wait_synced()
        written = api.put("things", "a", value=5)["metadata"]["resourceVersion"]
        await informer.wait_seen(written)
        assert values(informer) == {"a": 5}
        await informer.wait_seen(written)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await informer.wait_seen(str(api.version + 1))


@virtual
async def test_indexes_follow_every_change() -> None:
    api = FakeApi()
    owner = {"apiVersion": "test.dev/v1", "kind": "Thing", "name": "o", "uid": "uid-o", "controller": True}
    api.put("things", "a", metadata={"labels": {"colour": "red"}, "ownerReferences": [owner]})
    api.put("things", "b", "other", metadata={"labels": {"colour": "red"}})
    informer = informer_of(api)

    def names(index: str, value: str) -> list[str]:
        return [thing.metadata.name for thing in informer.by(index, value)]

    async with running(informer):
        await informer.wait_synced()
        assert names("colour", "red") == ["a", "b"]
        assert names("owner", "uid-o") == ["a"]
        assert names("namespace", "other") == ["b"]
        api.put("things", "a", metadata={"labels": {"colour": "blue"}, "ownerReferences": []})
        api.remove("things", "b", "other")
        await until(lambda: names("colour", "blue") == ["a"])
        assert names("colour", "red") == names("owner", "uid-o") == []
        await until(lambda: names("namespace", "other") == [])
    informer._store.validate()
