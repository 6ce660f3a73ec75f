"""A key and a certificate that are replaced while the Brain serves: used without a restart, and never half of them."""

import asyncio
import ssl
from pathlib import Path

import pytest

from edl.brain import run
from edl.brain.client import BrainClient, BrainDownError, BrainRefusalError
from edl.brain.credentials import Credentials
from edl.brain.policy.settings import DEFAULTS
from edl.brain.quotas import Quota
from edl.brain.sqlite import SqliteDatabase
from edl.brain.tokens import mint
from edl.certificates import Authority

KEYS = (b"a first key for tests", b"a second key for tests")


def put(folder: Path, authority: Authority, key: bytes) -> None:
    pair = authority.issue("brain", hosts=["127.0.0.1"])
    for name, value in (("key", key), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / f"{name}.new").write_bytes(value)
        (folder / f"{name}.new").replace(folder / name)


def credentials(folder: Path) -> Credentials:
    return Credentials(folder / "key", folder / "tls.crt", folder / "tls.key")


async def test_new_ones_are_used_while_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "RELOAD_INTERVAL", 0.02)
    old, new = Authority.create("old"), Authority.create("new")
    put(tmp_path, old, KEYS[0])
    where: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        run.serve(
            SqliteDatabase(str(tmp_path / "brain.db")), credentials(tmp_path),
            host="127.0.0.1", port=0, settings=DEFAULTS, quota=Quota(), share_history=False,
            ready=where.set_result,
        )
    )  # fmt: skip
    url = await where

    async def asked(authority: Authority, key: bytes) -> bool:
        client = BrainClient(url, mint(key, "*"), ca=authority.pair.certificate.decode(), timeout=30)
        try:
            return await asyncio.to_thread(client.jobs) == []
        except (BrainDownError, BrainRefusalError):
            return False

    while not await asked(old, KEYS[0]):
        await asyncio.sleep(0.02)  # its database is being opened
    put(tmp_path, new, KEYS[1])
    while not await asked(new, KEYS[1]):
        await asyncio.sleep(0.02)
    assert not await asked(new, KEYS[0]), "tokens of the old key open nothing"
    assert not await asked(old, KEYS[1]), "and the old authority has no say"
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def test_what_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    put(tmp_path, Authority.create("a"), KEYS[0])
    held = credentials(tmp_path)
    assert isinstance(held.tls, ssl.SSLContext)
    assert not held.reload()
    (tmp_path / "key").write_bytes(b"short")
    assert not held.reload()
    assert held.key == KEYS[0]
    (tmp_path / "key").unlink()
    assert not held.reload()
    put(tmp_path, Authority.create("a"), KEYS[1])
    assert held.reload()
    assert held.key == KEYS[1]


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    put(tmp_path, Authority.create("a"), KEYS[0])
    (tmp_path / "tls.crt").write_text("rubbish")
    with pytest.raises(ValueError, match=r"tls\.crt cannot be used as a certificate"):
        credentials(tmp_path)
