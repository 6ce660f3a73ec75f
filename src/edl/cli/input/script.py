"""Builds the manifest of an elastic job from a training script, for `edl run train.py`.

On this machine workers run in the current directory, so that the script finds the files beside it. To another cluster
the script's directory is shipped, and workers run in it; a script that is not here is one that the image has.
"""

import argparse
import os
import re
import shutil
from pathlib import Path
from typing import Any

from edl.api import annotations
from edl.api.job_view import GPU, Installation
from edl.cli.errors import CommandError

SUFFIX = ".py"
LAUNCHER = "torchrun"


def arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a script instead of manifests", "edl run train.py --min 1 --max 4 -- --epochs 3")
    group.add_argument("-m", dest="module", metavar="MODULE", help="a module instead of a script, e.g. package.train")
    group.add_argument("--min", type=int, metavar="N", help="the fewest workers (default 1)")
    group.add_argument("--max", type=int, metavar="N", help="the most workers (default: as many as --min)")
    group.add_argument("--name", help="name of the job (default: the script's)")
    group.add_argument("--image", help="image of the workers, any that has torch; on this machine a mere label")
    group.add_argument(
        "--ship",
        metavar="DIR",
        help="directory that is shipped to a cluster, without what .gitignore and .edlignore name; workers run in it "
        "(default: the script's)",
    )
    group.add_argument("--no-ship", action="store_true", help="ship nothing: the image has the script, by its path")
    group.add_argument("--cpu", help="cores of each worker, e.g. 2 or 500m (default 1)")
    group.add_argument("--memory", help="memory of each worker, e.g. 4Gi")
    group.add_argument("--gpu", type=int, metavar="N", help="GPUs of each worker, with one process for each")
    group.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the workers; repeatable")
    group.add_argument("--nproc", type=int, metavar="N", help="processes of each worker (default: one for each GPU)")
    group.add_argument("--priority", help="Experiment, Offline, Normal, Production or a number")
    group.add_argument("--plain", action="store_true", help="start the script with python instead of torchrun")


OPTIONS = (
    "min",
    "max",
    "name",
    "image",
    "cpu",
    "memory",
    "gpu",
    "env",
    "nproc",
    "priority",
    "plain",
    "ship",
    "no_ship",
)
AT_LEAST_ONE = ("min", "max", "nproc")


def is_script(options: argparse.Namespace) -> bool:
    return bool(options.module) or any(file.endswith(SUFFIX) for file in options.files)


def refuse_options(options: argparse.Namespace) -> None:
    """Manifests hold these settings themselves."""
    values = {name: getattr(options, name) for name in OPTIONS}
    given = [
        f"--{name.replace('_', '-')}" for name, value in values.items() if value or (value == 0 and value is not False)
    ]
    given += ["--"] if options.rest else []
    if given:
        raise CommandError(f"{', '.join(given)}: only with a script, such as train.py; a manifest says it itself")


def manifest(options: argparse.Namespace, *, here: bool) -> dict[str, Any]:
    """`here`: it will run on this machine."""
    _check(options)
    script, least = options.module or options.files[0], options.min or 1
    if here and not options.module and not os.path.isfile(script):
        raise CommandError(f"{script}: there is no such file")
    spec = {
        "minReplicas": least,
        "maxReplicas": options.max or least,
        "replicaSpecs": {"Worker": {"replicas": least, "template": {"spec": _pod(options, script, here)}}},
    }
    local = here or shipped(options, here=here) is not None
    notes = {annotations.SCRIPT: os.path.abspath(script) if local and not options.module else script}
    if options.priority:
        notes[annotations.PRIORITY] = options.priority
    name = options.name or job_name(script.rpartition(".")[2] if options.module else script)
    metadata = {"name": name, "annotations": notes}
    return {"apiVersion": "elastic.pytorch.org/v1alpha1", "kind": "ElasticJob", "metadata": metadata, "spec": spec}


def shipped(options: argparse.Namespace, *, here: bool) -> Path | None:
    """The directory that goes to the cluster; None if it has the script already."""
    if here or options.no_ship:
        return None
    program = Path.cwd() if options.module else Path(options.files[0]).absolute()
    if options.ship:
        top = Path(options.ship).absolute()
        if not top.is_dir():
            raise CommandError(f"--ship {options.ship}: there is no such directory")
        if not options.module and not (program.is_relative_to(top) and program.is_file()):
            raise CommandError(f"{options.files[0]}: is not in the directory that is shipped, {options.ship}")
        return top
    if options.module:
        return program
    return program.parent if program.is_file() else None


def check_present(options: argparse.Namespace, *, here: bool) -> None:
    """A path that is not absolute is hardly one of the image's: a mistake is told here and not by a pod."""
    if here or options.no_ship or options.module or shipped(options, here=here) is not None:
        return
    if not os.path.isabs(options.files[0]):
        raise CommandError(f"{options.files[0]}: there is no such file; if the image has it, say so: --no-ship")


def _check(options: argparse.Namespace) -> None:
    if options.module and options.files:
        raise CommandError(f"-m {options.module} and {options.files[0]}: one of them; give its arguments after --")
    if not options.module and len(options.files) != 1:
        raise CommandError("one script at a time; give its own arguments after --")
    for name in AT_LEAST_ONE:
        if (given := getattr(options, name)) is not None and given < 1:
            raise CommandError(f"--{name} {given}: wants 1 or more; `suspend: true` in a manifest frees all workers")
    if options.ship and options.no_ship:
        raise CommandError("--ship and --no-ship: one of them")
    if options.nproc and options.plain:
        raise CommandError("--nproc needs torchrun, and --plain starts the script without it")


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
        raise CommandError("--image is required on a cluster: any that has torch; EDL and the script are brought to it")
    launcher = ["python"] if options.plain else [LAUNCHER]
    if options.nproc:
        launcher.append(f"--nproc-per-node={options.nproc}")
    program = ["-m", script] if options.module else [_path(options, script, here)]
    container: dict[str, Any] = {
        "name": "worker",
        "image": options.image or Installation().image,
        "command": [*launcher, *program, *options.rest],
    }
    if here:
        container["workingDir"] = os.getcwd()
    if options.env:
        container["env"] = [_variable(text) for text in options.env]
    return {"containers": [container | {"resources": _resources(options)}]}


def _path(options: argparse.Namespace, script: str, here: bool) -> str:
    """Of the script, as its workers see it."""
    if here:
        return os.path.abspath(script)
    top = shipped(options, here=here)
    return script if top is None else Path(script).absolute().relative_to(top).as_posix()


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--env {text!r}: wants NAME=VALUE")
    return {"name": name, "value": value}


def _resources(options: argparse.Namespace) -> dict[str, Any]:
    requests = {"cpu": options.cpu or "1"} | ({"memory": options.memory} if options.memory else {})
    limits = {GPU: options.gpu} if options.gpu else {}
    return {"requests": requests | limits} | ({"limits": limits} if limits else {})
