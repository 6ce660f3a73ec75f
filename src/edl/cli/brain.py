"""`edl brain`: the resource optimiser of EasyDL jobs. Without a further word it serves; docs/brain.md explains it.

edl brain                          serve, from $EDL_HOME/brain.db (--database postgresql://... for several Brains)
edl brain plan -f features.json    what a job with these features would get at its start
edl brain jobs                     jobs it knows
edl brain show NAMESPACE/NAME      one job: plans, what each promised and brought
edl brain token SUBJECT            a token for namespace/name, namespace/* or *
"""

import argparse
import asyncio
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .connect import home
from .main import CommandError
from .tables import age, table

if TYPE_CHECKING:
    from edl.brain.client import BrainClient
    from edl.brain.policy.facts import Features, Plan
    from edl.brain.policy.settings import Settings

PORT = 8500
FEATURES = """What a job with these features would get at its start, and why: from the Brain's past jobs, or small sizes
that are safe if none is like it. No job is begun. All features may be left out:

  strategy     "parameter_server" or "ring-allreduce"
  program      the worker's command, as in "python train.py --fast"
  image        of the worker
  namespace    of the job
  records      in one epoch of the data set
  epochs       of the job
  batch        records in a step of one worker
  parameters   numbers in the model
  gpu          devices that a worker asks for
  evaluator    true if the job has one
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=f"127.0.0.1:{PORT}",
        help="where it serves; no HOST: everywhere (%(default)s)",
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="a path or postgresql://... (default $EDL_BRAIN_DATABASE, else $EDL_HOME/brain.db)",
    )
    parser.add_argument(
        "--key", metavar="FILE", help="what tokens are made with (default $EDL_BRAIN_KEY, else $EDL_HOME/brain.key)"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate")
    parser.add_argument("--tls-key", metavar="FILE", help="and this key")
    parser.add_argument("--settings", metavar="FILE", help="JSON with thresholds of the policy that differ from ours")
    words = parser.add_subparsers(dest="word", metavar="WORD")
    plan = words.add_parser(
        "plan",
        help="what a job with these features would get at its start",
        description=FEATURES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("-f", "--file", metavar="FILE", required=True, help="features as JSON; - reads standard input")
    jobs = words.add_parser("jobs", help="jobs that the Brain knows")
    jobs.add_argument("--limit", type=int, default=100, help="default %(default)s")
    show = words.add_parser("show", help="one job: its plans, what they promised and brought")
    show.add_argument("job", metavar="NAMESPACE/NAME")
    token = words.add_parser("token", help="make a token")
    token.add_argument("subject", metavar="SUBJECT", help="namespace/name, namespace/* or *")
    token.add_argument("--for", dest="lifetime", metavar="DURATION", help="e.g. 24h (default: for ever)")
    for asking in (plan, jobs, show):
        asking.add_argument("--url", help="the Brain (default $EDL_BRAIN_URL, else `edl up`'s)")
        asking.add_argument("--token", help="default $EDL_BRAIN_TOKEN, else one made with the key")


def run(options: argparse.Namespace) -> int:
    from edl.brain.client import BrainDownError, BrainRefusalError

    words = {None: _serve, "plan": _plan, "jobs": _jobs, "show": _show, "token": _token}
    try:
        return words[options.word](options)
    except (ValueError, ImportError, BrainRefusalError) as error:
        raise CommandError(str(error)) from None
    except BrainDownError as error:
        raise CommandError(f"the Brain does not answer: {error}; `edl brain` starts one") from None


def _serve(options: argparse.Namespace) -> int:
    from edl.brain.credentials import Credentials
    from edl.brain.database import connect
    from edl.brain.run import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    host, colon, port = options.listen.rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"--listen is {options.listen!r}, it must be HOST:PORT")
    _key(options, create=True)
    certificate, certificate_key = (Path(file) if file else None for file in (options.tls_cert, options.tls_key))
    asyncio.run(
        serve(
            connect(_database(options)),
            Credentials(_key_path(options), certificate, certificate_key),
            host=host.strip("[]"),
            port=int(port),
            settings=_settings(options),
            ready=lambda url: print(f"brain: {url}", flush=True),
        )
    )
    return 0


def _plan(options: argparse.Namespace) -> int:
    import msgspec

    from edl.brain.messages import Beginning
    from edl.brain.policy.facts import Features
    from edl.brain.policy.startup import start

    text = sys.stdin.buffer.read() if options.file == "-" else _read(options.file)
    try:
        features = msgspec.json.decode(text, type=Features)
    except msgspec.DecodeError as error:
        raise ValueError(f"{options.file}: {error}") from None
    if unknown := set(msgspec.json.decode(text)) - set(Features.__struct_fields__):
        known = ", ".join(Features.__struct_fields__)
        raise ValueError(f"{options.file}: {sorted(unknown)[0]!r} is no feature; features are {known}")
    if options.url or os.environ.get("EDL_BRAIN_URL"):
        plan: Plan | None = _client(options).what_if(Beginning(features)).plan
    elif "://" in _database(options) or Path(_database(options)).exists():
        plan = asyncio.run(_from_database(options, features))
    else:
        plan = start(features, [], None, _settings(options))  # nothing was ever learned here
    print(msgspec.json.format(msgspec.json.encode(plan), indent=2).decode())
    return 0


async def _from_database(options: argparse.Namespace, features: "Features") -> "Plan":
    from edl.brain.advice import Advisor
    from edl.brain.database import UnavailableError, connect
    from edl.brain.store import Store

    store = Store(connect(_database(options)))
    try:
        await store.open()
        return await Advisor(store, _settings(options)).start("", features, None)
    except UnavailableError as error:
        raise ValueError(f"the database does not answer: {error}") from None
    finally:
        await store.close()


def _jobs(options: argparse.Namespace) -> int:
    now = time.time()
    rows = [
        (
            line.job.rpartition("/")[0],
            line.features.strategy,
            line.outcome or "running",
            _age(line.created, now),
            _age(line.updated, now),
        )
        for line in _client(options).jobs(options.limit)
    ]
    if not rows:
        print("no job has asked this Brain yet")
        return 0
    print(table(("JOB", "STRATEGY", "OUTCOME", "AGE", "HEARD"), rows))
    return 0


def _age(moment: float, now: float) -> str:
    from edl.api import timestamp

    return age(timestamp.text(moment), now)


def _show(options: argparse.Namespace) -> int:
    from .plan_history import history

    if options.job.count("/") not in (1, 2):
        raise ValueError(f"{options.job!r} is no job: wants NAMESPACE/NAME, as `edl brain jobs` shows them")
    detail = _client(options).job(options.job)
    features = detail.job.features
    print(f"Job:      {detail.job.job}\nStrategy: {features.strategy}\nProgram:  {features.program or '-'}")
    counted = f"{len(detail.samples)} samples, {len(detail.incidents)} incidents"
    print(f"Outcome:  {detail.job.outcome or 'running'}, {counted}\n")
    print(history(detail.plans, time.time()))
    return 0


def _token(options: argparse.Namespace) -> int:
    from edl.api import duration
    from edl.brain.tokens import mint

    expires = time.time() + duration.seconds(options.lifetime) if options.lifetime else None
    print(mint(_key(options, create=True), options.subject, expires))
    return 0


def _client(options: argparse.Namespace) -> "BrainClient":
    from edl.brain.client import BrainClient
    from edl.brain.tokens import mint

    url = options.url or os.environ.get("EDL_BRAIN_URL") or _known()
    token = options.token or os.environ.get("EDL_BRAIN_TOKEN")
    if not token:
        if not _key_path(options).exists():
            raise ValueError(
                f"no Brain was ever started here ({_key_path(options)} is missing): give --token, or --key"
            )
        token = mint(_key(options), "*", time.time() + 60)
    return BrainClient(url, token, ca=os.environ.get("EDL_BRAIN_CA", ""))


def _database(options: argparse.Namespace) -> str:
    return options.database or os.environ.get("EDL_BRAIN_DATABASE") or str(home() / "brain.db")


def _key_path(options: argparse.Namespace) -> Path:
    return Path(options.key or os.environ.get("EDL_BRAIN_KEY") or home() / "brain.key")


def _key(options: argparse.Namespace, *, create: bool = False) -> bytes:
    """Only a key whose place nobody chose is made."""
    from edl.brain.keys import key_at

    return key_at(_key_path(options), create=create and _key_path(options) == home() / "brain.key")


def _known() -> str:
    """The Brain beside a cluster on this machine, else where one is by default."""
    place = home() / "brain.url"
    return place.read_text().strip() if place.exists() else f"http://127.0.0.1:{PORT}"


def _settings(options: argparse.Namespace) -> "Settings":
    import msgspec

    from edl.brain.policy.settings import DEFAULTS, Settings

    if not options.settings:
        return DEFAULTS
    try:
        return msgspec.json.decode(_read(options.settings), type=Settings)
    except msgspec.DecodeError as error:
        raise ValueError(f"{options.settings}: {error}") from None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
