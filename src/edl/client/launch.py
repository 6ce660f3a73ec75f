"""Runs a script or a function as an elastic job, as `edl run` does, and returns at once."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edl.cli.commands.jobs.run import ensure_up
from edl.cli.commands.jobs.script_job import Exists, create_script_job
from edl.cli.connect.cluster import home, is_local
from edl.cli.errors import CommandError
from edl.cli.input import script as scripts
from edl.cli.input.code import Code, pack, pack_file
from edl.client.functions import call_arguments, function_script
from edl.client.handle import Job
from edl.client.session import Cluster, JobError
from edl.jobs.admission import check


def run(
    script: str | os.PathLike[str] | Callable[..., Any],
    args: Sequence[Any] | Mapping[str, Any] = (),
    *,
    min: int = 1,  # noqa: A002 - as the command line calls it
    max: int | None = None,  # noqa: A002 - as above
    cpu: float | str = 1,
    memory: str | None = None,
    gpu: int = 0,
    name: str | None = None,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    env: Mapping[str, str] | None = None,
    image: str | None = None,
    nproc: int | None = None,
    priority: str | int | None = None,
    plain: bool = False,
    ship: str | None = None,
    if_exists: Exists | None = None,
) -> Job:
    """Starts a job of `min` to `max` workers and returns it. A function is sent as its source, its `args` as JSON.

    Without `kubeconfig` (or $KUBECONFIG) it runs on this machine's cluster, which is started if there is none; to
    another the script's directory is shipped, or the one that `ship` names. `plain` starts the script with python
    instead of torchrun.
    """
    cluster = Cluster(kubeconfig, namespace)
    here = is_local(cluster.options) or not (kubeconfig or os.environ.get("KUBECONFIG"))
    path, words = _program(script, args)
    options = argparse.Namespace(
        files=[path], module=None, rest=words, min=min, max=max, cpu=str(cpu), memory=memory, gpu=gpu or None,
        name=name or (_function_name(script) if callable(script) else None), image=image, nproc=nproc, plain=plain,
        priority=None if priority is None else str(priority),
        env=[f"{key}={value}" for key, value in (env or {}).items()], ship=ship, no_ship=False,
    )  # fmt: skip
    try:
        manifest = _manifest(options, here)
        code = _code(options, here, alone=callable(script))
        if here:
            ensure_up()
    except CommandError as error:
        raise JobError(str(error)) from None
    made = cluster.call(lambda client, where: create_script_job(client, where, manifest, if_exists, code))
    return Job(made, cluster._replace(namespace=made.namespace))


def _program(script: Any, args: Any) -> tuple[str, list[str]]:
    if not callable(script):
        if isinstance(args, Mapping):
            raise JobError("args of a script is a list of words, as on a command line")
        return os.fspath(script), [str(word) for word in args]
    return str(function_script(script, home() / "functions")), call_arguments(args)


def _function_name(function: Callable[..., Any]) -> str:
    return scripts.job_name(f"{function.__name__}.py")


def _manifest(options: argparse.Namespace, here: bool) -> dict[str, Any]:
    made = scripts.manifest(options, here=here)
    problems = [str(problem) for problem in check(made).problems if problem.severity == "error"]
    if problems:
        raise JobError("; ".join(problems))
    scripts.check_present(options, here=here)
    if here:
        os.environ["PATH"] = _with_python(os.environ.get("PATH", ""))
        scripts.check_launcher(options)
    return made


def _code(options: argparse.Namespace, here: bool, *, alone: bool) -> Code | None:
    """`alone`: the script is a function's, and what lies beside it are other functions."""
    top = scripts.shipped(options, here=here)
    if top is None:
        return None
    return pack_file(Path(options.files[0])) if alone else pack(top)


def _with_python(path: str) -> str:
    """torchrun is beside the interpreter, which a notebook may have started without its environment."""
    own = str(Path(sys.executable).parent)
    return path if own in path.split(os.pathsep) else f"{own}{os.pathsep}{path}"
