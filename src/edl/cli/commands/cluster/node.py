"""Join a process node to a cluster: pods that are bound to it run as processes of this machine.

Works against any Kubernetes API server that can reach this machine's loopback, the embedded one first of all. Runs in
the foreground; Ctrl-C stops it and its pods.
"""

import argparse
import os
import socket
import sys
from typing import TYPE_CHECKING

from edl.cli.commands.cluster.up import capacity_arguments, check_capacity, resources_of
from edl.cli.connect.cluster import chosen_kubeconfig, home

if TYPE_CHECKING:
    from edl.embedded.join import JoinSettings

SUMMARY = "join a node whose pods are processes to a cluster"
ORDER = 220


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument("--name", default="", help="of the node (default: this machine's name)")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="a label of the node")
    parser.add_argument("--taint", action="append", default=[], metavar="KEY=VALUE:EFFECT", help="a taint of the node")
    capacity_arguments(parser)


def run(options: argparse.Namespace) -> int:
    check_capacity(options)
    settings = _settings_of(options)

    import asyncio
    import logging

    from edl.cli.errors import CommandError
    from edl.embedded.home import HomeInUseError, HomeUnusableError
    from edl.embedded.join import join
    from edl.kube.rest.errors import KubeError

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    name = settings.name
    try:
        asyncio.run(join(settings, ready=lambda: print(f"node {name} is ready", flush=True)))
    except HomeInUseError:
        raise CommandError(f"a node called {name} runs on this machine already; give another --name") from None
    except HomeUnusableError as error:
        raise CommandError(str(error)) from None
    except KubeError as error:
        print(f"edl: {error}", file=sys.stderr)
        return 3
    return 0


def _settings_of(options: argparse.Namespace) -> "JoinSettings":
    labels = dict(_pair(word, "--label") for word in options.label)
    taints = [_taint(word) for word in options.taint]

    from edl.embedded.join import JoinSettings
    from edl.embedded.node.registration import DeclaredCapacity

    name = options.name or socket.gethostname().lower()
    capacity = DeclaredCapacity(
        cpu=options.cpu,
        memory=options.memory,
        disk=options.disk,
        gpu=options.gpu or 0,
        resources=resources_of(options.resource),
    )
    return JoinSettings(
        home=home() / "joined" / name,
        name=name,
        kubeconfig=chosen_kubeconfig(options.kubeconfig),
        capacity=capacity,
        labels=labels,
        taints=taints,
        sandbox=options.sandbox,
        working_dir=os.path.abspath(options.workdir or os.getcwd()),
    )


def _pair(word: str, option: str) -> tuple[str, str]:
    from edl.cli.errors import CommandError

    key, separator, value = word.partition("=")
    if not key or not separator:
        raise CommandError(f"{option} {word}: wants KEY=VALUE")
    return key, value


def _taint(word: str) -> dict[str, str]:
    from edl.cli.errors import CommandError

    pair, _, effect = word.rpartition(":")
    if effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise CommandError(
            f"--taint {word}: wants KEY=VALUE:EFFECT, the effect one of NoSchedule, PreferNoSchedule, NoExecute"
        )
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}
