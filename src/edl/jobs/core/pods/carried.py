"""What an init container of EDL's image carries into pods with images of the user's: EDL's pod side, and their code.

Any image with torch will do then: nothing of ours need be in it, and no image need be built for a script. The code lies
in ConfigMaps that `edl run` made with its user's rights; the operator reads none of them, the node mounts them. Every
pod of the job is made alike, whenever it comes. An image that has EDL's package uses its own (`edl.runtime.carry`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from edl.api import annotations
from edl.api.annotations import CodeParts

Data = dict[str, Any]

RUNTIME, CODE, PARTS = "/edl/runtime", "/edl/code", "/edl/parts"
"""Where the volumes are mounted: in the worker, and the parts in the init container alone."""
PART_KEY = "part"
NAME = "edl-carry"
PROGRAM = ("python", "-m", "edl.runtime.carry")

_RUNTIME_VOLUME, _CODE_VOLUME, _PARTS_VOLUME = "edl-runtime", "edl-code", "edl-code-parts"
_PATH, _THEIR_PATH = "PYTHONPATH", "EDL_USER_PYTHONPATH"
_UNPRIVILEGED_USER = 65532  # of our image
_SHARED = ("cpu", "memory", "ephemeral-storage")


def with_carried(
    template: Mapping[str, Any], notes: Mapping[str, str], *, image: str, runtime: bool
) -> Mapping[str, Any]:
    """The template with what its pods are brought; nothing of the argument is changed.

    `notes`: the job's annotations. `image`: EDL's own, whose pods have the runtime. `runtime`: this installation brings
    it to the others.
    """
    code = annotations.code(notes[annotations.CODE]) if annotations.CODE in notes else None
    worker = template["spec"]["containers"][0]
    runtime = runtime and worker.get("image") != image and notes.get(annotations.RUNTIME) != "image"
    if not runtime and code is None:
        return template
    return {**template, "spec": _spec(template["spec"], code, image, runtime=runtime)}


def _spec(spec: Mapping[str, Any], code: CodeParts | None, image: str, *, runtime: bool) -> Data:
    first, *others = spec["containers"]
    mounts, volumes = [], list(spec.get("volumes") or ())
    words: list[str] = []
    worker = dict(first)
    if runtime:
        volumes.append({"name": _RUNTIME_VOLUME, "emptyDir": {}})
        mounts.append({"name": _RUNTIME_VOLUME, "mountPath": RUNTIME})
        words += ["--runtime", RUNTIME]
        worker["env"] = _searched(worker.get("env") or ())
    if code is not None:
        volumes += [{"name": _CODE_VOLUME, "emptyDir": {}}, {"name": _PARTS_VOLUME, "projected": _projected(code)}]
        mounts.append({"name": _CODE_VOLUME, "mountPath": CODE})
        words += ["--code", PARTS, code.digest, CODE]
        worker.setdefault("workingDir", CODE)
    worker["volumeMounts"] = [*(first.get("volumeMounts") or ()), *_read(mounts)]
    parts = [{"name": _PARTS_VOLUME, "mountPath": PARTS, "readOnly": True}] if code is not None else []
    carrier = {
        "name": NAME,
        "image": image,
        "command": [*PROGRAM, *words],
        "volumeMounts": [*mounts, *parts],
        "resources": _resources(first.get("resources") or {}),
        "securityContext": _restricted(spec.get("securityContext") or {}),
    }
    return {
        **spec,
        "initContainers": [carrier, *(spec.get("initContainers") or ())],
        "containers": [worker, *others],
        "volumes": volumes,
    }


def _read(mounts: Sequence[Data]) -> list[Data]:
    """The worker changes its own files, not ours."""
    return [mount | ({"readOnly": True} if mount["name"] == _RUNTIME_VOLUME else {}) for mount in mounts]


def _projected(code: CodeParts) -> Data:
    """Files called after the places of the parts: their names sort in that order."""
    sources = [
        {"configMap": {"name": name, "items": [{"key": PART_KEY, "path": f"{index:03}"}]}}
        for index, name in enumerate(code.names)
    ]
    return {"sources": sources}


def _searched(variables: Sequence[Mapping[str, Any]]) -> list[Data]:
    """After what the user's own variable names, wherever that has its value from. One that the image itself sets is
    hidden, for nobody here knows it."""
    kept: list[Data] = []
    found = RUNTIME
    for variable in variables:
        if variable.get("name") != _PATH:
            kept.append(dict(variable))
        elif variable.get("valueFrom"):
            kept.append({**variable, "name": _THEIR_PATH})
            found = f"$({_THEIR_PATH}):{RUNTIME}"
        elif variable.get("value"):
            found = f"{variable['value']}:{RUNTIME}"
    return [*kept, {"name": _PATH, "value": found}]


def _resources(worker: Mapping[str, Any]) -> Data:
    """What the worker asks for: a pod is counted by the larger of the two, so it counts as before, in quotas, too."""
    found = {part: {name: amount for name, amount in (worker.get(part) or {}).items() if name in _SHARED}
             for part in ("requests", "limits")}  # fmt: skip
    return {part: amounts for part, amounts in found.items() if amounts}


def _restricted(pod: Mapping[str, Any]) -> Data:
    """By the terms of Pod Security's level `restricted`, whatever the worker is allowed. It is the user that the pod
    names, so that namespaces which give out users let it in; root alone it will not be."""
    user = {"runAsUser": _UNPRIVILEGED_USER} if pod.get("runAsUser") == 0 else {}
    return {
        "runAsNonRoot": True,
        **user,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
