"""Print the CustomResourceDefinitions of all kinds: `edl crds | kubectl apply --server-side -f -`."""

import argparse
import json
import sys

import yaml

from edl.api.crds import crds
from edl.api.reference import reference


def arguments(parser: argparse.ArgumentParser) -> None:
    choices = ("yaml", "json", "markdown")
    parser.add_argument("-o", "--output", choices=choices, default="yaml", help="default: yaml; markdown: a reference")


def run(options: argparse.Namespace) -> int:
    if options.output == "json":
        json.dump({"apiVersion": "v1", "kind": "List", "items": crds()}, sys.stdout, indent=2)
        print()
    elif options.output == "markdown":
        print(reference(), end="")
    else:
        yaml.dump_all(crds(), sys.stdout, Dumper=_Dumper, sort_keys=False, width=120, explicit_start=True)
    return 0


class _Dumper(yaml.CSafeDumper):
    """Two versions share one schema; written out twice it can be read by people and by every YAML parser."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True
