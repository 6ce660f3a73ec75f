"""`edl report`: who used what in a period, how well, how long jobs waited, and what changes of size cost."""

import argparse
import time

from edl.cli.connect.brain import add_brain_options, history_reader, moment
from edl.cli.errors import CommandError

SUMMARY = "who used what in a period: hours, utilisation, waits, goodput"
ORDER = 97


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", default="7d", help="7d, 12h, or a date as 2026-11-17 (%(default)s)")
    parser.add_argument("--until", metavar="TIME", help="the same (now)")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="of one namespace (all)")
    parser.add_argument(
        "-o", "--output", choices=("table", "csv", "html", "json"), default="table", help="default %(default)s"
    )
    add_brain_options(parser)


def run(options: argparse.Namespace) -> int:
    now = time.time()
    try:
        since, until = moment(options.since, now), moment(options.until, now) if options.until else now
    except ValueError as error:
        raise CommandError(f"--since or --until: {error}") from None
    if since >= until:
        raise CommandError(f"--since {options.since} is not before --until {options.until or 'now'}")
    with history_reader(options) as client:
        report = client.period_report(since=max(0.0, since), until=until, namespace=options.namespace)
    from edl.cli.output import period_report

    print(period_report.FORMATS[options.output](report), end="")
    return 0
