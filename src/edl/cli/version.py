"""Print the version."""

import argparse

from edl import __version__


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser  # there are none


def run(options: argparse.Namespace) -> int:
    del options
    print(f"edl {__version__}")
    return 0
