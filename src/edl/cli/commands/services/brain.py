"""`edl brain`: the resource optimiser of EasyDL jobs. Without a further word it serves;
docs/concepts/brain.md explains it.

edl brain                          serve, from $EDL_HOME/brain.db (--database postgresql://... for several Brains)
edl brain plan -f features.json    what a job with these features would get at its start
edl brain jobs                     jobs it knows
edl brain show NAMESPACE/NAME      one job: plans, what each promised and brought
edl brain logs NAMESPACE/NAME      what its pods wrote in the last days, also of a job that is gone
edl brain backup > FILE            a copy of an SQLite history, also while it serves; restore < FILE puts it back
edl brain token SUBJECT            a token for namespace/name/uid, namespace/name, namespace/*, * or @reader
"""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from edl.cli.connect.brain import PORT, add_brain_options, brain_client, key_path
from edl.cli.connect.cluster import home
from edl.cli.errors import CommandError
from edl.cli.output.tables import age, table

if TYPE_CHECKING:
    from edl.brain.policy.settings import Settings
    from edl.protocol.job_facts import Features, ResourcePlan

SUMMARY = "run the resource optimiser of EasyDL jobs, or ask it"
ORDER = 260

SILENT = 600.0
"""Seconds without a word of its trainer after which nobody knows whether a job still runs."""
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
    parser.add_argument(
        "--share-history",
        action="store_true",
        default=os.environ.get("EDL_BRAIN_SHARE_HISTORY", "") not in ("", "0", "false"),
        help="jobs learn from those of every namespace, not only of their own ($EDL_BRAIN_SHARE_HISTORY=1)",
    )
    _quota_arguments(parser)
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: an object per line (%(default)s)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log in detail")
    _kept_arguments(parser)
    _words(parser)


def _quota_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quota-jobs", metavar="N", type=_positive, default=2000, help="jobs kept of each namespace (%(default)s)"
    )
    parser.add_argument(
        "--quota-mib", metavar="N", type=_positive, default=32, help="MiB kept of each namespace (%(default)s)"
    )
    parser.add_argument(
        "--quota-calls", metavar="N", type=_positive, default=100, help="calls a second of each (%(default)s)"
    )


def _kept_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--history-days", metavar="N", type=_positive, default=90, help="days for which history is kept (%(default)s)"
    )
    parser.add_argument(
        "--history-mib", metavar="N", type=_positive, default=256, help="MiB of history, in all (%(default)s)"
    )
    parser.add_argument(
        "--logs-days", metavar="N", type=_positive, default=7, help="days for which logs of pods are kept (%(default)s)"
    )
    parser.add_argument(
        "--logs-mib", metavar="N", type=_whole, default=256, help="MiB of such logs, in all; 0: none (%(default)s)"
    )
    parser.add_argument(
        "--logs-quota-mib", metavar="N", type=_positive, default=128, help="and of each namespace (%(default)s)"
    )


