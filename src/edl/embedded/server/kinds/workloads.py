"""ReplicaSets, Deployments and StatefulSets: defaults and validation."""

from collections.abc import Iterator
from typing import Any

from edl.embedded.server import causes
from edl.embedded.server.kinds import selectors
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.kinds.metadata import check_labels
from edl.embedded.server.kinds.pod_defaults import default_template
from edl.embedded.server.kinds.pod_validation import check_pod_spec
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_STATEFULSET_IMMUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFULSET_MUTABLE = frozenset(
    {
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    }
)


def _default_replicaset(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    default_template(spec["template"])


def _default_deployment(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_template(spec["template"])


def _default_statefulset(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    default_template(spec["template"])


def _initial_status(status: Object) -> Any:
    def prepare(obj: Object) -> None:
        obj["status"] = dict(status)

    return prepare


def _check_spec(obj: Object) -> Iterator[Cause]:
    spec = obj["spec"]
    if spec.get("replicas", 0) < 0:
        yield causes.invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    if spec.get("minReadySeconds", 0) < 0:
        yield causes.invalid("spec.minReadySeconds", spec["minReadySeconds"], "must be greater than or equal to 0")
    yield from check_selected_template(spec)


def check_selected_template(spec: Object) -> Iterator[Cause]:
    selector, template = spec.get("selector"), spec["template"]
    labels = template["metadata"].get("labels") or {}
    mismatch = causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if selector is None:
        yield causes.required("spec.selector")
        yield mismatch
    else:
        wrong = list(selectors.check_selector(selector, "spec.selector"))
        yield from wrong
        if wrong:
            yield causes.invalid("spec.selector", selector, "invalid label selector")
        elif selectors.is_empty(selector):
            yield causes.invalid("spec.selector", selector, "empty selector is invalid for deployment")
        elif not selectors.matches(selector, labels):
            yield mismatch
    yield from check_labels(labels, "spec.template.labels")
    yield from check_pod_spec(template["spec"], "spec.template.spec")
    policy = template["spec"].get("restartPolicy", "")
    if policy in ("OnFailure", "Never"):
        yield causes.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))


def _validate(obj: Object) -> list[Cause]:
    return list(_check_spec(obj))


def _validate_update(new: Object, old: Object) -> list[Cause]:
    found = list(_check_spec(new))
    if new["spec"].get("selector") != old["spec"].get("selector"):
        found.append(causes.immutable("spec.selector", new["spec"].get("selector")))
    return found


def _validate_deployment(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    found = list(_check_spec(obj))
    strategy = spec["strategy"]
    if strategy["type"] == "Recreate" and "rollingUpdate" in strategy:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        found.append(causes.forbidden("spec.strategy.rollingUpdate", detail))
    elif strategy["type"] not in ("Recreate", "RollingUpdate"):
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
        found.append(causes.unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate")))
    return found


def _validate_deployment_update(new: Object, old: Object) -> list[Cause]:
    found = _validate_deployment(new)
    if new["spec"].get("selector") != old["spec"].get("selector"):
        found.append(causes.immutable("spec.selector", new["spec"].get("selector")))
    return found


def _validate_statefulset_update(new: Object, old: Object) -> list[Cause]:
    found = list(_check_spec(new))
    fixed = [
        {key: value for key, value in obj["spec"].items() if key not in _STATEFULSET_MUTABLE} for obj in (new, old)
    ]
    if fixed[0] != fixed[1]:
        found.append(causes.forbidden("spec", _STATEFULSET_IMMUTABLE))
    return found


REPLICASET = Strategy(
    default=_default_replicaset,
    prepare_create=_initial_status({"replicas": 0}),
    validate=_validate,
    validate_update=_validate_update,
    generation=True,
    has_status=True,
)
DEPLOYMENT = Strategy(
    default=_default_deployment,
    prepare_create=_initial_status({}),
    validate=_validate_deployment,
    validate_update=_validate_deployment_update,
    generation=True,
    has_status=True,
)
STATEFULSET = Strategy(
    default=_default_statefulset,
    prepare_create=_initial_status({"replicas": 0, "availableReplicas": 0}),
    validate=_validate,
    validate_update=_validate_statefulset_update,
    generation=True,
    has_status=True,
)
