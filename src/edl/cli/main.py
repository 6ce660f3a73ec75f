"""`edl`: finds the command and runs it. Knows commands by name alone, so that `edl --help` imports none of them.

A command is a module with `arguments(parser)` and `run(options) -> exit code`. To add one, add a row to COMMANDS.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "demo": ("edl.cli.demo", "watch elastic training happen, in about a minute"),
    "up": ("edl.cli.up", "start a cluster on this machine, where pods are processes"),
    "down": ("edl.cli.down", "stop it"),
    "run": ("edl.cli.run", "submit jobs and watch them until they end"),
    "submit": ("edl.cli.submit", "check manifests, then create the jobs in them"),
    "get": ("edl.cli.get", "list jobs: phase, size, and why"),
    "describe": ("edl.cli.describe", "all about a job: its size and why, what happened, what to do next"),
    "logs": ("edl.cli.logs", "what the pods of a job wrote"),
    "events": ("edl.cli.events", "what happened, oldest first"),
    "scale": ("edl.cli.scale", "ask for a size"),
    "top": ("edl.cli.top", "who uses the cluster: capacity, nodes, jobs and what they hold"),
    "doctor": ("edl.cli.doctor", "say what is wrong with a cluster or a job, and what to do"),
    "plan": ("edl.cli.plan", "what the scheduler would decide next, and why"),
    "pause": ("edl.cli.pause", "hold a job at its present size"),
    "resume": ("edl.cli.resume", "let a paused job be scaled again"),
    "delete": ("edl.cli.delete", "delete jobs and what they own"),
    "validate": ("edl.cli.validate", "check manifests and say everything that is wrong with them"),
    "install": ("edl.cli.install", "print what a cluster needs to run EDL, for kubectl apply"),
    "uninstall": ("edl.cli.uninstall", "remove EDL from a cluster"),
    "crds": ("edl.cli.crds", "print the CustomResourceDefinitions of all kinds"),
    "operator": ("edl.cli.operator", "run the operator against a cluster"),
    "node": ("edl.cli.node", "join a node whose pods are processes to a cluster"),
    "master": ("edl.cli.master", "run the task queue of a TrainingJob (the operator does, in its pod)"),
    "pserver": ("edl.cli.pserver", "run a parameter server of a TrainingJob (the operator does, in its pod)"),
    "trainer": ("edl.cli.trainer", "run the planning trainer of an EasyDL job (the operator does, in its pod)"),
    "brain": ("edl.cli.brain", "run the resource optimiser of EasyDL jobs, or ask it"),
    "version": ("edl.cli.version", "print the version"),
}

INTERRUPTED = 130
BROKEN_PIPE = 141


class CommandError(Exception):
    """Ends a command with a message on stderr and exit code 1; no traceback, for it is no bug."""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except CommandError as error:
        print(f"edl: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _run(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        module_name, summary = COMMANDS[words[0]]
        module = importlib.import_module(module_name)
        parser = argparse.ArgumentParser(prog=f"edl {words[0]}", description=module.__doc__ or summary)
        module.arguments(parser)
        code: int = module.run(_parsed(parser, words[1:], rest=getattr(module, "TAKES_REST", False)))
        sys.stdout.flush()
        return code
    parser = _overview()
    if words:
        options = parser.parse_args(words)
        if options.version:
            return _run(["version"])
        parser.error(f"there is no command {options.command!r}{_near(options.command)}")
    parser.print_help()
    return 2


def _parsed(parser: argparse.ArgumentParser, words: list[str], *, rest: bool) -> argparse.Namespace:
    """A command that takes the rest finds the words after -- there, as they are."""
    if not rest:
        return parser.parse_args(words)
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    options.rest = words[cut + 1 :]
    return options


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items())
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
    from edl.api.nearest import nearest  # here, because only a mistake pays for it

    found = nearest(name, COMMANDS)
    return f"; did you mean {found}?" if found else ""


if __name__ == "__main__":
    sys.exit(main())
