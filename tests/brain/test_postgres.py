"""The same Brain on a real PostgreSQL: a server of the test's own making, on a socket in its own directory."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from edl.brain.database import MIGRATIONS, UnavailableError, connect
from edl.brain.store import Store
from edl.protocol.brain import Beginning, Ending
from edl.protocol.job_facts import Sample
from tests.brain.serving import brain
from tests.brain.test_history import keep_and_read
from tests.brain.test_logs import keep_and_trim
from tests.brain.test_server import CTR, JOB, Clock, lead

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.may_skip("needs PostgreSQL (Debian: postgresql) and asyncpg (the extra postgres)"),
]


def program(name: str) -> str:
    """Debian keeps the server's programs out of the way."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = shutil.which(name) or (str(places[0]) if places else "")
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


class Postgres:
    """Runs as somebody else if we are root, whom PostgreSQL refuses."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._data = folder, folder / "data"
        self._user = "nobody" if os.getuid() == 0 else None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", str(self._data), "-U", "edl", "-A", "trust", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://edl@/postgres?host={self._folder}"

    async def new_database(self, name: str) -> str:
        """Returns its URL."""
        import asyncpg

        connection = await asyncpg.connect(self.url)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()
        return self.url.replace("/postgres?", f"/{name}?")

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
        self._run(
            "pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-l", str(self._folder / "log"), "-o", options, "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", mode, "stop")

    def _run(self, name: str, *words: str) -> None:
        subprocess.run(
            [program(name), *words], user=self._user, cwd=self._folder, env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            check=True, stdout=subprocess.DEVNULL, timeout=90,
        )  # fmt: skip


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """In a directory of its own: the one that pytest makes is for our eyes only."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    program("initdb")
    with tempfile.TemporaryDirectory(prefix="edl-postgres-", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop()


async def test_a_job_is_led_and_remembered_by_every_brain_on_the_database(postgres: Postgres) -> None:
    clock = Clock()
    async with brain(connect(postgres.url), clock=clock) as call:
        assert await lead(call, clock, JOB, 6) == [2, 4, 8, 6]
        await call("POST", f"{JOB}/outcome", Ending("succeeded"))
        assert (await call("GET", "/v1/jobs/ns/first"))[1]["job"]["outcome"] == "succeeded"
        async with brain(connect(postgres.url), clock=clock) as other:
            _, answer = await other("POST", "/v1/jobs/ns/second/u2", Beginning(CTR))
    assert answer["plan"]["roles"]["worker"]["replicas"] == 6


async def test_a_server_that_goes_away_is_503_and_found_again(postgres: Postgres) -> None:
    async with brain(connect(postgres.url), clock=Clock()) as call:
        assert (await call("POST", JOB, Beginning(CTR)))[0] == 200
        postgres.stop()
        assert (await call("POST", JOB, Beginning(CTR)))[0] == 503
        postgres.start()
        until = time.monotonic() + 30
        while (await call("POST", JOB, Beginning(CTR)))[0] != 200:
            assert time.monotonic() < until
        assert (await call("GET", JOB))[0] == 200


async def test_logs_are_kept_there_as_in_sqlite(postgres: Postgres) -> None:
    await keep_and_trim(connect(await postgres.new_database("logs")))


COUNTED = 3  # the version from which on namespace and bytes are written with the job


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
async def test_tables_of_every_earlier_version_are_brought_up_to_date(
    postgres: Postgres, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await postgres.new_database(f"version{version}")
    with monkeypatch.context() as patch:
        patch.setattr("edl.brain.postgres.MIGRATIONS", MIGRATIONS[:version])
        old = connect(url)
        await old.open()
        features, sample = msgspec.json.encode(CTR).decode(), msgspec.json.encode(Sample(2.0, 1.0, 1, 1.0)).decode()
        job = "INSERT INTO jobs (job, features, created, updated) VALUES ($1, $2, $3, $3)"
        samples = "INSERT INTO samples (job, time, data) VALUES ($1, $2, $3)"
        await old.write([(job, ("ns/old/u", features, 1.0)), (samples, ("ns/old/u", 2.0, sample))])
        if version >= COUNTED:
            await old.write([("UPDATE jobs SET namespace = $1, bytes = $2", ("ns", len(features) + len(sample)))])
        await old.close()
    for _ in range(2):  # again, it finds nothing to do
        store = Store(connect(url))
        await store.open()
        history = await store.history("ns/old/u")
        assert history is not None
        assert (history.job.features, len(history.samples)) == (CTR, 1)
        found = await store._database.fetch(
            ("SELECT namespace, bytes FROM jobs", ()), ("SELECT version FROM edl_brain", ())
        )
        assert [tuple(rows[0]) for rows in found] == [("ns", len(features) + len(sample)), (len(MIGRATIONS),)]
        await store.close()


async def test_writes_are_all_or_nothing_and_tables_are_made_once(postgres: Postgres) -> None:
    first, second = Store(connect(postgres.url)), Store(connect(postgres.url))
    await first.open()
    await second.open()
    await first.begin("ns/whole/u", CTR, 1.0)
    assert await first.report("ns/whole/u", [Sample(2.0, 1.0, 1, 1.0)], now=2.0)
    assert not await first.report("ns/never/u", [Sample(2.0, 1.0, 1, 1.0)], now=2.0)
    with pytest.raises(UnavailableError):
        await first._database.write([("DELETE FROM samples", ()), ("DELETE FROM nothing", ())])
    history = await second.history("ns/whole/u")
    assert history is not None
    assert len(history.samples) == 1
    await first.close()
    await second.close()


async def test_a_deleted_jobs_history_and_account_are_there_after_a_restart_of_the_server(postgres: Postgres) -> None:
    first = connect(postgres.url)
    await first.open()
    await first.close()
    postgres.stop("fast")
    postgres.start()
    await keep_and_read(connect(postgres.url), connect(postgres.url))
