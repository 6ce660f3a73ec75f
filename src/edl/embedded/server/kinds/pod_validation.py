"""Validation of pod specs with the messages of Kubernetes: the rules that users meet, not all of them."""

import re
from collections.abc import Iterator
from typing import Any

from edl.api.kubernetes import quantity
from edl.embedded.server import causes, names
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_ENV = re.compile(r"[^=\x00-\x1f\x7f-\U0010ffff]+\Z")
_PORT_NAME = re.compile(r"[a-z0-9-]{1,15}\Z")
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_RESTART = ("Always", "OnFailure", "Never")
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SECURITY_PORT = "must be between 1 and 65535, inclusive"


def check_pod_spec(spec: Object, path: str) -> list[Cause]:
    return list(_spec(spec, path))


def _spec(spec: Object, path: str) -> Iterator[Cause]:
    yield from _volumes(spec, path)
    yield from _containers(spec, path)
    if spec.get("restartPolicy") not in _RESTART:
        yield causes.unsupported(f"{path}.restartPolicy", spec.get("restartPolicy", ""), _RESTART)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        yield causes.invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield from check_label(key, value, f"{path}.nodeSelector")
    if spec.get("serviceAccountName"):
        for problem in names.subdomain_problems(spec["serviceAccountName"]):
            yield causes.invalid(f"{path}.serviceAccountName", spec["serviceAccountName"], problem)
    for name in ("hostname", "subdomain"):
        for problem in names.label_problems(spec[name]) if spec.get(name) else ():
            yield causes.invalid(f"{path}.{name}", spec[name], problem)
    yield from _tolerations(spec, path)


