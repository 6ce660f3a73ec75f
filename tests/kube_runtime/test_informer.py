"""The informer against every way that a list or a watch can go wrong: afterwards the cache is the truth."""

import pytest

from edl.kube.transport import Response
from tests.kube_runtime.fake_api import FakeApi, answering, refuse
from tests.kube_runtime.things import Heard, informer_of, running, truth, until, values
from tests.virtual_time import virtual


def cluster(**things: int) -> FakeApi:
    api = FakeApi()
    for name, value in things.items():
        api.put("things", name, value=value)
    return api


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
        await until(lambda: values(informer) == truth(api))
        await until(lambda: len(heard.story) == 5)
    told = ["add created=1", "add reborn=7", "change changed=2", "delete deleted=1", "delete reborn=1"]
    assert sorted(heard.story) == told, "the same name with another uid is a delete and an add"
