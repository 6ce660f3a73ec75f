"""Images are names here; a file may say what stands behind one: a virtualenv, a default command, variables.

```yaml
paddlepaddle/paddle:2.6.2: {virtualenv: ~/venvs/paddle}
redis: {command: [redis-server], workingDir: ~/data, env: {A: b}}
```
A name without a tag stands for every tag. The file is read again when it changes. Images that are known to do nothing
but wait (`pause`, by whatever registry) do so without being named there.
"""

import os
from pathlib import Path
from typing import Any

import yaml

from edl.embedded.node.pod.environment import Image
from edl.embedded.node.pod.inputs import ConfigurationError

_FIELDS = {"virtualenv", "command", "args", "workingDir", "env"}


_IDLE_NAMES = {"pause", "pause-amd64", "pause-arm64"}
_IDLE = Image(command=("sleep", "infinity"))


class Images:
    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._stamp = -1
        self._images: dict[str, Image] = {}

    def find(self, name: str) -> Image:
        self._reload()
        bare = name.partition("@")[0]
        if ":" in bare.rpartition("/")[2]:
            bare = bare.rpartition(":")[0]
        idle = _IDLE if bare.rpartition("/")[2] in _IDLE_NAMES else Image()
        return self._images.get(name) or self._images.get(bare) or idle

    def _reload(self) -> None:
        if self._path is None:
            return
        try:
            stamp = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            self._images, self._stamp = {}, -1
            return
        if stamp != self._stamp:
            self._images, self._stamp = _parse(self._path), stamp


def _parse(path: Path) -> dict[str, Image]:
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: wants image names with what stands behind each")
    return {str(name): _image(path, str(name), entry) for name, entry in content.items()}


def _image(path: Path, name: str, entry: Any) -> Image:
    unknown = set(entry) - _FIELDS if isinstance(entry, dict) else {"it"}
    if unknown:
        known = ", ".join(sorted(_FIELDS))
        raise ConfigurationError(
            f"{path}: {name}: {', '.join(sorted(map(str, unknown)))} is unknown; known are {known}"
        )
    return Image(
        virtualenv=os.path.expanduser(entry.get("virtualenv", "")),
        command=tuple(map(str, entry.get("command", ()))),
        args=tuple(map(str, entry.get("args", ()))),
        working_dir=os.path.expanduser(entry.get("workingDir", "")),
        env={str(key): str(value) for key, value in entry.get("env", {}).items()},
    )
