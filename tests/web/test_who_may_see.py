"""Who may see what: nothing without a credential, one namespace with rights to one, and no count of anything else."""

import asyncio

import pytest

from edl.kube.rest.access_reviews import REMEMBERED_FOR
from edl.web.access.sessions import CODE_SECONDS, CODES, IDLE_SECONDS, MOST_SECONDS, SESSIONS, Grant, Sessions
from edl.web.server import WebSettings
from tests.web.world import KIND, only_in, sized, world

CALLS = ("session", "jobs", "cluster", "plan", f"jobs/{KIND}/red/a", f"jobs/{KIND}/red/a/events", "stream?view=jobs")


@pytest.mark.parametrize("call", CALLS)
async def test_nobody_sees_anything_without_a_credential(call: str) -> None:
    async with world() as there:
        for token in ("", "unknown", "edl-session.forged", "x" * 8000):
            status, found = await there.get(call, token=token)
            assert (status, found["code"]) == (401, "unauthorized"), token


async def test_rights_in_one_namespace_show_that_one_alone() -> None:
    async with world() as there:
        for name in ("red", "blue"):
            await there.namespace(name)
        await there.node("n-0")
        await there.job("a", "red")
        hidden = await there.job("b", "blue", **sized(2, reason="the secret of blue"))
        await there.pod(hidden, 0, "n-0")
        await there.shown("a", "b")
        there.api.users["rita"] = only_in("red")
        status, found = await there.get("jobs", token="rita")
        assert status == 200
        assert [row["name"] for row in found["rows"]] == ["a"]
        session = (await there.get("session", token="rita"))[1]
        assert (session["namespaces"], session["cluster"]) == (["red"], False)
        for call in ("cluster", "plan", "stream?view=cluster"):
            status, found = await there.get(call, token="rita")
            assert (status, found["code"]) == (403, "forbidden")
        absent = await there.get(f"jobs/{KIND}/blue/nothing", token="rita")
        for more in ("", "/events", "/manifest", "/pods/b-trainer-0/log", "/logs", "/logs/b-trainer-0?uid=u"):
            status, found = await there.get(f"jobs/{KIND}/blue/b{more}", token="rita")
            assert (status, found["code"]) == (404, "not-found")
            assert "secret" not in str(found)
        assert absent[0] == 404


async def test_a_stream_says_nothing_of_other_namespaces() -> None:
    async with world() as there:
        for name in ("red", "blue"):
            await there.namespace(name)
        await there.job("a", "red")
        await there.shown("a")
        there.api.users["rita"] = only_in("red")
        async with there.stream("view=jobs", token="rita") as stream:
            assert [row["name"] for row in (await stream.next("jobs"))["rows"]] == ["a"]
            await there.job("b", "blue")
            await there.shown("b")
            await there.job("c", "red")
            heard = await stream.next("jobs")
            assert {row["namespace"] for row in heard["rows"]} == {"red"}
            assert heard["gone"] == []


async def test_pods_and_logs_have_rights_of_their_own() -> None:
    async with world() as there:
        await there.node("n-0")
        job = await there.job("a")
        pod = await there.pod(job, 0, "n-0")
        await there.until(lambda: there.state.usage.by_job, "its pod is known")
        there.api.users["jo"] = lambda asked: asked["resource"] not in ("pods", "nodes", "events")
        status, found = await there.get(f"jobs/{KIND}/default/a", token="jo")
        assert (status, found["pods"]) == (200, None)
        assert any("pods" in note for note in found["missing"])
        assert pod not in str(found)
        status, found = await there.get(f"jobs/{KIND}/default/a/pods/{pod}/log", token="jo")
        assert (status, found["code"]) == (403, "forbidden")


async def test_a_token_that_expires_ends_the_stream_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edl.web.stream.RECHECK", 0.0)
    monkeypatch.setattr("edl.kube.rest.access_reviews.REMEMBERED_FOR", 0.0)
    async with world() as there:
        there.api.users["rita"] = lambda asked: True
        await there.job("a")
        async with there.stream("view=jobs", token="rita") as stream:
            await stream.next("jobs")
            del there.api.users["rita"]
            await there.job("b")
            assert (await stream.next("refused"))["code"] == "unauthorized"
        assert (await there.get("jobs", token="rita"))[0] == 401


async def test_the_word_of_the_api_server_counts_for_a_minute() -> None:
    async with world() as there:
        assert (await there.get("session"))[0] == 200
        asked = there.api.reviews
        for _ in range(5):
            assert (await there.get("session"))[0] == 200
        assert there.api.reviews == asked
        assert REMEMBERED_FOR <= 60.0


async def test_the_api_server_goes_away_and_comes_back() -> None:
    async with world() as there:
        await there.job("a")
        await there.shown("a")
        async with there.stream("view=jobs") as stream:
            assert (await stream.next("liveness"))["live"]
            there.api.away = True
            away = await stream.next("liveness")
            assert not away["live"]
            assert away["why"]
            assert (await there.get("jobs", token="stranger"))[0] == 503  # nobody can say who that is
            assert [row["name"] for row in (await there.get("jobs"))[1]["rows"]] == ["a"]  # what was known is shown
            there.api.away = False
            back = await stream.next("liveness")
            assert back["live"]
            await there.job("b")
            await there.shown("b")


