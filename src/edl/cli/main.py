"""`edl`: finds the command, parses its options and runs it. What a command is, and how to add one: `registry`."""

import argparse
import os
import sys
from collections.abc import Sequence

from edl.cli.errors import CommandError
from edl.cli.output.terminal import harmless
from edl.cli.registry import commands, parser_of

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given)
    except CommandError as error:
        print(f"edl: {harmless(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe. Python would complain again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _run(given: list[str]) -> int:
    if given and (command := commands().get(given[0])):
        module = command.load()
        parser = parser_of(given[0], module)
        code: int = module.run(_parsed(parser, given[1:], rest=getattr(module, "TAKES_REST", False)))
        sys.stdout.flush()
        return code
    parser = _overview()
    if given and given[0] == "help":
        known = commands().get(given[1]) if len(given) > 1 else None
        (parser_of(given[1], known.load()) if known else parser).print_help()
        return 0
    if given and not given[0].startswith("-"):
        parser.error(f"there is no command {given[0]!r}{_near(given[0])}")
    if given:
        options = parser.parse_args(given)
        if options.version:
            return _run(["version"])
        parser.error(f"there is no command {options.command!r}")
    parser.print_help()
    return 2


def _parsed(parser: argparse.ArgumentParser, given: list[str], *, rest: bool) -> argparse.Namespace:
    """With `rest`, the arguments after -- are in options.rest, unparsed."""
    if not rest:
        return parser.parse_args(given)
    cut = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:cut])
    options.rest = given[cut + 1 :]
    return options


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, commands()))
    listing = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in commands().items())
    parser = argparse.ArgumentParser(
        prog="edl",
        description="Elastic deep learning on Kubernetes.",
        epilog=f"commands:\n{listing}\n\n`edl COMMAND --help` says more about each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="what to do, see below")
    return parser


def _near(name: str) -> str:
    from edl.api.schema.nearest import nearest  # here, because only a mistake pays for it

    found = nearest(name, commands())
    return f"; did you mean {found}?" if found else ""


if __name__ == "__main__":
    sys.exit(main())
