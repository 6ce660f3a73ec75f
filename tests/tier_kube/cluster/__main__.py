"""`python -m tests.tier_kube.cluster`: a Kubernetes for developers, kept until it is taken down."""

import argparse
import sys
from pathlib import Path

from tests.tier_kube.cluster.build import BINARIES, BuildError, build
from tests.tier_kube.cluster.cluster import Cluster, clear_leftovers, clusters, provide
from tests.tier_kube.cluster.packages import MissingError
from tests.tier_kube.cluster.processes import StartError
from tests.tier_kube.cluster.teardown import teardown


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tier_kube.cluster", description=__doc__)
    parser.add_argument("command", choices=("build", "up", "down", "kubeconfig"))
    parser.add_argument(
        "tools", nargs="*", help=f"binaries to build beside those of the cluster: {', '.join(BINARIES)}"
    )
    parser.add_argument("--name", default="dev", help="tells clusters apart (default: dev)")
    parser.add_argument("--nodes", type=int, default=2, help="container nodes; 0 = the API alone, which needs no root")
    parser.add_argument(
        "--image", type=Path, action="append", default=[], help="a docker archive that nodes know from the start"
    )
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    directory = clusters() / arguments.name
    if arguments.command in ("build", "up"):
        provide(nodes=arguments.nodes > 0)
        build(*arguments.tools)
    if arguments.command == "up":
        Cluster(arguments.name, nodes=arguments.nodes, images=arguments.image).start(keep=True)
    if arguments.command == "down":
        clear_leftovers()
        if directory.exists():
            teardown(arguments.name, directory)
    if arguments.command in ("up", "kubeconfig"):
        kubeconfig = directory / "kubeconfig"
        if not kubeconfig.exists():
            raise StartError(f"no cluster called {arguments.name} runs: `python -m tests.tier_kube.cluster up`")
        print(kubeconfig)


if __name__ == "__main__":
    try:
        main()
    except (BuildError, MissingError, StartError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command carries on from here")