# Sessions.


async def test_a_code_begins_one_session_and_no_second() -> None:
    async with world() as there:
        made = (await there.ask("POST", "/api/v1/codes"))[1]["code"]
        status, found = await there.ask("POST", "/api/v1/login", token="", body={"code": made})
        assert status == 200
        session = found["session"]
        assert (await there.ask("GET", "/api/v1/session", token="", EDL_Token=session))[0] == 200
        assert (await there.ask("POST", "/api/v1/login", token="", body={"code": made}))[0] == 401
        await there.ask("POST", "/api/v1/logout", token="", EDL_Token=session)
        assert (await there.ask("GET", "/api/v1/session", token="", EDL_Token=session))[0] == 401


async def test_whoever_holds_the_sessions_of_the_server_makes_codes_that_log_in() -> None:
    async with world() as there:
        code = there.sessions.code(Grant("admin"))
        assert (await there.ask("POST", "/api/v1/login", token="", body={"code": code}))[0] == 200


async def test_a_session_that_only_looks_cannot_act() -> None:
    async with world(WebSettings(actions=True)) as there:
        await there.job("a")
        await there.shown("a")
        for asked, expected in (("", 403), ("?actions=1", 200)):
            code = (await there.ask("POST", f"/api/v1/codes{asked}"))[1]["code"]
            session = (await there.ask("POST", "/api/v1/login", token="", body={"code": code}))[1]["session"]
            place = f"/api/v1/jobs/{KIND}/default/a/size"
            status, _ = await there.ask("POST", place, token="", body={"size": 3}, EDL_Token=session)
            assert status == expected
            if not asked:  # nor can it make a code that may
                status, found = await there.ask("POST", "/api/v1/codes?actions=1", token="", EDL_Token=session)
                session = (await there.ask("POST", "/api/v1/login", token="", body={"code": found["code"]}))[1][
                    "session"
                ]
                assert (await there.ask("POST", place, token="", body={"size": 3}, EDL_Token=session))[0] == 403


async def test_a_token_logs_in_and_a_wrong_one_does_not() -> None:
    async with world() as there:
        assert (await there.ask("POST", "/api/v1/login", token="", body={"token": "admin"}))[0] == 200
        for wrong in ("", "nobody", "a\nb", "ü"):
            assert (await there.ask("POST", "/api/v1/login", token="", body={"token": wrong}))[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"EDL_Request": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
async def test_another_site_cannot_act(headers: dict[str, str]) -> None:
    async with world(WebSettings(actions=True)) as there:
        await there.job("a")
        await there.shown("a")
        status, found = await there.ask("POST", f"/api/v1/jobs/{KIND}/default/a/size", body={"size": 3}, **headers)
        assert (status, found["code"]) == (403, "forbidden")


async def test_a_foreign_name_pointed_at_loopback_is_refused() -> None:
    async with world(WebSettings(hosts=("127.0.0.1", "localhost"))) as there:
        assert (await there.ask("GET", "/", Host="evil.example"))[0] == 403
        assert (await there.ask("GET", "/", Host="localhost"))[0] == 200
        assert (await there.get("session"))[0] == 200


def test_sessions_end_and_are_bounded() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    session = sessions.begin(Grant("t"))
    now[0] += IDLE_SECONDS - 1
    assert sessions.grant(session) == Grant("t")
    now[0] += IDLE_SECONDS + 1
    assert sessions.grant(session) is None
    kept = sessions.begin(Grant("t"))
    begun = now[0]
    while now[0] - begun <= MOST_SECONDS - IDLE_SECONDS:
        now[0] += IDLE_SECONDS / 2
        assert sessions.grant(kept) is not None
    now[0] = begun + MOST_SECONDS + 1
    assert sessions.grant(kept) is None
    first = sessions.begin(Grant("t"))
    for _ in range(SESSIONS):
        sessions.begin(Grant("t"))
    assert len(sessions) == SESSIONS
    assert sessions.grant(first) is None


def test_codes_are_short_lived_and_bounded() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    late = sessions.code(Grant("t"))
    now[0] += CODE_SECONDS
    assert sessions.redeem(late) is None
    first = sessions.code(Grant("t"))
    for _ in range(CODES):
        sessions.code(Grant("t"))
    assert sessions.redeem(first) is None


async def test_no_secret_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with world(WebSettings(actions=True)) as there:
        there.api.users["s3cr3t-token"] = lambda asked: True
        await there.job("a")
        await there.shown("a")
        code = (await there.ask("POST", "/api/v1/codes?actions=1", token="s3cr3t-token"))[1]["code"]
        session = (await there.ask("POST", "/api/v1/login", token="", body={"code": code}))[1]["session"]
        await there.ask("POST", f"/api/v1/jobs/{KIND}/default/a/size", token="", body={"size": 3}, EDL_Token=session)
        await asyncio.sleep(0)
        for secret in (code, session, session.partition(".")[2]):
            assert secret not in caplog.text
