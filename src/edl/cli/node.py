"""Join a process node to a cluster: pods that are bound to it run as processes of this machine.

Works against any Kubernetes API server that can reach this machine's loopback, the embedded one first of all. Runs in
the foreground; Ctrl-C stops it and its pods.
"""

import argparse
import os
import socket
import sys

from edl.cli.connect import chosen_kubeconfig, home
from edl.cli.up import capacity_arguments, check_capacity, resources_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument("--name", default="", help="of the node (default: this machine's name)")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="a label of the node")
    parser.add_argument("--taint", action="append", default=[], metavar="KEY=VALUE:EFFECT", help="a taint of the node")
    capacity_arguments(parser)


def run(options: argparse.Namespace) -> int:
    check_capacity(options)
    labels = dict(_pair(word, "--label") for word in options.label)
    taints = [_taint(word) for word in options.taint]
    resources = resources_of(options.resource)

    import asyncio
    import logging

    from edl.cli.main import CommandError
    from edl.embedded.home import HomeInUseError
    from edl.embedded.join import JoinSettings, join
    from edl.kube.errors import KubeError

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    name = options.name or socket.gethostname().lower()
    settings = JoinSettings(
        home=home() / "joined" / name,
        name=name,
        kubeconfig=chosen_kubeconfig(options.kubeconfig),
        cpu=options.cpu,
        memory=options.memory,
        gpu=options.gpu,
        resources=resources,
        labels=labels,
        taints=taints,
        sandbox=options.sandbox,
        working_dir=os.path.abspath(options.workdir or os.getcwd()),
    )
    try:
        asyncio.run(join(settings, ready=lambda: print(f"node {name} is ready", flush=True)))
    except HomeInUseError:
        raise CommandError(f"a node called {name} runs on this machine already; give another --name") from None
    except KubeError as error:
        print(f"edl: {error}", file=sys.stderr)
        return 3
    return 0


def _pair(word: str, option: str) -> tuple[str, str]:
    from edl.cli.main import CommandError

    key, separator, value = word.partition("=")
    if not key or not separator:
        raise CommandError(f"{option} {word}: wants KEY=VALUE")
    return key, value


def _taint(word: str) -> dict[str, str]:
    from edl.cli.main import CommandError

    pair, _, effect = word.rpartition(":")
    if effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise CommandError(
            f"--taint {word}: wants KEY=VALUE:EFFECT, the effect one of NoSchedule, PreferNoSchedule, NoExecute"
        )
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}
