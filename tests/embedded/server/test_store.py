"""The store against a plain model of it, across restarts, compaction, failing writes and damaged files."""

import asyncio
import random
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.embedded.server.storage.recovery import recover
from edl.embedded.server.storage.revisions import Change, CompactedError, Limits
from edl.embedded.server.storage.store import LogLimits, Store
from edl.embedded.server.storage.store_file import StoreDamagedError, StoreError, StoreFile

PODS = "/pods"
KEYS = [("", "x"), ("a", "x"), ("a", "y"), ("ab", "x"), ("b", "z")]


async def put(store: Store, name: str, body: bytes = b"1", namespace: str = "a") -> int:
    entry = store.put(PODS, (namespace, name), body)
    await store.committed()
    return entry.rv


def bodies(store: Store, namespace: str = "") -> dict[str, bytes]:
    return {f"{entry.namespace}/{entry.name}": entry.body for entry in store.entries(PODS, namespace)}


operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from(KEYS), st.binary(max_size=6)),
        st.tuples(st.sampled_from(["commit", "reopen"]), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(operations, st.integers(1, 12))
def test_it_is_what_a_dict_with_a_log_would_be(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, tuple[str, str], bytes]], kept: int
) -> None:
    path = tmp_path_factory.mktemp("store") / "store.db"

    async def story() -> None:
        store = Store(path, limits=Limits(changes=kept))
        model: dict[tuple[str, str], bytes] = {}
        snapshots: dict[int, dict[tuple[str, str], bytes]] = {0: {}}
        for verb, key, body in steps:
            if verb == "put":
                model[key] = body
                snapshots[store.put(PODS, key, body).rv] = dict(model)
            elif verb == "remove" and key in model:
                del model[key]
                snapshots[store.remove(PODS, key, body).rv] = dict(model)
            elif verb in ("commit", "reopen"):
                await store.committed()
            if verb == "reopen":
                await store.close()
                store = Store(path, limits=Limits(changes=kept))
        await store.committed()
        check(store, model, snapshots)
        await store.close()

    asyncio.run(story())


def check(
    store: Store, model: dict[tuple[str, str], bytes], snapshots: dict[int, dict[tuple[str, str], bytes]]
) -> None:
    assert {(e.namespace, e.name): e.body for e in store.entries(PODS)} == model
    assert [(e.namespace, e.name) for e in store.entries(PODS)] == sorted(model)
    assert [e.name for e in store.entries(PODS, "a")] == sorted(name for namespace, name in model if namespace == "a")
    for rv, then in snapshots.items():
        if rv < store.compacted:
            with pytest.raises(CompactedError):
                store.since(rv)
        else:
            found = {(e.namespace, e.name): e.body for e in store.entries_at(PODS, rv)}
            assert found == then
            assert [change.rv for change in store.since(rv)] == list(range(rv + 1, store.rv + 1))


async def test_writers_of_one_turn_share_a_transaction_and_see_each_other(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    heard: list[list[Change]] = []
    store.listen(PODS, heard.append)
    store.put(PODS, ("a", "x"), b"1")
    assert store.get(PODS, ("a", "x")) is None
    latest = store.latest(PODS, ("a", "x"))
    assert latest is not None
    assert latest.body == b"1"
    store.put(PODS, ("a", "x"), b"2")
    assert heard == []
    await store.committed()
    assert [[change.entry.body for change in batch] for batch in heard] == [[b"1", b"2"]]
    assert heard[0][1].old is heard[0][0].entry
    await store.close()


async def test_a_failing_listener_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "s.db")
    heard: list[int] = []

    def broken(changes: list[Change]) -> None:
        raise RuntimeError("listener")

    store.listen(PODS, broken)
    store.listen(PODS, lambda changes: heard.extend(change.rv for change in changes))
    await put(store, "x")
    await put(store, "y")
    assert heard == [1, 2]
    assert caplog.text.count("is dropped") == 1
    await store.close()


