"""A damaged store on the command line: `edl up` names the problem and the fix, and `edl up --recover` applies it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edl.embedded.server import ADMIN, Server
from tests.conformance.samples import config
from tests.embedded.server.requests import ask

MAPS = "/api/v1/namespaces/default/configmaps"


def edl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"EDL_HOME": str(home)}
    command = [sys.executable, "-m", "edl.cli.main", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.case("attack-10")
async def test_up_with_a_damaged_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    async with Server(home / "store.db", tokens={"t": ADMIN}) as server:
        await ask(server, "POST", MAPS, config("kept", a="k" * 300))
        await ask(server, "POST", MAPS, config("lost", a="l" * 300))
    damaged = (home / "store.db").read_bytes().replace(b"l" * 300, b"l" * 299 + b"!")
    (home / "store.db").write_bytes(damaged)
    refused = edl(home, "up", "--no-operator")
    assert refused.returncode == 1
    assert "configmaps default/lost) does not match its checksum; `edl up --recover` keeps a copy" in refused.stderr
    recovered = edl(home, "up", "--no-operator", "--recover")
    try:
        assert recovered.returncode == 0, recovered.stderr
        assert "the damaged file is kept as" in recovered.stdout
        assert "/configmaps default/lost" in recovered.stdout
        assert (home / "store.db.damaged-1").read_bytes() == damaged
    finally:
        assert edl(home, "down").returncode == 0
    async with Server(home / "store.db", tokens={"t": ADMIN}) as server:
        assert (await ask(server, "GET", f"{MAPS}/kept"))[0] == 200
        assert (await ask(server, "GET", f"{MAPS}/lost"))[0] == 404
