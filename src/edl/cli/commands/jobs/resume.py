"""`edl resume`: the counterpart of `edl pause`."""

import argparse

from edl.cli.commands.jobs.pause import arguments, set_pause
from edl.cli.connect.cluster import with_cluster

SUMMARY = "let a job be scaled again that is paused, or held at a size that was asked for"
ORDER = 150

__all__ = ["arguments", "run"]


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: set_pause(client, namespace, options.jobs, paused=False), options)
