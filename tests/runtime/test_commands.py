"""`edl master` and `edl pserver` as a pod starts them, and what importing the runtime costs."""

import os
import subprocess
import sys

import pytest

BARE = {"PATH": os.environ["PATH"]}


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, env={**BARE, **env}, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", ["master", "pserver"])
@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "EDL_JOB_NAMESPACE is not set; the operator sets it in the pods of a job"),
        ({"EDL_INDEX": "first"}, "EDL_INDEX is 'first', it must be a whole number"),
        (
            {"EDL_JOB_NAMESPACE": "n", "EDL_JOB_NAME": "j", "EDL_JOB_TOKEN": "t", "EDL_SERVICE_URL": "edl"},
            "EDL_SERVICE_URL is 'edl', it must be https://host:port",
        ),
    ],
)
def test_a_pod_with_a_wrong_environment_says_which_variable(command: str, env: dict[str, str], words: str) -> None:
    done = run("-m", "edl.cli.main", command, **env)
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (2, f"edl {command}: {words}")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("edl.trainer", ["aiohttp", "asyncio", "rich", "cryptography", "yaml"]),
        ("edl.runtime.parameters.run", ["aiohttp", "asyncio", "rich", "cryptography", "yaml"]),
        ("edl.runtime.tasks.run", ["aiohttp", "asyncio", "rich", "cryptography", "yaml", "numpy"]),
    ],
)
def test_the_runtime_is_light(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    assert run("-c", code).stdout.strip() == "[]"
