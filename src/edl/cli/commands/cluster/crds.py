"""Print the CustomResourceDefinitions of all kinds: `edl crds | kubectl apply --server-side -f -`."""

import argparse
import json
import sys

from edl.install.text import yaml_text
from edl.jobs.crds import crds
from edl.jobs.reference import reference

SUMMARY = "print the CustomResourceDefinitions of all kinds"
ORDER = 200


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
        sys.stdout.write(yaml_text(crds()))
    return 0
