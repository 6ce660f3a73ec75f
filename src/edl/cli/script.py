"""From a training script to the manifest of an elastic job, for `edl run train.py`: no YAML has to be written.

On this machine workers run where the command was given, so that the script finds its neighbours. Elsewhere the image
has the script, and its path is the one inside the image.
"""

import argparse
import os
import re
import shutil
from collections.abc import Sequence
from typing import Any

from edl.api.roles import GPU, Installation

from .main import CommandError

SUFFIX = ".py"
LAUNCHER = "torchrun"


def arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a script instead of manifests", "edl run train.py --min 1 --max 4 -- --epochs 3")
    group.add_argument("--min", type=int, metavar="N", help="the fewest workers (default 1)")
    group.add_argument("--max", type=int, metavar="N", help="the most workers (default: as many as --min)")
    group.add_argument("--name", help="name of the job (default: the script's)")
    group.add_argument("--image", help="image of the workers; on this machine a mere label")
    group.add_argument("--cpu", help="cores of each worker, e.g. 2 or 500m (default 1)")
    group.add_argument("--memory", help="memory of each worker, e.g. 4Gi")
    group.add_argument("--gpu", type=int, metavar="N", help="GPUs of each worker, with one process for each")
    group.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the workers; repeatable")
    group.add_argument("--plain", action="store_true", help="start the script with python instead of torchrun")


OPTIONS = ("min", "max", "name", "image", "cpu", "memory", "gpu", "env", "plain")


def is_script(files: Sequence[str]) -> bool:
    return any(file.endswith(SUFFIX) for file in files)


def refuse_options(options: argparse.Namespace) -> None:
    """Manifests say all this themselves."""
    given = [f"--{name}" for name in OPTIONS if getattr(options, name)] + (["--"] if options.rest else [])
    if given:
        raise CommandError(f"{', '.join(given)}: only with a script, such as train.py; a manifest says it itself")


def manifest(options: argparse.Namespace, *, here: bool) -> dict[str, Any]:
    """`here`: it will run on this machine."""
    if len(options.files) != 1:
        raise CommandError("one script at a time; give its own arguments after --")
    script, least = options.files[0], options.min or 1
    if here and not os.path.isfile(script):
        raise CommandError(f"{script}: there is no such file")
    spec = {
        "minReplicas": least,
        "maxReplicas": options.max or least,
        "replicaSpecs": {"Worker": {"replicas": least, "template": {"spec": _pod(options, script, here)}}},
    }
    metadata = {"name": options.name or job_name(script)}
    return {"apiVersion": "elastic.pytorch.org/v1alpha1", "kind": "ElasticJob", "metadata": metadata, "spec": spec}


def check_launcher(options: argparse.Namespace) -> None:
    """Before a job is made that cannot start."""
    if not options.plain and shutil.which(LAUNCHER) is None:
        raise CommandError(
            f"{LAUNCHER} is not on PATH; install torch where edl is, or start the script with python: --plain"
        )


def job_name(script: str) -> str:
    """The script's own name, as far as a job may be called that."""
    stem = re.sub(r"[^a-z0-9]+", "-", os.path.basename(script).removesuffix(SUFFIX).lower()).strip("-")
    return (stem if stem[:1].isalpha() else f"job-{stem}")[:40].strip("-")


def _pod(options: argparse.Namespace, script: str, here: bool) -> dict[str, Any]:
    if not here and not options.image:
        raise CommandError("--image is required on a cluster: one that has torch and the script in it")
    launcher = ["python"] if options.plain else [LAUNCHER]
    container: dict[str, Any] = {
        "name": "worker",
        "image": options.image or Installation().image,
        "command": [*launcher, os.path.abspath(script) if here else script, *options.rest],
    }
    if here:
        container["workingDir"] = os.getcwd()
    if options.env:
        container["env"] = [_variable(text) for text in options.env]
    return {"containers": [container | {"resources": _resources(options)}]}


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--env {text!r}: wants NAME=VALUE")
    return {"name": name, "value": value}


def _resources(options: argparse.Namespace) -> dict[str, Any]:
    requests = {"cpu": options.cpu or "1"} | ({"memory": options.memory} if options.memory else {})
    limits = {GPU: options.gpu} if options.gpu else {}
    return {"requests": requests | limits} | ({"limits": limits} if limits else {})