def _words(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(dest="word", metavar="WORD")
    plan = subcommands.add_parser(
        "plan",
        help="what a job with these features would get at its start",
        description=FEATURES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("-f", "--file", metavar="FILE", required=True, help="features as JSON; - reads standard input")
    jobs = subcommands.add_parser("jobs", help="jobs that the Brain knows")
    jobs.add_argument("--limit", type=int, default=100, help="default %(default)s")
    show = subcommands.add_parser("show", help="one job: its plans, what they promised and brought")
    show.add_argument("job", metavar="NAMESPACE/NAME")
    logs = subcommands.add_parser("logs", help="what the pods of a job wrote, also of one that is gone")
    logs.add_argument("job", metavar="NAMESPACE/NAME", help="the newest of that name; with /UID another one")
    logs.add_argument("--pod", metavar="NAME", help="only this pod")
    token = subcommands.add_parser("token", help="make a token")
    token.add_argument(
        "subject",
        metavar="SUBJECT",
        help="namespace/name/uid, namespace/name, namespace/*, *, or @reader (all history)",
    )
    token.add_argument("--for", dest="lifetime", metavar="DURATION", help="e.g. 24h (default: for ever)")
    subcommands.add_parser("backup", help="write a copy of an SQLite history to standard output")
    subcommands.add_parser("restore", help="put such a copy back, from standard input; then restart the Brain")
    for asking in (plan, jobs, show, logs):
        add_brain_options(asking)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text!r}, it must be a whole number above 0")
    return int(text)


def _whole(text: str) -> int:
    return 0 if text == "0" else _positive(text)


def run(options: argparse.Namespace) -> int:
    from edl.brain.client import BrainDownError, BrainRefusalError

    subcommands = {None: _serve, "plan": _plan, "jobs": _jobs, "show": _show, "logs": _logs, "token": _token}
    subcommands |= {"backup": _backup, "restore": _restore}
    try:
        return subcommands[options.word](options)
    except (ValueError, ImportError, BrainRefusalError) as error:
        raise CommandError(str(error)) from None
    except BrainDownError as error:
        raise CommandError(f"the Brain does not answer: {error}; `edl brain` starts one") from None


def _serve(options: argparse.Namespace) -> int:
    from edl.brain.credentials import Credentials
    from edl.brain.database import connect
    from edl.brain.history_store import HistoryBounds
    from edl.brain.log_store import LogBounds
    from edl.brain.quotas import Quota
    from edl.brain.run import serve
    from edl.operator.logs import configure_logging

    configure_logging(options.log_format, verbose=options.verbose)
    host, colon, port = options.listen.rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"--listen is {options.listen!r}, it must be HOST:PORT")
    _key(options, create=True)
    certificate, certificate_key = (Path(file) if file else None for file in (options.tls_cert, options.tls_key))
    asyncio.run(
        serve(
            connect(_database(options)),
            Credentials(key_path(options), certificate, certificate_key),
            host=host.strip("[]"),
            port=int(port),
            settings=_settings(options),
            quota=Quota(jobs=options.quota_jobs, mebibytes=options.quota_mib, calls=options.quota_calls),
            history=HistoryBounds(days=options.history_days, mebibytes=options.history_mib),
            logs=LogBounds(
                days=options.logs_days, mebibytes=options.logs_mib, namespace_mebibytes=options.logs_quota_mib
            ),
            share_history=options.share_history,
            ready=lambda url: print(f"brain: {url}", flush=True),
        )
    )
    return 0


def _plan(options: argparse.Namespace) -> int:
    import msgspec

    from edl.brain.policy.startup import startup_plan
    from edl.protocol.brain import Beginning
    from edl.protocol.job_facts import Features

    text = sys.stdin.buffer.read() if options.file == "-" else _read(options.file)
    try:
        features = msgspec.json.decode(text, type=Features)
    except msgspec.DecodeError as error:
        raise ValueError(f"{options.file}: {error}") from None
    if unknown := set(msgspec.json.decode(text)) - set(Features.__struct_fields__):
        known = ", ".join(Features.__struct_fields__)
        raise ValueError(f"{options.file}: {sorted(unknown)[0]!r} is no feature; features are {known}")
    if options.url or os.environ.get("EDL_BRAIN_URL"):
        plan: ResourcePlan | None = brain_client(options).what_if(Beginning(features)).plan
    elif "://" in _database(options) or Path(_database(options)).exists():
        plan = asyncio.run(_from_database(options, features))
    else:
        plan = startup_plan(features, [], None, _settings(options))  # nothing was ever learned here
    print(msgspec.json.format(msgspec.json.encode(plan), indent=2).decode())
    return 0


