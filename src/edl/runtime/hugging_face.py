"""Lets Hugging Face's Trainer report its progress to the job service by itself: it asks for an address and two files.

Called in the agent's process, whose environment the training processes inherit. What the user has set counts.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from edl.protocol.progress_server import CA_FILE, CALL, TOKEN_FILE, URL
from edl.runtime.environment import Environment


def offer_progress_server(env: MutableMapping[str, str]) -> None:
    """Nothing outside of a pod of ours, nor where the files cannot be written: then progress comes another way."""
    here = Environment.read(env)
    if URL in env or not (here.service_url and here.token and here.namespace and here.job):
        return
    try:
        folder = Path(tempfile.mkdtemp(prefix="edl-progress-"))  # ours alone: the token is in it
        atexit.register(_remove, folder, os.getpid())
        token, authority = folder / "token", folder / "ca.crt"
        token.write_text(here.token)
        authority.write_text(here.service_ca)
    except OSError:
        return
    os.chmod(token, 0o600)
    env[URL] = f"{here.service_url.rstrip('/')}/v1/jobs/{here.namespace}/{here.job}/{CALL}"
    env[TOKEN_FILE] = str(token)
    if here.service_ca:
        env[CA_FILE] = str(authority)


def _remove(folder: Path, owner: int) -> None:
    """A process that the agent forked ends before the agent does, and has this handler too."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
