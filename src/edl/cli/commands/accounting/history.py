"""`edl history`: jobs that were, also those that are deleted; or one of them with sizes, curve, Events and account."""

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edl.cli.connect.brain import add_brain_options, history_reader, moment
from edl.cli.errors import CommandError
from edl.cli.output.tables import age, table

if TYPE_CHECKING:
    from edl.brain.client import BrainClient
    from edl.protocol.history import HistoryLine, JobPast

SUMMARY = "jobs that were, also deleted ones: sizes, losses, events, account"
ORDER = 95

SILENT = 900.0
"""Seconds after which a job that lives should have been heard of: operators tell of each every minute, or 16 jobs a
second where there are thousands."""
HEADER = ("JOB", "OUTCOME", "AGE", "LASTED", "WAITED", "GPU-H", "CORE-H", "GOODPUT", "CHANGES", "REASON")
LINE_COLUMNS = ("namespace", "name", "uid", "kind", "outcome", "phase", "created", "updated", "ended", "reason")
ACCOUNT_COLUMNS = ("waited_seconds", "gpu_seconds", "core_seconds", "gib_seconds", "goodput", "changes", "estimated")
POINT_COLUMNS = ("time", "size", "target", "done", "total", "epoch", "loss", "throughput", "pause")
LAST_EVENTS, LAST_SIZES = 20, 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", metavar="JOB", nargs="?", help="NAME (namespace default), NAMESPACE/NAME, or NAMESPACE/NAME/UID"
    )
    parser.add_argument("--since", metavar="TIME", help="jobs that lived then or later: 7d, 12h, or a date (all)")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="of one namespace (all)")
    parser.add_argument("--limit", metavar="N", type=int, default=200, help="the newest (%(default)s)")
    parser.add_argument("-o", "--output", choices=("table", "csv", "json"), default="table", help="default %(default)s")
    add_brain_options(parser)


def run(options: argparse.Namespace) -> int:
    if not 1 <= options.limit <= 10_000:
        raise CommandError(f"--limit is {options.limit}, it must be from 1 to 10000")
    with history_reader(options) as client:
        return _one(client, options) if options.job else _all(client, options)


def _all(client: "BrainClient", options: argparse.Namespace) -> int:
    try:
        since = moment(options.since, time.time()) if options.since else 0.0
    except ValueError as error:
        raise CommandError(f"--since: {error}") from None
    lines = client.history(since=max(0.0, since), namespace=options.namespace, limit=options.limit)
    if options.output == "json":
        _print_json(lines)
    elif options.output == "csv":
        _write((*LINE_COLUMNS, *ACCOUNT_COLUMNS), [_cells(line) for line in lines])
    else:
        print(table(HEADER, [_row(line, time.time()) for line in lines]) if lines else "no job is in the history yet")
    return 0


def _cells(line: "HistoryLine") -> Sequence[object]:
    from edl.ledger.uses import Use

    account, held = line.account, line.account.held
    figures = (account.of(Use.WAITING).seconds, held.gpus, held.cores, held.gib, account.goodput or 0.0)
    own = [getattr(line, column) for column in LINE_COLUMNS]
    return [*own, *(round(figure, 3) for figure in figures), account.changes, round(account.estimated, 3)]


def _row(line: "HistoryLine", now: float) -> Sequence[object]:
    from edl.api.kubernetes import timestamp
    from edl.cli.output.amounts import hours, share, span
    from edl.ledger.uses import Use

    account, held = line.account, line.account.held
    return (
        f"{line.namespace}/{line.name}",
        _state(line, now),
        age(timestamp.text(line.created), now),
        span((line.ended or line.updated) - line.created),
        span(account.of(Use.WAITING).seconds),
        hours(held.gpus),
        hours(held.cores),
        share(account.goodput),
        account.changes or "-",
        line.reason.replace("\n", " "),
    )


def _state(line: "HistoryLine", now: float) -> str:
    """A job whose end nobody saw was deleted while no operator ran."""
    return line.outcome or (line.phase.lower() if now - line.updated < SILENT else "silent")


def _one(client: "BrainClient", options: argparse.Namespace) -> int:
    name = options.job if "/" in options.job else f"{options.namespace or 'default'}/{options.job}"
    if name.count("/") > 2 or not all(name.split("/")):
        raise CommandError(f"{options.job!r} is no job: it must be NAME, NAMESPACE/NAME or NAMESPACE/NAME/UID")
    past = client.past(name)
    if options.output == "json":
        _print_json(past)
    elif options.output == "csv":
        _write(POINT_COLUMNS, [[getattr(point, column) for column in POINT_COLUMNS] for point in past.points])
    else:
        print(_text(past, time.time()))
    return 0


def _text(past: "JobPast", now: float) -> str:
    from edl.cli.output.amounts import in_hours, share, span
    from edl.cli.output.terminal import harmless
    from edl.ledger.uses import Use

    line, account = past.job, past.job.account
    head = [
        f"Job:      {line.namespace}/{line.name} ({line.kind}, {line.uid})",
        f"Outcome:  {_state(line, now)}{f': {harmless(line.reason)}' if line.reason else ''}",
        f"Goodput:  {share(account.goodput)} of what it held, {account.changes} changes of members",
    ]
    if account.estimated:
        head.append(f"Estimate: {span(account.estimated)} of {span(account.seconds)}, while no operator looked")
    spent = [
        (use, span(account.of(use).seconds), *in_hours(account.of(use).amounts)) for use in Use if use in account.spent
    ]
    parts = ["\n".join(head), table(("USE", "TIME", "GPU-H", "CORE-H", "GIB-H"), spent)]
    sizes = [(_when(one.time), f"{one.before} -> {one.to}", one.reason) for one in past.sizes[-LAST_SIZES:]]
    events = [(_when(one.time), one.type, one.reason, one.message) for one in past.events[-LAST_EVENTS:]]
    parts += [table(("TIME", "SIZE", "REASON"), sizes)] if sizes else []
    parts += [table(("TIME", "TYPE", "EVENT", "MESSAGE"), events)] if events else []
    if past.points:
        parts.append(f"{len(past.points)} points of its progress: -o csv")
    if past.last_lines:
        parts.append("Last lines:\n" + "\n".join(harmless(text) for text in past.last_lines.splitlines()[-20:]))
    return "\n\n".join(parts)


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))


def _print_json(value: object) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _write(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from edl.cli.output.spreadsheets import plain_cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([plain_cell(cell) for cell in row] for row in rows)
