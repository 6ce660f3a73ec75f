"""Print what a cluster needs to run EDL: `edl install | kubectl apply -f -`, or apply it: `edl install --apply`.

Namespace, kinds, service account with its rights, Services, two operators, a Brain that advises EasyDL jobs, and a
webhook that checks jobs. Applied again, with another version or other options, it is an upgrade: running jobs keep
running.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edl.cli.connect import with_cluster
from edl.install.chart import write_chart
from edl.install.choices import Choices, problems
from edl.install.manifests import manifests
from edl.install.text import yaml_text

if TYPE_CHECKING:
    from edl.install.manifests import Manifest
    from edl.kube.client import Client

_DEFAULT = Choices()
_HINT = "--service-monitor needs Prometheus' operator; a cluster of `edl up` has its operator already"


def arguments(parser: argparse.ArgumentParser) -> None:
    def option(name: str, words: str, **more: Any) -> None:
        field = name.removeprefix("--").replace("-", "_")
        parser.add_argument(name, default=getattr(_DEFAULT, field), help=f"{words} (%(default)s)", **more)

    parser.add_argument("-n", "--namespace", metavar="NAME", default=_DEFAULT.namespace, help="where (%(default)s)")
    option("--image", "EDL's image, for operators and for jobs that bring none", metavar="IMAGE")
    option("--pull-policy", "when nodes fetch it", choices=("IfNotPresent", "Always", "Never"))
    parser.add_argument("--pull-secret", metavar="NAME", default="", help="a Secret of the namespace to fetch it with")
    option("--replicas", "operators; one leads, the others wait with warm caches", metavar="N", type=_count)
    option("--policy", "how sizes are decided", choices=("cfs", "fulfillment"))
    option("--max-load", "share of the CPU that growth may use", metavar="X")
    option("--available", "what counts as used", choices=("limits", "requests"))
    option("--lease", "how long a silent leader leads", metavar="SECONDS", type=_seconds)
    option("--cpu", "an operator's request", metavar="QUANTITY")
    option("--memory", "an operator's request", metavar="QUANTITY")
    option("--memory-limit", "an operator's limit", metavar="QUANTITY")
    _parts(parser)


def _parts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-namespace",
        dest="create_namespace",
        action="store_false",
        help="the namespace is there; leave it as it is, also when uninstalling",
    )
    parser.add_argument("--no-crds", dest="crds", action="store_false", help="leave the kinds out")
    parser.add_argument("--no-webhook", dest="webhook", action="store_false", help="let jobs be stored unchecked")
    parser.add_argument("--no-brain", dest="brain", action="store_false", help="install no Brain to advise EasyDL jobs")
    parser.add_argument(
        "--brain-storage",
        metavar="QUANTITY",
        default=_DEFAULT.brain_storage,
        help="size of the claim that Brain's history lasts in; '': it goes with Brain's pod (%(default)s)",
    )
    parser.add_argument(
        "--brain-database",
        metavar="SECRET",
        default="",
        help="a Secret of the namespace whose `url` names a PostgreSQL, which keeps the history instead",
    )
    parser.add_argument("--service-monitor", action="store_true", help="for Prometheus' operator")
    parser.add_argument("--dashboard", action="store_true", help="for Grafana's sidecar")
    parser.add_argument("--chart", metavar="DIR", help="write a Helm chart of the same content; options are its values")
    parser.add_argument("--apply", action="store_true", help="apply it instead of printing it")
    parser.add_argument("--kubeconfig", metavar="FILE", help="with --apply: the cluster (default: as all commands)")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of operators; wants 1 or more")
    return int(text)


def _seconds(text: str) -> str:
    if not text.isdecimal() or int(text) < 3:
        raise argparse.ArgumentTypeError(f"{text} is no duration for a lease; wants whole seconds, 3 or more")
    return text


def choices_of(options: argparse.Namespace) -> Choices:
    return Choices(**{field: getattr(options, field) for field in Choices.__struct_fields__ if field in options})


def run(options: argparse.Namespace) -> int:
    from edl.cli.main import CommandError

    if options.chart:
        write_chart(Path(options.chart))
        return 0
    choices = choices_of(options)
    if wrong := problems(choices):
        raise CommandError("; ".join(wrong))
    wanted = manifests(choices)
    if options.apply:
        return with_cluster(lambda client, _: _apply(client, wanted), options)
    sys.stdout.write(yaml_text(wanted))
    return 0


async def _apply(client: "Client", wanted: "list[Manifest]") -> int:
    from edl.install.places import resource_of
    from edl.kube.errors import ApiError

    for body in wanted:
        metadata = body["metadata"]
        resource = resource_of(body)
        try:
            await client.apply(resource, metadata["name"], body, namespace=metadata.get("namespace"))
        except ApiError as error:
            if not error.is_not_found:
                raise
            print(f"edl: this cluster has no {resource.kind} ({resource.api_version}). {_HINT}", file=sys.stderr)
            return 1
        print(f"{resource.kind} {metadata['name']} applied")
    return 0
