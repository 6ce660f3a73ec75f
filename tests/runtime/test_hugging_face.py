"""Scripts of Hugging Face find the job service as a server of their progress, in files and variables of their own."""

import stat
import subprocess
import sys
from pathlib import Path

from edl.protocol.progress_server import CA_FILE, TOKEN_FILE, URL
from edl.runtime.hugging_face import offer_progress_server

POD = {
    "EDL_SERVICE_URL": "https://edl:8443",
    "EDL_JOB_NAMESPACE": "ns",
    "EDL_JOB_NAME": "j",
    "EDL_JOB_TOKEN": "secret",
    "EDL_SERVICE_CA": "authority",
}


def test_address_and_files_are_named() -> None:
    env = dict(POD)
    offer_progress_server(env)
    token, authority = Path(env[TOKEN_FILE]), Path(env[CA_FILE])
    assert env[URL] == "https://edl:8443/v1/jobs/ns/j/trainer-status"
    assert (token.read_text(), authority.read_text()) == ("secret", "authority")
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700


def test_what_the_user_has_set_counts() -> None:
    env = {**POD, URL: "https://elsewhere"}
    offer_progress_server(env)
    assert env == {**POD, URL: "https://elsewhere"}


def test_outside_of_a_pod_nothing_is_offered() -> None:
    env = {"EDL_JOB_NAME": "j"}
    offer_progress_server(env)
    assert env == {"EDL_JOB_NAME": "j"}


AGENT = f"""
import os, sys
from edl.runtime.hugging_face import offer_progress_server
env = {POD!r}
offer_progress_server(env)
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
print(os.path.exists(env[{TOKEN_FILE!r}]), env[{TOKEN_FILE!r}])
"""


def test_the_token_goes_with_the_agent_and_not_with_a_process_that_it_forked() -> None:
    said = subprocess.run([sys.executable, "-c", AGENT], check=True, capture_output=True, text=True).stdout.split()
    assert said[0] == "True"
    assert not Path(said[1]).parent.exists()