def _volumes(spec: Object, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        here = f"{path}.volumes[{index}]"
        name = volume.get("name", "")
        if len(volume) > 2:
            for extra in sorted(key for key in volume if key != "name")[1:]:
                yield causes.forbidden(f"{here}.{extra}", "may not specify more than 1 volume type")
        yield from _volume_source(volume, here)
        if not name:
            yield causes.required(f"{here}.name")
        else:
            for problem in names.label_problems(name):
                yield causes.invalid(f"{here}.name", name, problem)
        if name in seen:
            yield causes.duplicate(f"{here}.name", name)
        seen.add(name)


def _volume_source(volume: Object, here: str) -> Iterator[Cause]:
    if "secret" in volume and not volume["secret"].get("secretName"):
        yield causes.required(f"{here}.secret.secretName")
    if "configMap" in volume and not volume["configMap"].get("name"):
        yield causes.required(f"{here}.configMap.name")
    if "hostPath" in volume and not volume["hostPath"].get("path"):
        yield causes.required(f"{here}.hostPath.path")


def _containers(spec: Object, path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield causes.required(f"{path}.containers")
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            here = f"{path}.{kind}[{index}]"
            yield from _name(container, here, seen)
            yield from _container(container, here, volumes)


def _name(container: Object, here: str, seen: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield causes.required(f"{here}.name")
        return
    for problem in names.label_problems(name):
        yield causes.invalid(f"{here}.name", name, problem)
    if name in seen:
        yield causes.duplicate(f"{here}.name", name)
    seen.add(name)


def _container(container: Object, here: str, volumes: set[Any]) -> Iterator[Cause]:
    image = container.get("image", "")
    if not image:
        yield causes.required(f"{here}.image")
    elif image != image.strip():
        yield causes.invalid(f"{here}.image", image, "must not have leading or trailing whitespace")
    yield from _probes(container, here)
    yield from _ports(container, here)
    yield from _environment(container, here)
    yield from _mounts(container, here, volumes)
    policy = container.get("imagePullPolicy", "")
    if policy not in ("Always", "IfNotPresent", "Never"):
        yield causes.unsupported(f"{here}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in ("File", "FallbackToLogsOnError"):
        yield causes.unsupported(f"{here}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError"))
    yield from check_resources(container.get("resources") or {}, f"{here}.resources")


def _probes(container: Object, here: str) -> Iterator[Cause]:
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        handlers = [kind for kind in ("exec", "httpGet", "tcpSocket", "grpc") if kind in probe]
        if not handlers:
            yield causes.required(f"{here}.{name}", "must specify a handler type")
        for extra in handlers[1:]:
            yield causes.forbidden(f"{here}.{name}.{extra}", "may not specify more than 1 handler type")
        if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            yield causes.invalid(f"{here}.{name}.successThreshold", probe["successThreshold"], "must be 1")
        for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
            if probe.get(field, 0) < 0:
                detail = "must be greater than or equal to 0"
                yield causes.invalid(f"{here}.{name}.{field}", probe[field], detail)


def _ports(container: Object, here: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        at = f"{here}.ports[{index}]"
        name = port.get("name", "")
        if name:
            if not _PORT_NAME.match(name) or not re.search("[a-z]", name):
                yield (
                    causes.invalid(f"{at}.name", name, "must be no more than 15 characters")
                    if len(name) > 15
                    else causes.invalid(
                        f"{at}.name", name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
                    )
                )
            elif name in seen:
                yield causes.duplicate(f"{at}.name", name)
            seen.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            yield causes.required(f"{at}.containerPort")
        elif not 1 <= number <= 65535:
            yield causes.invalid(f"{at}.containerPort", number, _SECURITY_PORT)
        if port.get("hostPort") and not 1 <= port["hostPort"] <= 65535:
            yield causes.invalid(f"{at}.hostPort", port["hostPort"], _SECURITY_PORT)
        if port.get("protocol", "") not in ("TCP", "UDP", "SCTP"):
            yield causes.unsupported(f"{at}.protocol", port.get("protocol", ""), ("SCTP", "TCP", "UDP"))


def _environment(container: Object, here: str) -> Iterator[Cause]:
    for index, variable in enumerate(container.get("env") or ()):
        at = f"{here}.env[{index}]"
        name = variable.get("name", "")
        if not name:
            yield causes.required(f"{at}.name")
        elif not _ENV.match(name):
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield causes.invalid(f"{at}.name", name, detail)
        source = variable.get("valueFrom")
        if source is not None:
            if not source:
                detail = (
                    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
                    "`fileKeyRef`"
                )
                yield causes.invalid(f"{at}.valueFrom", "", detail)
            if variable.get("value"):
                yield causes.invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty")


def _mounts(container: Object, here: str, volumes: set[Any]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = f"{here}.volumeMounts[{index}]"
        if not mount.get("name"):
            yield causes.required(f"{at}.name")
        elif mount["name"] not in volumes:
            yield causes.not_found(f"{at}.name", mount["name"])
        path = mount.get("mountPath", "")
        if not path:
            yield causes.required(f"{at}.mountPath")
        if path in seen:
            yield causes.invalid(f"{at}.mountPath", path, "must be unique")
        seen.add(path)


def check_resources(resources: Object, here: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount(name, amount, f"{here}.{kind}[{name}]")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and quantity.nano(amount) == quantity.nano(limit):
            continue
        if limit is None:
            if "/" in name and not name.startswith("kubernetes.io/"):
                yield causes.required(f"{here}.limits", "Limit must be set for non overcommitable resources")
        elif "/" in name:
            yield causes.invalid(f"{here}.requests", amount, f"must be equal to {name} limit of {limit}")
        elif quantity.nano(amount) > quantity.nano(limit):
            yield causes.invalid(f"{here}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def _amount(name: str, amount: str, at: str) -> Iterator[Cause]:
    if name not in _NATIVE:
        yield from _resource_name(name, at)
    if amount.startswith("-") and amount != "-0":
        yield causes.invalid(at, amount, "must be greater than or equal to 0")
    elif "/" in name and quantity.nano(amount) % quantity.NANO:
        yield causes.invalid(at, amount, "must be an integer")


def _resource_name(name: str, at: str) -> Iterator[Cause]:
    if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        yield causes.invalid(at, name, "must be a standard resource type or fully qualified")
        yield causes.invalid(at, name, "must be a standard resource for containers")


def _tolerations(spec: Object, path: str) -> Iterator[Cause]:
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        at = f"{path}.tolerations[{index}]"
        operator = toleration.get("operator") or "Equal"
        if operator not in _OPERATORS:
            yield causes.unsupported(f"{at}.operator", operator, _OPERATORS)
        elif operator == "Exists" and toleration.get("value"):
            yield causes.invalid(
                f"{at}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
            )
        elif operator == "Equal" and not toleration.get("key"):
            yield causes.invalid(
                f"{at}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        effect = toleration.get("effect", "")
        if effect and effect not in _EFFECTS:
            yield causes.unsupported(f"{at}.effect", effect, _EFFECTS)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield causes.invalid(f"{at}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")


def check_label(key: str, value: str, path: str) -> Iterator[Cause]:
    for problem in names.label_key_problems(key):
        yield causes.invalid(path, key, problem)
    for problem in names.label_value_problems(value):
        yield causes.invalid(path, value, problem)
