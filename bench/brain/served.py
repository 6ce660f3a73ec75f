"""A Brain in a process of its own on one core, as it is installed (TLS, tokens of jobs), and somebody who asks it."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from edl.certificates import Authority

KEY = b"a key for benchmarks"
SERVER = """
import asyncio, os, sys
from pathlib import Path
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
from edl.brain.credentials import Credentials
from edl.brain.database import connect
from edl.brain.policy.settings import DEFAULTS
from edl.brain.quotas import Quota
from edl.brain.run import serve
folder = Path(sys.argv[1])
credentials = Credentials(folder / "key", folder / "tls.crt", folder / "tls.key")
asyncio.run(serve(connect(str(folder / "brain.db")), credentials, host="localhost", port=0, settings=DEFAULTS,
                  quota=Quota(jobs=10**6, mebibytes=10**6, calls=10**6), share_history=False,
                  ready=lambda url: print(url, flush=True)))
"""
# The bound: the same requests, answered without doing anything.
EMPTY = """
import asyncio, os, ssl, sys
from pathlib import Path
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
from aiohttp import web
folder = Path(sys.argv[1])
async def nothing(request):
    await request.read()
    return web.Response(body=b"{}")
async def main():
    app = web.Application()
    app.router.add_post("/{rest:.*}", nothing)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    await web.TCPSite(runner, "localhost", 0, ssl_context=tls).start()
    print(f"https://localhost:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


class Served(msgspec.Struct, frozen=True):
    url: str
    ca: str
    process: int

    def busy(self) -> float:
        """Processor seconds of the server up to now."""
        times = psutil.Process(self.process).cpu_times()
        return times.user + times.system


@contextlib.contextmanager
def served(script: str, folder: Path) -> Iterator[Served]:
    """Its database is the one in the folder. The caller stays away from the server's core, if there is another."""
    authority = Authority.create("bench CA")
    pair = authority.issue("bench", hosts=["localhost"])
    for name, value in (("key", KEY), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_bytes(value)
    command = [sys.executable, "-c", script, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(cores)[1:]) or cores)
    try:
        port = process.stdout.readline().strip().rpartition(":")[2]
        yield Served(f"https://localhost:{port}", authority.pair.certificate.decode(), process.pid)
    finally:
        os.sched_setaffinity(0, cores)
        process.terminate()
        process.wait()
        process.stdout.close()
