"""Connects a command to the Brain: --url, else $EDL_BRAIN_URL, else that of `edl up`; with a token, or the key."""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import home
from edl.cli.errors import CommandError

if TYPE_CHECKING:
    from edl.brain.client import BrainClient

PORT = 8500


def add_brain_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="the Brain (default $EDL_BRAIN_URL, else `edl up`'s)")
    parser.add_argument("--token", help="default $EDL_BRAIN_TOKEN, else one made with the key")


def brain_client(options: argparse.Namespace, subject: str = "*") -> "BrainClient":
    """ValueError if there is neither a token nor a key to make one with."""
    from edl.brain.client import BrainClient
    from edl.brain.keys import key_at
    from edl.brain.tokens import mint

    token = options.token or os.environ.get("EDL_BRAIN_TOKEN")
    if not token:
        path = key_path(options)
        if not path.exists():
            raise ValueError(f"no Brain was ever started here ({path} is missing): give --token, or --key")
        token = mint(key_at(path), subject, time.time() + 60)
    url = options.url or os.environ.get("EDL_BRAIN_URL") or known_url()
    return BrainClient(url, token, ca=os.environ.get("EDL_BRAIN_CA", ""))


def key_path(options: argparse.Namespace) -> Path:
    given = getattr(options, "key", None)
    return Path(given or os.environ.get("EDL_BRAIN_KEY") or home() / "brain.key")


def known_url() -> str:
    """The Brain beside a cluster on this machine, else where one is by default."""
    place = home() / "brain.url"
    return place.read_text().strip() if place.exists() else f"http://127.0.0.1:{PORT}"


@contextmanager
def history_reader(options: argparse.Namespace) -> Iterator["BrainClient"]:
    """For commands that read the history, and say what to do where there is none."""
    from edl.brain.client import BrainDownError, BrainRefusalError
    from edl.brain.tokens import READER

    try:
        client = brain_client(options, READER)
    except ValueError as error:
        raise CommandError(f"{error}; the history is in Brain, `edl get` shows the jobs that exist") from None
    try:
        yield client
    except BrainRefusalError as error:
        raise CommandError(str(error)) from None
    except BrainDownError as error:
        known = "`edl get` and `edl describe` show what the cluster itself knows"
        raise CommandError(f"the Brain, which keeps the history, does not answer: {error}; {known}") from None
    finally:
        client.close()


def moment(text: str, now: float) -> float:
    """A time of day (2026-11-17 or with hours), or how long ago: 7d, 12h, 90m. ValueError says what is wanted."""
    from datetime import UTC, datetime

    from edl.api.kubernetes import duration

    number, unit = text[:-1], text[-1:]
    if unit in ("d", "w") and number.isdecimal():
        return now - int(number) * (86_400 if unit == "d" else 7 * 86_400)
    try:
        return now - duration.seconds(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: it must be as 7d, 12h, 90m, or a date as 2026-11-17") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
