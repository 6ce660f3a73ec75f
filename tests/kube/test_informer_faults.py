"""The informer's faults: whatever happens between it and the server, the cache comes out true."""

import asyncio

import pytest

from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.transport import Request, Response
from tests.kube.fake_api import Answer, answering, line, refuse, reply, status, streaming
from tests.kube.things import Heard, cluster, informer_of, running, truth, until, values
from tests.virtual_time import virtual


@virtual
async def test_a_stream_that_ends_at_once_a_thousand_times() -> None:
    api = cluster(a=1)
    informer = informer_of(api)
    async with running(informer):
        await until(lambda: len(api.asked(watch=True)) == 1)
        api.next_watches.extend(streaming() for _ in range(1000))
        api.hang_up()
        begun = asyncio.get_running_loop().time()
        await until(lambda: len(api.asked(watch=True)) >= 100)
        api.put("things", "b", value=2)
        await until(lambda: not api.next_watches, within=1e6)
        seconds = asyncio.get_running_loop().time() - begun
        assert seconds > 1000 * 10, "the pauses grow: nobody is hammered"
        assert values(informer) == truth(api), "a list now and then keeps the cache true even so"
        api.put("things", "c", value=3)
        await until(lambda: values(informer) == truth(api), within=60)


BROKEN_STREAMS = [
    pytest.param(streaming(line("ERROR", status(500, "InternalError", "etcdserver: no leader"))), id="500-event"),
    pytest.param(streaming(line("ERROR", status(429, "TooManyRequests"))), id="429-event"),
    pytest.param(
        streaming(b'{"type":"ADDED","object":{"metadata":{"na', then_silence=True), id="half-a-line-then-silence"
    ),
    pytest.param(streaming(then_silence=True), id="silence"),
    pytest.param(streaming(b'{"type":"ADDED","object":{"me', broken=True), id="broken-in-a-line"),
    pytest.param(streaming(b"<html>bad gateway</html>\n"), id="not-json"),
    pytest.param(streaming(line("SURPRISE", {"metadata": {"name": "x"}})), id="unknown-type"),
    pytest.param(answering(refuse(500, "InternalError"))[0], id="500"),
    pytest.param(answering(refuse(503))[0], id="503"),
    pytest.param(answering(refuse(429, "TooManyRequests", retry_after="30"))[0], id="429-retry-after"),
    pytest.param(answering(refuse(401, "Unauthorized"))[0], id="401"),
    pytest.param(answering(ConnectionLostError("reset by peer"))[0], id="reset"),
    pytest.param(answering(RuntimeError("a bug in the transport"))[0], id="bug"),
]


@pytest.mark.parametrize("fault", BROKEN_STREAMS)
@virtual
async def test_whatever_breaks_the_watch_nothing_is_lost(fault: Answer) -> None:
    api = cluster(a=1, b=1)
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        informer.add_handler("heard", heard, lambda key: None)
        await until(lambda: len(heard.story) == 2 and len(api.asked(watch=True)) == 1)
        heard.story.clear()
        api.next_watches.extend([fault, fault])
        with api.gap():
            api.put("things", "a", value=2)
            api.remove("things", "b")
        await until(lambda: values(informer) == truth(api), within=400)
        await until(lambda: len(heard.story) == 2)
        await until(lambda: informer.failure is None)
    assert heard.story == ["change a=2", "delete b=1"]


@virtual
async def test_what_came_before_an_error_in_the_same_piece_counts() -> None:
    api = cluster(a=1)
    informer = informer_of(api)
    async with running(informer):
        await until(lambda: len(api.asked(watch=True)) == 1)
        with api.gap():
            item = api.put("things", "a", value=2)
        api.next_watches.append(streaming(line("MODIFIED", item) + line("ERROR", status(500))))
        await until(lambda: values(informer) == truth(api))
        await until(lambda: len(api.asked(watch=True)) == 3)
    assert api.asked(watch=True)[-1].query["resourceVersion"] == str(api.version)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([refuse(500)] * 5, id="500-until-given-up"),
        pytest.param([ConnectionLostError("reset by peer")] * 5, id="connection-lost-until-given-up"),
        pytest.param([refuse(410, "Expired")], id="410"),
        pytest.param([refuse(410, "Expired")] * 3, id="410-three-times"),
    ],
)
@virtual
async def test_a_page_lost_in_a_list_never_makes_half_a_cache(faults: list[Response | Exception]) -> None:
    api = cluster(**{f"t{number}": number for number in range(6)})
    informer = informer_of(api, page=2)
    api.next_lists.extend([api._list, *answering(*faults)])
    async with running(informer):
        await until(lambda: not api.next_lists)
        assert not informer.synced
        await informer.wait_synced()
        assert values(informer) == truth(api)
    if faults[0].code == 410 if isinstance(faults[0], Response) else False:
        assert "limit" not in api.asked(watch=False)[2].query, "pages that expire are read in one piece"


