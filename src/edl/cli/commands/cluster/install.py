"""Print what a cluster needs to run EDL: `edl install | kubectl apply -f -`, or apply it: `edl install --apply`.

Namespace, kinds, service account with its rights, Services, two operators, a Brain that advises EasyDL jobs, and a
webhook that checks jobs. Applied again, with another version or other options, it is an upgrade: running jobs keep
running.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edl.cli.connect.cluster import with_cluster
from edl.install.chart import write_chart
from edl.install.manifests import manifests
from edl.install.option import Row
from edl.install.options import InstallOptions, rows
from edl.install.problems import problems
from edl.install.text import yaml_text
from edl.install.values import ValuesError, read_values

if TYPE_CHECKING:
    from edl.install.manifests import Manifest
    from edl.kube.rest.client import Client

SUMMARY = "print what a cluster needs to run EDL, for kubectl apply"
ORDER = 180

_HINT = "--service-monitor needs Prometheus' operator; a cluster of `edl up` has its operator already"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--values", metavar="FILE", help="options from a file of values, as the Helm chart takes it; flags win"
    )
    for row in rows():
        _add(parser, row)
    parser.add_argument("--chart", metavar="DIR", help="write a Helm chart of the same content; options are its values")
    parser.add_argument("--apply", action="store_true", help="apply it instead of printing it")
    parser.add_argument(
        "--prune", action="store_true", help="with --apply: remove objects of options that are not set any more"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="with --apply: the cluster (default: as all commands)")


def _add(parser: argparse.ArgumentParser, row: Row) -> None:
    """A flag that is not given says nothing, so that a file of values may."""
    short = ["-n"] if row.field == "namespace" else []
    text = f"{row.option.text} (default: {_shown(row)})".replace("%", "%%")
    how: dict[str, Any] = {"dest": row.field, "default": argparse.SUPPRESS, "help": text}
    if row.form == "switch":
        how["action"] = "store_false" if row.default else "store_true"
        how["help"] = row.option.without if row.default else row.option.text
    elif row.option.choices:
        how["choices"] = tuple(row.option.choices)
    else:
        how["metavar"] = row.option.metavar
    how |= _PARSING.get(row.form, {})
    parser.add_argument(*short, row.flag, **how)


def _shown(row: Row) -> str:
    return str(row.default) if row.default not in ("", [], {}) else "none"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is too little or no number; wants 1 or more")
    return int(text)


def _pairs(text: str) -> dict[str, str]:
    found = [pair.partition("=") for pair in text.split(",") if pair]
    if not all(key and equals for key, equals, _ in found):
        raise argparse.ArgumentTypeError(f"{text} is no list of KEY=VALUE with commas between them")
    return {key: value for key, _, value in found}


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text} is no variable; wants NAME=VALUE")
    return {"name": name, "value": value}


def _yaml(kind: type, text: str) -> Any:
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = None
    if not isinstance(found, kind):
        raise argparse.ArgumentTypeError(f"{text} is no {'list' if kind is list else 'map'} in YAML or JSON")
    return found


_PARSING: dict[str, dict[str, Any]] = {
    "number": {"type": _count},
    "pairs": {"type": _pairs},
    "words": {"action": "append"},
    "environment": {"action": "append", "type": _variable},
    "list": {"type": lambda text: _yaml(list, text)},
    "map": {"type": lambda text: _yaml(dict, text)},
}


def install_options(options: argparse.Namespace) -> InstallOptions:
    """Defaults, then the file, then flags."""
    from_file = {}
    if options.values:
        from_file = read_values(_read(options.values), options.values)
    flags = {row.field: getattr(options, row.field) for row in rows() if row.field in options}
    return InstallOptions(**(from_file | flags))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValuesError(f"{path} cannot be read: {error}") from None


def run(options: argparse.Namespace) -> int:
    from edl.cli.errors import CommandError

    if options.prune and not options.apply:
        raise CommandError("--prune removes objects from a cluster, so it wants --apply")
    if options.chart:
        write_chart(Path(options.chart))
        return 0
    try:
        wanted = install_options(options)
    except ValuesError as error:
        raise CommandError(str(error)) from None
    if wrong := problems(wanted):
        raise CommandError("; ".join(wrong))
    objects = manifests(wanted)
    if options.apply:
        options.namespace = wanted.namespace
        return with_cluster(lambda client, _: _apply(client, wanted, objects, prune=options.prune), options)
    sys.stdout.write(yaml_text(objects))
    return 0


async def _apply(client: "Client", wanted: InstallOptions, objects: "list[Manifest]", *, prune: bool) -> int:
    from edl.install.cluster.applying import MissingKindError, apply_all
    from edl.install.cluster.installed import SecondInstallationError, refuse_second
    from edl.install.cluster.pruning import prune as remove_the_rest
    from edl.install.cluster.pruning import prune_renamed

    try:
        await refuse_second(client, wanted)
        await apply_all(client, objects, print)
        await prune_renamed(client, wanted, print)
    except SecondInstallationError as error:
        print(f"edl: {error}", file=sys.stderr)
        return 1
    except MissingKindError as error:
        print(f"edl: {error}. {_HINT}", file=sys.stderr)
        return 1
    if prune:
        await remove_the_rest(client, wanted.namespace, objects, print)
    return 0
