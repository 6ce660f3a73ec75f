"""`edl resume`: the counterpart of `edl pause`."""

import argparse

from .connect import with_cluster
from .pause import arguments, set_pause

__all__ = ["arguments", "run"]


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: set_pause(client, namespace, options.jobs, paused=False), options)