@virtual
async def test_a_page_lost_in_a_later_list_takes_nothing_for_deleted() -> None:
    api = cluster(**{f"t{number}": number for number in range(6)})
    informer, heard = informer_of(api, page=2), Heard()
    async with running(informer):
        await informer.wait_synced()
        informer.add_handler("heard", heard, lambda key: None)
        await until(lambda: len(heard.story) == 6)
        with api.gap():
            api.put("things", "t5", value=50)
            api.compact()
        api.next_lists.extend([api._list, *answering(*[refuse(500)] * 5)])
        await until(lambda: values(informer) == truth(api))
        assert not api.next_lists
    assert heard.story[6:] == ["change t5=50"]


@virtual
async def test_a_list_of_mixed_versions_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    api = cluster(a=1, b=2)
    informer = informer_of(api, page=1)
    other = {"kind": "List", "metadata": {"resourceVersion": "7"}, "items": []}
    api.next_lists.extend([api._list, *answering(reply(other))])
    async with running(informer):
        await informer.wait_synced()
        assert "a page of version 7 in a list of 102" in caplog.text
        assert values(informer) == truth(api)


@virtual
async def test_never_back_in_time_when_a_list_is_old() -> None:
    """An API server that lags: its lists are older than what another one told us."""
    api = cluster(kept=1, changed=1, deleted=1)
    old = await api._list(Request("GET", "/apis/test.dev/v1/things"))
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        await informer.wait_synced()
        api.put("things", "changed", value=2)
        api.remove("things", "deleted")
        api.put("things", "created", value=1)
        await until(lambda: values(informer) == truth(api))
        informer.add_handler("heard", heard, lambda key: None)
        await until(lambda: len(heard.story) == 3)
        api.next_lists.extend(answering(old, old, old))
        with api.gap():
            api.put("things", "kept", value=2)
            api.compact()
        await until(lambda: not api.next_lists)
        assert values(informer) == {"kept": 1, "changed": 2, "created": 1}, "no list, no loss, no return"
        await until(lambda: values(informer) == truth(api))
    assert heard.story[3:] == ["change kept=2"]


@virtual
async def test_old_events_and_replays_change_nothing() -> None:
    api = cluster(a=1)
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        informer.add_handler("heard", heard, lambda key: None)
        await until(lambda: len(api.asked(watch=True)) == 1)
        first = api.put("things", "a", value=2)
        second = api.put("things", "a", value=3)
        api.put("things", "b", value=1)
        api.remove("things", "b")
        gone = dict(api.history[-1][3])
        await until(lambda: len(heard.story) == 5)
        before = list(heard.story)
        api.say(line("MODIFIED", first) + line("MODIFIED", second) + line("ADDED", second))
        api.say(line("ADDED", api.history[-2][3]) + line("DELETED", gone))
        api.put("things", "c", value=1)
        await until(lambda: len(heard.story) == 6)
        assert values(informer) == truth(api)
    assert heard.story == [*before, "add c=1"]


@virtual
async def test_a_server_restored_from_a_backup_is_believed_in_the_end() -> None:
    api = cluster(a=1, b=1)
    informer, heard = informer_of(api), Heard()
    async with running(informer):
        await informer.wait_synced()
        api.put("things", "a", value=2)
        await until(lambda: values(informer) == {"a": 2, "b": 1})
        informer.add_handler("heard", heard, lambda key: None)
        await until(lambda: len(heard.story) == 2)
        with api.gap():
            api.objects["things"].clear()
            api.version = api.compacted = 50
            api.history.clear()
            api.put("things", "a", value=1)
        await until(lambda: values(informer) == {"a": 1})
        api.put("things", "c", value=1)
        await until(lambda: values(informer) == truth(api))
    assert heard.story[2:] == ["delete a=2", "add a=1", "delete b=1", "add c=1"]


@virtual
async def test_bookmarks_in_any_order() -> None:
    api = cluster(a=1)
    informer = informer_of(api)
    async with running(informer):
        await until(lambda: len(api.asked(watch=True)) == 1)
        api.version += 50
        early = api.bookmark(api.version + 2)
        api.say(api.bookmark() + api.bookmark() + api.bookmark(3) + early)
        api.put("things", "a", value=2)  # of a version that the early bookmark has passed already
        api.put("things", "b", value=2)
        await until(lambda: values(informer) == truth(api))
        api.version += 10
        api.say(api.bookmark() + api.bookmark(120))
        await until(lambda: informer._store.version == api.version)
        api.hang_up()
        await until(lambda: len(api.asked(watch=True)) == 2)
        assert api.asked(watch=True)[-1].query["resourceVersion"] == str(api.version), "resumes from the newest one"


@virtual
async def test_a_429_storm_is_sat_out_as_told() -> None:
    api = cluster(a=1)
    informer = informer_of(api)
    api.next_lists.extend(answering(*[refuse(429, "TooManyRequests", retry_after="7")] * 9))
    async with running(informer):
        await informer.wait_synced()
        assert asyncio.get_running_loop().time() >= 9 * 7
        assert len(api.asked(watch=False)) == 10
        assert values(informer) == truth(api)
