"""Jobs: generated selector and labels, defaults, validation and immutable fields."""

from collections.abc import Iterator

from edl.embedded.server import causes
from edl.embedded.server.kinds import selectors
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.kinds.pod_defaults import default_template
from edl.embedded.server.kinds.pod_validation import check_pod_spec
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_UNLIMITED = 2**31 - 1
_LABELS = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)


def _default(job: Object) -> None:
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = _UNLIMITED if "backoffLimitPerIndex" in spec else 6
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    if "podReplacementPolicy" not in spec:
        spec["podReplacementPolicy"] = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    default_template(spec["template"])
    labels = spec["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _prepare_create(job: Object) -> None:
    """Pods are selected by the job's uid, so that two jobs of one name never share a pod."""
    job["status"] = {}
    spec, uid, name = job["spec"], job["metadata"]["uid"], job["metadata"].get("name", "")
    if spec.get("manualSelector"):
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    inherited = not job["metadata"].get("labels") or job["metadata"]["labels"] == labels
    labels |= dict(zip(_LABELS, (uid, name, uid, name), strict=True))
    if inherited:
        job["metadata"]["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def _check(job: Object) -> Iterator[Cause]:
    spec = job["spec"]
    for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        if spec.get(name, 0) < 0:
            yield causes.invalid(f"spec.{name}", spec[name], "must be greater than or equal to 0")
    if spec["completionMode"] not in ("Indexed", "NonIndexed"):
        yield causes.unsupported("spec.completionMode", spec["completionMode"], ("NonIndexed", "Indexed"))
    elif spec["completionMode"] == "Indexed" and "completions" not in spec:
        yield causes.required("spec.completions", 'when completion mode is "Indexed"')
    yield from check_pod_spec(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy == "Always":
        yield causes.required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    selector = spec.get("selector") or {}
    labels = spec["template"]["metadata"].get("labels") or {}
    if not spec.get("manualSelector") and set(selector.get("matchLabels") or ()) != {_LABELS[0]}:
        yield causes.invalid("spec.selector", selector, "`selector` not auto-generated")
    if selector and not selectors.matches(selector, labels):
        yield causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _validate(job: Object) -> list[Cause]:
    return list(_check(job))


def _validate_update(new: Object, old: Object) -> list[Cause]:
    found = list(_check(new))
    spec, before = new["spec"], old["spec"]
    if spec.get("completions") != before.get("completions") and not (
        spec["completionMode"] == "Indexed" and spec.get("completions") == spec.get("parallelism")
    ):
        tandem = "can only be modified in tandem with spec.parallelism"
        rule = tandem if spec["completionMode"] == "Indexed" else "field is immutable"
        found.append(causes.invalid("spec.completions", spec.get("completions"), rule))
    found += [
        causes.immutable(f"spec.{name}", spec.get(name)) for name in _IMMUTABLE if spec.get(name) != before.get(name)
    ]
    if spec["template"] != before["template"] and not _may_reschedule(old):
        found.append(causes.immutable("spec.template", spec["template"]))
    return found


def _may_reschedule(old: Object) -> bool:
    """The template may change while the job is suspended and has never started."""
    return bool(old["spec"].get("suspend")) and not old["status"].get("startTime")


JOB = Strategy(
    default=_default,
    prepare_create=_prepare_create,
    validate=_validate,
    validate_update=_validate_update,
    generation=True,
    has_status=True,
)
