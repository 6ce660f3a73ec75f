"""Print the version."""

import argparse

from edl import __version__

SUMMARY = "print the version"
ORDER = 270


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser  # there are none


def run(options: argparse.Namespace) -> int:
    del options
    print(f"edl {__version__}")
    return 0
