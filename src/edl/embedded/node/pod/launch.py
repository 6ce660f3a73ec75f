"""Translates a container's specification into the command for the supervisor.

Where the machine allows no mounts, mount paths are mapped below the pod's directory: a link there leads to each volume,
and whatever names a mount path (the working directory, an argument, a variable) is rewritten to lead there.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from edl.api.kubernetes import quantity
from edl.embedded.node.pod.directories import PodDirectories
from edl.embedded.node.pod.environment import Image, command_of, inherited, variables_of
from edl.embedded.node.pod.inputs import PodInputs
from edl.embedded.node.pod.types import Container, Pod
from edl.embedded.node.runtime import Launch
from edl.embedded.node.supervisor.sandbox import Mount
from edl.embedded.node.volumes import mounts_of


class LaunchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How this node runs containers, the same for all of them."""

    mode: str
    caller: Mapping[str, str]
    working_dir: str = "/"
    """Where a container starts that names no directory: what the image's own would have been."""
    extra: Mapping[str, str]
    """Variables for every container."""


def launch_of(
    container: Container,
    pod: Pod,
    *,
    inputs: PodInputs,
    image: Image,
    directories: PodDirectories,
    volumes: Mapping[str, Path],
    devices: Sequence[int],
    settings: LaunchSettings,
    run: int,
) -> Launch:
    """ConfigurationError if the container asks for something that is not there."""
    base = {**inherited(settings.caller, image), **settings.extra, **_own_variables(inputs, devices)}
    env = variables_of(container, pod, inputs, base)
    argv = command_of(container, image, env)
    mounts = mounts_of(container, volumes, env)
    cwd = container.working_dir or image.working_dir or settings.working_dir
    mounts = _with_working_dir(mounts, os.path.normpath(cwd), directories, container)
    if settings.mode == "none":
        env, argv, cwd = _mapped(directories, container, mounts, env, argv, cwd)
    else:
        mounts = [
            Mount(str(directories.hosts), "/etc/hosts"),
            Mount(str(directories.termination_message(container.name)), container.termination_message_path),
            *mounts,
        ]
    return Launch(
        id=f"{pod.metadata.uid}/{container.name}/{run}",
        argv=argv,
        env=env,
        cwd=cwd,
        log=str(directories.make_run(container.name, run)),
        hostname=pod.hostname,
        mounts=mounts,
        scratch=str(directories.scratch),
        memory_limit=memory_limit(container),
        stdin=container.stdin,
        tty=container.tty,
    )


def memory_limit(container: Container) -> int:
    """In bytes; 0 is none."""
    limit = container.resources.limits.get("memory")
    return quantity.whole(limit) if limit is not None else 0


def device_count(container: Container) -> int:
    """How many GPUs a container holds, under whatever name it asks for them."""
    limits = container.resources.limits or container.resources.requests
    return sum(quantity.whole(count) for name, count in limits.items() if is_device(name))


def is_device(resource: str) -> bool:
    return resource.endswith(("/gpu", "/nvidia-gpu"))


def _own_variables(inputs: PodInputs, devices: Sequence[int]) -> dict[str, str]:
    """A container that holds no GPU sees none, as in Kubernetes."""
    visible = ",".join(map(str, devices))
    return {"EDL_POD_IP": inputs.pod_ip, "CUDA_VISIBLE_DEVICES": visible, "NVIDIA_VISIBLE_DEVICES": visible or "void"}


def _with_working_dir(mounts: list[Mount], cwd: str, directories: PodDirectories, container: Container) -> list[Mount]:
    """A working directory that is not there is made, as container runtimes do: in the volume that it lies in, else as
    an empty directory of the pod's own, mounted there. Nothing is ever made on the machine itself."""
    around = [mount for mount in mounts if cwd == mount.target or cwd.startswith(mount.target.rstrip("/") + "/")]
    if around:
        volume = max(around, key=lambda mount: len(mount.target))
        with contextlib.suppress(OSError):  # a file, or read-only: the start of the container says what is wrong
            Path(volume.source, os.path.relpath(cwd, volume.target)).mkdir(parents=True, exist_ok=True)
        return mounts
    if not os.path.isabs(cwd) or os.path.lexists(cwd):
        return mounts
    return [*mounts, Mount(str(directories.make_working_dir(container.name)), cwd)]


def _mapped(
    directories: PodDirectories,
    container: Container,
    mounts: Sequence[Mount],
    env: dict[str, str],
    argv: Sequence[str],
    cwd: str,
) -> tuple[dict[str, str], list[str], str]:
    targets = [mount.target for mount in mounts]
    for mount in sorted(mounts, key=lambda mount: mount.target.count("/")):
        _link(directories.mapped / mount.target.lstrip("/"), mount.source)

    def inside(text: str) -> str:
        below = any(text == target or text.startswith(f"{target}/") for target in targets)
        return str(directories.mapped) + text if below else text

    own = {
        "EDL_ROOT": str(directories.mapped),
        "EDL_HOSTS_FILE": str(directories.hosts),
        "EDL_TERMINATION_LOG": str(directories.termination_message(container.name)),
    }
    return {**{name: inside(value) for name, value in env.items()}, **own}, [inside(word) for word in argv], inside(cwd)


def _link(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or not path.exists():
        path.unlink(missing_ok=True)
        os.symlink(source, path)
