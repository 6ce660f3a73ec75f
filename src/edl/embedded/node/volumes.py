"""Volumes on disk: directories of the machine, and files made of ConfigMaps, Secrets, the pod's own fields and tokens.

A volume of files is replaced as a whole, by one rename, so that a process never sees half of an update (the kubelet's
way: `..data` is a link to a directory with a new name, and each file is a link through it).
"""

import base64
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from edl.api.kubernetes.core import ConfigMap, Secret
from edl.embedded.node.pod.downward import field_text, resource_text
from edl.embedded.node.pod.environment import expand
from edl.embedded.node.pod.inputs import ConfigurationError, PodInputs
from edl.embedded.node.pod.types import (
    Container,
    DownwardFile,
    FileSource,
    HostPath,
    KeyToPath,
    Pod,
    ProjectedSource,
    Volume,
)
from edl.embedded.node.supervisor.sandbox import Mount

Files = dict[str, tuple[bytes, int]]
"""Contents and mode by relative path."""

_LINK = "..data"
_HOST_PATH_CHECKS = {
    "Directory": os.path.isdir,
    "File": os.path.isfile,
    "Socket": os.path.exists,
    "CharDevice": os.path.exists,
    "BlockDevice": os.path.exists,
}


def prepare(volume: Volume, pod: Pod, inputs: PodInputs, directory: Path) -> Path:
    """Make a volume, or bring it up to date; the path of what is to be mounted."""
    if volume.host_path is not None:
        return _host_path(volume.name, volume.host_path)
    path = directory / volume.name
    if volume.files is not None:
        write_files(path, files_of(volume, pod, inputs))
    elif volume.empty_dir is not None:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
    else:
        raise ConfigurationError(
            f'volume "{volume.name}": this type of volume is not supported by process nodes; emptyDir, hostPath, '
            "configMap, secret, downwardAPI and projected are"
        )
    return path


def _host_path(name: str, source: HostPath) -> Path:
    path = Path(source.path)
    if source.type == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif source.type == "FileOrCreate":
        path.touch(exist_ok=True)
    elif not _HOST_PATH_CHECKS.get(source.type, os.path.lexists)(path):
        raise ConfigurationError(f'volume "{name}": hostPath {source.path} is not a {source.type or "path"} here')
    return path


def files_of(volume: Volume, pod: Pod, inputs: PodInputs) -> Files:
    """What a volume of files holds. Of two sources that name one path the later wins."""
    projected = volume.files
    files: Files = {}
    for part in projected.sources if projected is not None else ():
        files |= _part(part, pod, inputs, projected.default_mode if projected is not None else 0o644)
    return files


def _part(part: ProjectedSource, pod: Pod, inputs: PodInputs, mode: int) -> Files:
    if part.config_map is not None:
        name = part.config_map.name
        config_map = _found(inputs.config_maps.get(name), part.config_map, f'configmap "{name}" not found')
        return _items(part.config_map, _values(config_map), mode, f"configmap {name}")
    if part.secret is not None:
        name = part.secret.secret_name or part.secret.name
        secret = _found(inputs.secrets.get(name), part.secret, f'secret "{name}" not found')
        return _items(part.secret, _decoded(secret), mode, f"secret {name}")
    if part.downward_api is not None:
        items = [msgspec.convert(item, DownwardFile) for item in part.downward_api.items]
        return {_relative(item.path): (_downward(item, pod, inputs), item.mode or mode) for item in items}
    if part.service_account_token is not None:
        return {_relative(part.service_account_token.path): (inputs.tokens[part.service_account_token].encode(), 0o600)}
    return {}


def _found(value: Any, source: FileSource, problem: str) -> Any:
    if value is None and not source.optional:
        raise ConfigurationError(problem)
    return value


def _values(config_map: ConfigMap | None) -> Mapping[str, bytes]:
    if config_map is None:
        return {}
    text = {key: value.encode() for key, value in config_map.data.items()}
    return text | {key: base64.b64decode(value) for key, value in config_map.binary_data.items()}


def _decoded(secret: Secret | None) -> Mapping[str, bytes]:
    return {key: base64.b64decode(value) for key, value in secret.data.items()} if secret is not None else {}


def _items(source: FileSource, values: Mapping[str, bytes], mode: int, what: str) -> Files:
    if not source.items:
        return {key: (value, mode) for key, value in values.items()}
    files: Files = {}
    for item in (msgspec.convert(item, KeyToPath) for item in source.items):
        if item.key in values:
            files[_relative(item.path)] = (values[item.key], item.mode or mode)
        elif not source.optional:
            raise ConfigurationError(f"{what} references non-existent key: {item.key}")
    return files


def _downward(item: DownwardFile, pod: Pod, inputs: PodInputs) -> bytes:
    if item.field_ref is not None:
        return field_text(pod, inputs, item.field_ref.field_path).encode()
    if item.resource_field_ref is not None:
        return resource_text(pod, inputs, Container(), item.resource_field_ref).encode()
    return b""


def _relative(path: str) -> str:
    if os.path.isabs(path) or ".." in path.split("/") or not path:
        raise ConfigurationError(f"path {path!r}: must be relative and without '..'")
    return os.path.normpath(path)


def write_files(directory: Path, files: Files) -> None:
    """Make the directory hold exactly these files; nothing is touched if it does already. Containers of a pod that
    start together, and a refresh, may all want that at once."""
    with _LOCKS[hash(directory) % len(_LOCKS)]:
        _write_files(directory, files)


_LOCKS = [threading.Lock() for _ in range(64)]  # whoever writes to one directory has the same


def _write_files(directory: Path, files: Files) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / _LINK
    old = link.resolve() if link.is_symlink() else None
    if old is not None and _read_files(old) == files:
        return
    version = f"..{os.urandom(6).hex()}"
    for name, (content, mode) in files.items():
        path = directory / version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    (directory / version).mkdir(exist_ok=True)
    fresh = directory / f"{version}_tmp"  # a name of its own: one that was left by a crash is in nobody's way
    fresh.symlink_to(version)
    fresh.replace(link)
    _link_names(directory, {name.split("/")[0] for name in files})
    _remove_older(directory, version)


def _remove_older(directory: Path, version: str) -> None:
    """The version before this one, and what a crash left of others."""
    for entry in directory.iterdir():
        if entry.name.startswith("..") and entry.name not in (_LINK, version):
            if entry.is_symlink() or entry.is_file():
                entry.unlink(missing_ok=True)
            else:
                shutil.rmtree(entry, ignore_errors=True)


def _read_files(directory: Path) -> Files:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in directory.rglob("*")
        if path.is_file()
    }


def _link_names(directory: Path, names: set[str]) -> None:
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    for name in names:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"{_LINK}/{name}")


def mounts_of(container: Container, volumes: Mapping[str, Path], env: Mapping[str, str]) -> list[Mount]:
    """What the container sees where. A subPath that does not exist becomes a directory, as in Kubernetes."""
    mounts = []
    for mount in container.volume_mounts:
        if mount.name not in volumes:
            raise ConfigurationError(f'volumeMount "{mount.name}": the pod has no volume of this name')
        source = volumes[mount.name]
        below = mount.sub_path or expand(mount.sub_path_expr, env)
        if below:
            source = source / _relative(below)
            if not source.exists():
                source.mkdir(parents=True)
        mounts.append(Mount(str(source), mount.mount_path.rstrip("/") or "/", mount.read_only))
    return mounts
