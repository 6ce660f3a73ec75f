"""Start a Kubernetes cluster on this machine, in the background: pods are processes, kubectl works, no root, no Docker.

What each node offers is what is declared here, else what it offered the last time, else its share of the machine. The
cluster lives in $EDL_HOME (default ~/.edl) and keeps its objects when it is stopped. `edl down` stops it.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import home

if TYPE_CHECKING:
    from edl.cli.local.up import UpSettings
    from edl.embedded.home import RunningCluster

SUMMARY = "start a cluster on this machine, where pods are processes"
ORDER = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, metavar="N", help="how many nodes (default: as the last time, else 1)")
    capacity_arguments(parser)
    parser.add_argument(
        "--foreground", action="store_true", help="stay in the foreground and log here; Ctrl-C stops it"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="of the API server (default: the last one, else a free one)"
    )
    parser.add_argument("--no-operator", action="store_true", help="start no operator: only Kubernetes")
    parser.add_argument(
        "--recover", action="store_true", help="first make a new store from what can be read of a damaged one"
    )


def capacity_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cpu", default="", metavar="CORES", help="of each node, such as 8 or 500m")
    parser.add_argument("--memory", default="", metavar="SIZE", help="of each node, such as 32Gi")
    parser.add_argument("--disk", default="", metavar="SIZE", help="of each node, such as 100Gi: ephemeral-storage")
    parser.add_argument("--gpu", type=int, metavar="N", help="of each node: GPUs as counted tokens")
    parser.add_argument(
        "--resource", action="append", default=[], metavar="NAME=N", help="of each node: any extended resource"
    )
    parser.add_argument(
        "--sandbox",
        choices=("mount", "user", "none"),
        default="",
        help="how pods get file systems of their own (default: the best that works here)",
    )
    parser.add_argument(
        "--workdir", default="", metavar="DIR", help="where containers start that name no directory (default: here)"
    )


def run(options: argparse.Namespace) -> int:
    from edl.cli.errors import CommandError
    from edl.cli.local.up import UpError, start
    from edl.embedded.home import HomeInUseError, HomeUnusableError, PortTakenError

    settings = settings_of(options)
    try:
        if options.recover:
            _recover(settings.home)
        if options.foreground:
            return _foreground(settings)
        running = start(settings)
    except HomeInUseError as busy:
        if busy.running is None:
            raise CommandError(f"a cluster is being started on {settings.home} already") from None
        _refuse_another_size(options, settings.home)
        print(f"already up since {busy.running.since}: {_describe(busy.running, settings.home)}")
        return 0
    except (UpError, HomeUnusableError, PortTakenError) as error:
        raise CommandError(str(error)) from None
    print(f"up: {_describe(running, settings.home)}")
    return 0


def _refuse_another_size(options: argparse.Namespace, path: Path) -> None:
    """Of a cluster that runs: its nodes have told the scheduler what they offer, and pods stand on it."""
    from edl.cli.errors import CommandError
    from edl.cli.local.size import last_size, resized

    runs = last_size(path)
    wanted = resized(runs, _wanted_size(options))
    if wanted != runs:
        raise CommandError(
            f"the cluster that runs has {runs}, not {wanted}; `edl down` stops it and keeps its objects, then `edl up` "
            "with these options"
        )


def _wanted_size(options: argparse.Namespace) -> dict[str, object]:
    return {
        "nodes": options.nodes,
        "cpu": options.cpu,
        "memory": options.memory,
        "disk": options.disk,
        "gpu": options.gpu,
        "resources": resources_of(options.resource),
    }


def _recover(path: Path) -> None:
    from edl.embedded.home import Home
    from edl.embedded.server.storage.recovery import recover

    place = Home(path)
    claim = place.claim()
    try:
        if not place.store.exists():
            print(f"{place.store} is not there: nothing to recover")
            return
        found = recover(place.store)
    finally:
        claim.close()
    print(f"recovered {found.restored} objects; the damaged file is kept as {found.kept}")
    for resource, count in sorted(found.by_resource.items()):
        print(f"  restored: {count} of {resource.lstrip('/')}")
    if found.log:
        print(f"  its log was damaged: {found.log}; what is whole in it is restored")
    for line in found.damaged:
        print(f"  lost: {line}")


def settings_of(options: argparse.Namespace) -> "UpSettings":
    from edl.cli.errors import CommandError
    from edl.cli.local.size import last_size, resized
    from edl.cli.local.up import UpSettings

    if sys.platform != "linux":
        raise CommandError("process nodes need Linux; on another system use a Kubernetes cluster with --kubeconfig")
    if options.nodes is not None and not 1 <= options.nodes <= 100:
        raise CommandError(f"--nodes {options.nodes}: wants 1 to 100")
    check_capacity(options)
    return UpSettings(
        home=home(),
        size=resized(last_size(home()), _wanted_size(options)),
        port=options.port,
        operator=not options.no_operator,
        sandbox=options.sandbox,
        working_dir=os.path.abspath(options.workdir or os.getcwd()),
    )


def check_capacity(options: argparse.Namespace) -> None:
    from edl.api.kubernetes import quantity
    from edl.cli.errors import CommandError

    for name in ("cpu", "memory", "disk"):
        value = getattr(options, name)
        why = quantity.problem(value) if value else None
        if why:
            raise CommandError(f"--{name} {value}: {why}")
    if options.gpu is not None and options.gpu < 0:
        raise CommandError(f"--gpu {options.gpu}: wants 0 or more")


def resources_of(pairs: list[str]) -> dict[str, str]:
    from edl.cli.errors import CommandError

    resources = {}
    for word in pairs:
        name, _, count = word.partition("=")
        if "/" not in name or not count.isdigit():
            raise CommandError(f"--resource {word}: wants NAME=N with a name such as example.com/fpga; disk is --disk")
        resources[name] = count
    return resources


def _describe(running: "RunningCluster", path: Path) -> str:
    nodes = f"{running.nodes} node{'s' if running.nodes != 1 else ''}"
    return f"{nodes} at {running.url}; use it with: export KUBECONFIG={path / 'kubeconfig'}"


def _foreground(settings: "UpSettings") -> int:
    from edl.cli.local.up import serve

    return serve(settings, ready=lambda running: print(f"up: {_describe(running, settings.home)}", flush=True))
