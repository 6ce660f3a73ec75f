"""Whatever stands in objects, logs or calls: it is shown or refused, never obeyed, and the next call is answered."""

import itertools
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.api.kubernetes.meta import ObjectMeta
from edl.jobs.registry import JOB_KINDS
from edl.operator.resources import RawJob
from edl.web import types
from edl.web.logs import LINE, LineCutter, harmless
from edl.web.model.detail import decisions_of
from edl.web.model.rows import LONGEST, row_of
from edl.web.server import WebSettings
from edl.web.static import HEADERS, assets
from tests.web.world import KIND, sized, world

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["phase", "reason", "scale", "scale_status", "progress", "conditions", "completionTime"])
INNER = st.sampled_from(["current", "target", "reason", "code", "done", "total", "loss", "history", "type", "status"])
STATUS = st.dictionaries(FIELDS, JUNK | st.dictionaries(INNER, JUNK, max_size=4), max_size=5) | JUNK


@given(spec=JUNK, status=STATUS, kind=st.sampled_from(JOB_KINDS))
def test_any_object_becomes_a_row_that_json_can_carry(spec: Any, status: Any, kind: Any) -> None:
    raw = RawJob(metadata=ObjectMeta(name="a", namespace="b", uid="u"), spec=spec, status=status)
    row = row_of(kind, raw)
    assert msgspec.json.decode(msgspec.json.encode(row), type=types.JobRow) == row
    assert len(row.reason) <= LONGEST


@given(history=JUNK | st.lists(st.dictionaries(st.sampled_from(["from", "to", "reason", "time"]), JUNK)))
def test_any_history_becomes_decisions(history: Any) -> None:
    msgspec.json.encode(decisions_of(history))


@given(data=st.binary(max_size=300) | st.text(max_size=200).map(str.encode), cuts=st.lists(st.integers(0, 300)))
def test_a_log_cut_anywhere_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    whole, cut = LineCutter(), LineCutter()
    places = sorted({0, len(data), *(one for one in cuts if one <= len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    once = [*whole.feed(data), *whole.last()]
    assert [line for piece in pieces for line in cut.feed(piece)] + cut.last() == once
    assert not any(ord(character) < 32 and character != "\t" for _, text in once for character in text)


def test_a_line_of_a_megabyte_takes_no_more_memory_than_a_line() -> None:
    cutter = LineCutter()
    lines = [line for _ in range(256) for line in cutter.feed(b"x" * 4096)]
    assert sum(len(text) for _, text in lines) <= LINE + 2
    assert len(cutter._rest) <= LINE
    assert cutter.feed(b"\nnext one\n")[-1][1] == "one"


def test_escape_codes_are_taken_out_and_controls_written_out() -> None:
    assert harmless("\x1b[1;31mred\x1b[0m") == "red"
    assert harmless("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\") == "link"
    assert harmless("a\x00b\x9bc\u202ed") == "a\\x00b\\x9bc\\x202ed"
    assert harmless("\tkept") == "\tkept"


async def test_markup_in_a_reason_is_text_and_nothing_else() -> None:
    reason = "<img src=x onerror=alert(1)> \"quoted\" & '</script>'\u2028\n\nevent: refused"
    async with world() as there:
        await there.job("a", **sized(1, reason=reason))
        await there.shown("a")
        async with there.stream("view=jobs") as stream:
            first = await stream.next("jobs")
            while not first["rows"] or not first["rows"][0]["reason"]:
                first = await stream.next("jobs")
            assert first["rows"][0]["reason"] == reason


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
WORDS = ("session", "jobs", "assets", "..", "%2e%2e", "%00", KIND, "default", "a", "é", "x" * 300, "stream", "log", "")
STARTS = ("/", "/api/v1/", f"/api/v1/jobs/{KIND}/", f"/api/v1/jobs/{KIND}/default/a/", "/assets/")
BODIES = (b"", b"{", b"null", b'{"size": 1e400}', b'{"size": "x"}', b"\xff", b"[" * 2000, b'{"code": 1}')
QUERIES = ("", "?view=job&job=a", "?tail=-1", "?policy=%00", "?view=job&job=a/b/c", "?x=" + "y" * 3000)


@pytest.mark.parametrize("seed", range(4))
async def test_junk_calls_are_refused_and_the_next_is_answered(seed: int) -> None:
    dice = random.Random(seed)
    async with world(WebSettings(actions=True)) as there:
        await there.job("a")
        await there.shown("a")
        for _ in range(60):
            path = dice.choice(STARTS) + "/".join(dice.choice(WORDS) for _ in range(dice.randint(0, 3)))
            query = dice.choice(QUERIES)
            method, body = dice.choice(METHODS), dice.choice(BODIES)
            if method == "DELETE":
                continue
            status, found = await there.ask(method, path + query, body=body if method != "GET" else None)
            assert status < 500, (method, path, query, body[:40], found)
            if status >= 400 and method != "HEAD":
                assert set(found) == {"error", "code"}, (method, path)
        assert (await there.get("jobs"))[0] == 200


async def test_every_answer_forbids_what_a_page_does_not_need() -> None:
    async with world() as there:
        for path in ("/", "/assets/app.js", "/assets/nothing", "/api/v1/jobs", "/nowhere"):
            async with there._session.get(there.url + path) as answer:
                for name, value in HEADERS.items():
                    assert answer.headers[name] == value, path
                policy = answer.headers["Content-Security-Policy"]
                assert "unsafe" not in policy
                assert "default-src 'none'" in policy


def test_the_page_names_no_other_host_and_parses_no_markup() -> None:
    """`http` stands only in the name of SVG's own namespace."""
    for name, asset in assets().items():
        text = asset.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, name
        assert "https:" not in text, name
        assert "//cdn" not in text, name
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            'style="',
        ):
            assert word not in text, (name, word)