@pytest.mark.case("attack-1")
async def test_a_full_disk_fails_the_write_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    await put(store, "before")
    limit_pages(store)
    with pytest.raises(StoreError, match=r"s\.db: nothing was written: database or disk is full\. Free some space"):
        await put(store, "big", b"x" * 200_000)
    assert bodies(store) == {"a/before": b"1"}
    assert store.latest(PODS, ("a", "big")) is None
    limit_pages(store, 1 << 20)
    assert await put(store, "after") == 2
    await store.close()
    reopened = Store(tmp_path / "s.db")
    assert bodies(reopened) == {"a/after": b"1", "a/before": b"1"}
    await reopened.close()


def limit_pages(store: Store, extra: int = 1) -> None:
    database: sqlite3.Connection = store._file._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={pages + extra}")


async def test_every_writer_of_a_failed_turn_hears_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    limit_pages(store)

    async def write(number: int) -> bool:
        try:
            await put(store, f"n{number}", b"x" * 50_000)
        except StoreError:
            return False
        return True

    assert await asyncio.gather(*(write(number) for number in range(5))) == [False] * 5
    assert bodies(store) == {}
    await store.close()


async def test_the_file_does_not_grow_with_history(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db", limits=Limits(changes=50))
    for number in range(1500):
        store.put(PODS, ("a", f"n{number % 10}"), b"x" * 1000)
        if number % 10 == 0:
            await store.committed()
    await store.close()
    assert (tmp_path / "s.db").stat().st_size < 400_000
    reopened = Store(tmp_path / "s.db", limits=Limits(changes=50))
    assert reopened.rv == 1500
    assert reopened.compacted >= 1400
    await reopened.close()


async def test_revisions_go_on_after_everything_was_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db", limits=Limits(changes=1))
    await put(store, "x")
    store.remove(PODS, ("a", "x"), b"1")
    await store.committed()
    await put(store, "y")
    store.remove(PODS, ("a", "y"), b"1")
    await store.committed()
    await store.close()
    reopened = Store(tmp_path / "s.db", limits=Limits(changes=1))
    assert await put(reopened, "z") == 5
    await reopened.close()


async def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    with pytest.raises(StoreError, match="another process uses this store"):
        Store(tmp_path / "s.db")
    await store.close()
    await Store(tmp_path / "s.db").close()


async def filled(path: Path, count: int = 200) -> None:
    store = Store(path)
    for number in range(count):
        store.put(PODS, ("a", f"n{number:03}"), bytes([65 + number % 26]) * 500)
    await store.committed()
    await store.close()


async def test_a_changed_byte_is_found_and_the_rest_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    content = path.read_bytes()
    at = content.index(b"C" * 500) + 100
    path.write_bytes(content[:at] + b"!" + content[at + 1 :])
    with pytest.raises(
        StoreDamagedError, match=r"revision \d+ \(/pods a/n\d+\) does not match its checksum; `edl up --recover`"
    ):
        Store(path)
    result = recover(path)
    assert result.restored == 199
    assert len(result.damaged) == 1
    assert result.kept.read_bytes() != b""
    store = Store(path)
    assert len(bodies(store)) == 199
    assert store.rv > 200
    with pytest.raises(CompactedError):
        store.since(150)
    await store.close()


@pytest.mark.parametrize("seed", range(6))
async def test_broken_pages_never_pass_for_good(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    dice = random.Random(seed)
    content = bytearray(path.read_bytes())
    start = 4096 * dice.randrange(1, len(content) // 4096)
    content[start : start + 4096] = dice.randbytes(4096)
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match="`edl up --recover`"):
        Store(path)
    result = recover(path)
    assert result.damaged
    store = Store(path)
    found = bodies(store)
    assert len(found) == result.restored < 200
    assert all(body == bytes([65 + int(name[-3:]) % 26]) * 500 for name, body in found.items())
    await store.close()


async def test_a_recovery_that_is_interrupted_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    damaged = path.read_bytes().replace(b"C" * 500, b"C" * 499 + b"!", 1)
    path.write_bytes(damaged)
    with monkeypatch.context() as patched:
        patched.setattr(StoreFile, "write", raise_(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            recover(path)
    with pytest.raises(StoreDamagedError):
        Store(path)
    assert path.read_bytes() == damaged
    assert recover(path).restored == 199


def raise_(error: type[BaseException]) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("content", [b"not a database, " * 999, b"SQLite format 3\0" + b"\0" * 4000])
async def test_a_file_that_is_no_store(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match="the file is damaged"):
        Store(path)
    result = recover(path)
    assert (result.restored, result.kept.read_bytes()) == (0, content)
    assert result.damaged
    await Store(path).close()


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path, 1)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE setting SET value=99 WHERE name='format'")
    database.close()
    with pytest.raises(StoreError, match=r"written by another version of edl \(format 99\)"):
        Store(path)


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises((StoreError, FileNotFoundError)):
        Store(tmp_path / "nowhere" / "s.db")


@pytest.mark.case("attack-7")
async def test_the_log_stays_bounded_under_steady_writes(tmp_path: Path) -> None:
    """Never a turn without a write, so that SQLite by itself never begins its log anew."""
    store = Store(tmp_path / "s.db", log_limits=LogLimits(checkpoint_bytes=100_000, most_bytes=400_000))
    biggest = 0
    for number in range(1500):
        await put(store, f"n{number % 7}", b"x" * 3000)
        biggest = max(biggest, store._file.log_bytes)
    assert biggest < 500_000
    assert len(bodies(store)) == 7
    await store.close()
    reopened = Store(tmp_path / "s.db")
    assert reopened.rv == 1500
    await reopened.close()


async def test_writers_wait_for_a_slow_disk_and_the_event_loop_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()
    monkeypatch.setattr(StoreFile, "checkpoint", lambda _file: disk.wait())
    store = Store(tmp_path / "s.db", log_limits=LogLimits(checkpoint_bytes=50_000, most_bytes=200_000))
    number = 0
    while not store._writes_held:
        await put(store, f"n{number}", b"x" * 3000)
        number += 1
    waiting = asyncio.create_task(put(store, "last"))
    await asyncio.sleep(0)
    assert store.latest(PODS, ("a", "last")) is not None
    assert store.get(PODS, ("a", "last")) is None
    assert 200_000 <= store._file.log_bytes < 300_000
    disk.set()
    assert await waiting == number + 1
    await store.close()


async def test_a_foreign_reader_fails_no_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "s.db", log_limits=LogLimits(checkpoint_bytes=50_000, most_bytes=100_000))
    await put(store, "first")
    reader = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM revision").fetchall()
    for number in range(60):
        await put(store, f"n{number}", b"x" * 3000)
    assert "the write-ahead log could not be folded and grows: another process reads it" in caplog.text
    reader.close()
    for number in range(60):
        await put(store, f"n{number}", b"x" * 3000)
    await store.close()
    assert not (tmp_path / "s.db-wal").exists()


async def test_the_log_is_folded_into_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db", log_limits=LogLimits(checkpoint_bytes=500_000))
    for number in range(5000):
        store.put(PODS, ("a", f"n{number % 7}"), b"x" * 300)
        if number % 100 == 0:
            await store.committed()
    await store.committed()
    while store._checkpoint is not None:
        await asyncio.sleep(0.01)
    assert (tmp_path / "s.db").stat().st_size > 100_000
    await store.close()


async def killed(path: Path, at: Path, count: int = 30) -> None:
    """What a kill -9 leaves: a file and a log with acknowledged writes, copied while the store is open."""
    store = Store(path)
    for number in range(count):
        await put(store, f"n{number:03}", bytes([65 + number % 26]) * 500)
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{at}{suffix}")
    await store.close()


@pytest.mark.case("attack-10")
@pytest.mark.parametrize("seed", range(12))
async def test_a_damaged_log_is_noticed_and_nearly_all_of_it_comes_back(tmp_path: Path, seed: int) -> None:
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    await killed(tmp_path / "running.db", path)
    content = bytearray(log.read_bytes())
    where = random.Random(seed).randrange(len(content)) if seed > 2 else (5, 20, len(content) - 10)[seed]
    content[where] ^= 0x20
    log.write_bytes(content)
    with pytest.raises(StoreDamagedError, match=r"s\.db-wal: the log is damaged \(.*; `edl up --recover`"):
        Store(path)
    assert log.read_bytes() == content
    result = recover(path)
    assert "does not match its checksum" in result.log
    assert result.by_resource[PODS] == result.restored >= 28
    store = Store(path)
    assert len(bodies(store)) == result.restored
    assert all(body == bytes([65 + int(name[-3:]) % 26]) * 500 for name, body in bodies(store).items())
    await store.close()


@pytest.mark.case("attack-10")
async def test_the_message_counts_what_is_behind_the_damage(tmp_path: Path) -> None:
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    await killed(tmp_path / "running.db", path)
    content = bytearray(log.read_bytes())
    content[content.index(b"K" * 500) + 5] ^= 1
    log.write_bytes(content)
    with pytest.raises(StoreDamagedError, match=r"frame \d+ of \d+ .*; 20 acknowledged transactions after it"):
        Store(path)
    assert recover(path).restored >= 29


@pytest.mark.parametrize("cut", [1, 24, 25, 4000, 4096, 4120])
async def test_an_unfinished_write_is_no_damage(tmp_path: Path, cut: int) -> None:
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    await killed(tmp_path / "running.db", path)
    log.write_bytes(log.read_bytes()[:-cut])
    store = Store(path)
    assert len(bodies(store)) in (29, 30)
    await store.close()


async def test_frames_of_an_earlier_round_of_the_log_are_no_damage(tmp_path: Path) -> None:
    """SQLite begins its log anew by itself when all of it is folded, and writes over the former one."""
    store = Store(tmp_path / "running.db")
    for number in range(30):
        await put(store, f"n{number:03}", b"x" * 500)
    store._file._db.execute("PRAGMA journal_size_limit=-1")  # as if killed before SQLite cut what it left
    store._file.checkpoint()
    await put(store, "last")
    for suffix in ("", "-wal"):
        shutil.copy(f"{tmp_path}/running.db{suffix}", f"{tmp_path}/s.db{suffix}")
    await store.close()
    copied = Store(tmp_path / "s.db")
    assert len(bodies(copied)) == 31
    await copied.close()


@pytest.mark.case("attack-10")
@pytest.mark.parametrize("column", ["resource", "namespace", "name", "deleted", "rv"])
async def test_a_damaged_key_is_noticed(tmp_path: Path, column: str) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    value = {"deleted": "1", "rv": "1000"}.get(column, "'other'")
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE revision SET {column}={value} WHERE rv=100")
    database.close()
    with pytest.raises(StoreDamagedError, match="does not match its checksum"):
        Store(path)
    result = recover(path)
    assert (result.restored, len(result.damaged)) == (199, 1)


def as_format_1(path: Path) -> None:
    """The file as the version before wrote it: checksums of bodies alone."""
    with sqlite3.connect(path) as database:
        for rv, body in database.execute("SELECT rv, body FROM revision").fetchall():
            database.execute("UPDATE revision SET crc=? WHERE rv=?", (zlib.crc32(body), rv))
        database.execute("UPDATE setting SET value=1 WHERE name='format'")
    database.close()


async def test_a_file_of_the_version_before_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    as_format_1(path)
    for _ in range(2):
        store = Store(path)
        assert len(bodies(store)) == 200
        await put(store, "new")
        store.remove(PODS, ("a", "new"), b"1")
        await store.close()
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT value FROM setting WHERE name='format'").fetchone() == (2,)
    database.close()


async def test_a_damaged_file_of_the_version_before_is_noticed_and_recovered(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await filled(path)
    as_format_1(path)
    path.write_bytes(path.read_bytes().replace(b"C" * 500, b"C" * 499 + b"!", 1))
    with pytest.raises(StoreDamagedError, match="does not match its checksum"):
        Store(path)
    assert recover(path).restored == 199
    store = Store(path)
    assert len(bodies(store)) == 199
    await store.close()
