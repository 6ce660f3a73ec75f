"""The commands of `edl`, found in the folders below `edl.cli.commands`. Adding a command is adding one file.

A command is a module `edl.cli.commands.<group>.<name>` with

    SUMMARY = "..."                                     its line in `edl --help`
    ORDER = 50                                          its position there, lowest first
    def arguments(parser: ArgumentParser) -> None       adds its options
    def run(options: Namespace) -> int                  does it, returns the exit code
    TAKES_REST = True                                   optional: options.rest holds the words after `--`

Modules without a SUMMARY are shared by the commands of their group. SUMMARY and ORDER are read from the source text, on
one line each: importing all commands to print the overview would take seconds.
"""

import argparse
import importlib
import os
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType

# No pathlib and no typing here: they would be half of the time that `edl --help` takes.
FOLDER = os.path.join(os.path.dirname(__file__), "commands")
SUMMARY = re.compile(r'^SUMMARY = "(.+)"$', re.MULTILINE)
ORDER = re.compile(r"^ORDER = (\d+)$", re.MULTILINE)


class Command:
    """One command, known by its module's name and what the overview shows of it."""

    def __init__(self, module: str, *, summary: str, order: int) -> None:
        self.module = module
        self.summary = summary
        self.order = order

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


@cache
def commands() -> dict[str, Command]:
    """All commands by name, in the order of the overview. Imports none of them."""
    found = {name: command for group, name in _modules() if (command := _command(group, name))}
    return dict(sorted(found.items(), key=lambda item: item[1].order))


def _modules() -> Iterator[tuple[str, str]]:
    for group in os.scandir(FOLDER):
        if group.is_dir():
            yield from ((group.name, file[:-3]) for file in os.listdir(group.path) if file.endswith(".py"))


def _command(group: str, name: str) -> Command | None:
    with open(os.path.join(FOLDER, group, f"{name}.py"), encoding="utf-8") as file:
        source = file.read()
    summary, order = SUMMARY.search(source), ORDER.search(source)
    if summary is None or order is None:
        return None
    return Command(f"edl.cli.commands.{group}.{name}", summary=summary[1], order=int(order[1]))


def parser_of(name: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"edl {name}", description=module.__doc__ or module.SUMMARY)
    module.arguments(parser)
    return parser


def all_parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command's name and parser, for the generated reference. Imports all commands."""
    for name, command in commands().items():
        yield name, parser_of(name, command.load())
