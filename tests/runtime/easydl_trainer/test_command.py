"""`edl trainer` as a pod starts it with a wrong environment."""

import os
import subprocess
import sys

import pytest

WHOLE = {"EDL_JOB_NAMESPACE": "n", "EDL_JOB_NAME": "j", "EDL_JOB_TOKEN": "t", "EDL_SERVICE_URL": "https://x:1"}


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "EDL_JOB_NAMESPACE is not set; the operator sets it in the pods of a job"),
        ({"EDL_PLAN_SECONDS": "soon"}, "EDL_PLAN_SECONDS is 'soon', it must be a number of seconds above 0"),
        ({**WHOLE, "EDL_SERVICE_URL": "edl"}, "EDL_SERVICE_URL is 'edl', it must be https://host:port"),
        ({**WHOLE, "EDL_PLAN_SETTINGS": "{"}, "EDL_PLAN_SETTINGS is '{', it must be JSON of settings"),
    ],
)
def test_a_wrong_environment_is_named(env: dict[str, str], words: str) -> None:
    command = [sys.executable, "-m", "edl.cli.main", "trainer"]
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert f"edl trainer: {words}" in done.stderr
