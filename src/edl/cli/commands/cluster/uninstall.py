"""Remove EDL from a cluster: everything that `edl install` and the operators made, but not the kinds.

So jobs and their pods stay as they are, unattended, and a new installation takes them up again. `--crds` removes the
kinds too, and with them every job.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import with_cluster
from edl.operator.settings import NAMESPACE

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "remove EDL from a cluster"
ORDER = 190


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument("-n", "--namespace", metavar="NAME", default=NAMESPACE, help="where it is (%(default)s)")
    parser.add_argument("--crds", action="store_true", help="also the kinds, and every job there is")


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _uninstall(client, namespace, crds=options.crds), options)


async def _uninstall(client: "Client", namespace: str, *, crds: bool) -> int:
    from edl.install.cluster.installed import SecondInstallationError
    from edl.install.cluster.removal import remove

    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        print(line)

    try:
        await remove(client, namespace, crds=crds, say=say)
    except SecondInstallationError as error:
        print(f"edl: {error}", file=sys.stderr)
        return 1
    except TimeoutError:
        print(
            "edl: not everything is gone yet; `kubectl get all` in the namespace shows what holds it", file=sys.stderr
        )
        return 1
    if not said:
        print(f"there is no EDL in namespace {namespace}")
    elif not crds:
        print("the kinds stay, and jobs with their pods; `edl uninstall --crds` removes those too")
    return 0