async def _from_database(options: argparse.Namespace, features: "Features") -> "ResourcePlan":
    from edl.brain.advice import Advisor
    from edl.brain.database import UnavailableError, connect
    from edl.brain.store import Store
    from edl.protocol.brain import Beginning

    store = Store(connect(_database(options)))
    try:
        await store.open()
        return await Advisor(store, _settings(options)).start("", Beginning(features))
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
            line.outcome or _state(line.updated, now),
            _age(line.created, now),
            _age(line.updated, now),
        )
        for line in brain_client(options).jobs(options.limit)
    ]
    if not rows:
        print("no job has asked this Brain yet")
        return 0
    print(table(("JOB", "STRATEGY", "OUTCOME", "AGE", "HEARD"), rows))
    return 0


def _state(heard: float, now: float) -> str:
    """Of a job whose end nobody told: its trainer speaks every minute or so while it runs."""
    return "running" if now - heard < SILENT else "silent"


def _age(moment: float, now: float) -> str:
    from edl.api.kubernetes import timestamp

    return age(timestamp.text(moment), now)


def _show(options: argparse.Namespace) -> int:
    from edl.cli.output.plan_history import history
    from edl.cli.output.terminal import harmless

    if options.job.count("/") not in (1, 2):
        raise ValueError(f"{options.job!r} is no job: wants NAMESPACE/NAME, as `edl brain jobs` shows them")
    detail = brain_client(options).job(options.job)
    features = detail.job.features
    told = {"Job:": detail.job.job, "Strategy:": features.strategy, "Program:": features.program or "-"}
    print(harmless("\n".join(f"{what:<10}{text}" for what, text in told.items())))
    counted = f"{len(detail.samples)} samples, {len(detail.incidents)} incidents"
    print(f"Outcome:  {detail.job.outcome or _state(detail.job.updated, time.time())}, {counted}\n")
    print(history(detail.plans, time.time()))
    return 0


def _logs(options: argparse.Namespace) -> int:
    from edl.brain.tokens import READER
    from edl.cli.connect.brain_logs import chosen
    from edl.cli.connect.pod_logs import LogRange
    from edl.cli.output.terminal import harmless

    if options.job.count("/") not in (1, 2):
        raise ValueError(f"{options.job!r} is no job: wants NAMESPACE/NAME")
    client = brain_client(options, READER)
    found = [log for log in client.logs(options.job) if options.pod in (None, log.pod)]
    if not found:
        raise ValueError(f"no log of {options.job} is kept{f' for pod {options.pod}' if options.pod else ''}")
    job = "/".join(options.job.split("/")[:2])
    for log in found:
        for line in chosen(log.pod, client.log(f"{job}/{log.uid}", log.pod), LogRange()):
            print(f"{log.pod}: {harmless(line.text)}" if len(found) > 1 else harmless(line.text))
    return 0


def _token(options: argparse.Namespace) -> int:
    from edl.api.kubernetes import duration
    from edl.brain.tokens import mint

    expires = time.time() + duration.seconds(options.lifetime) if options.lifetime else None
    print(mint(_key(options, create=True), options.subject, expires))
    return 0


def _backup(options: argparse.Namespace) -> int:
    from edl.brain.copies import copy_of

    sys.stdout.buffer.write(copy_of(_sqlite(options)))
    return 0


def _restore(options: argparse.Namespace) -> int:
    from edl.brain.copies import put_back

    put_back(_sqlite(options), sys.stdin.buffer.read())
    print("restored; restart the Brain, which remembers what was there", file=sys.stderr)
    return 0


def _sqlite(options: argparse.Namespace) -> Path:
    if "://" in _database(options):
        raise ValueError("the history is in PostgreSQL: copy it with pg_dump")
    return Path(_database(options))


def _database(options: argparse.Namespace) -> str:
    return options.database or os.environ.get("EDL_BRAIN_DATABASE") or str(home() / "brain.db")


def _key(options: argparse.Namespace, *, create: bool = False) -> bytes:
    """Creates a key only at the default path."""
    from edl.brain.keys import key_at

    return key_at(key_path(options), create=create and key_path(options) == home() / "brain.key")


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
