"""Hypothesis strategies made from the declared shapes: values that must decode, and ones that are spoilt somewhere."""

from typing import Any

from hypothesis import strategies as st

from edl.api.shape import Shape, shape_of
from tests.api.samples import ABSENT, Data

NAMES = st.sampled_from(
    ["a", "job", "job-ps-0", "job-worker-1", "edl.dev/pin", "edl.dev/sizes", "cpu", "nvidia.com/gpu"]
)
WORDS = st.sampled_from(["a", "job", "true", "1,2,4", "30s", "Normal", "host:80", "10%", "/data", " ", "ä"])
QUANTITIES = st.sampled_from(["500m", "1", "1Gi", "0", "1e3", 0, 2, 0.5, 4096])
TEMPLATES: st.SearchStrategy[Data] = st.sampled_from(
    [
        {},
        {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "trainer"}], "nodeSelector": {"a": "b"}}},
        {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}},
        {"spec": {"containers": None, "priorityClassName": "high", "restartPolicy": "Always"}},
        {"spec": {"containers": [{"name": "c"}, {"name": "c", "image": "a b"}], "tolerations": [{"key": "x"}]}},
    ]
)

STATUSES: list[Data] = [
    {},
    {
        "phase": "running",
        "scale_status": {"current": 3, "target": 4, "pod_seconds": 1.5, "history": [{"from": 1, "to": 3}]},
    },
    {"phase": "Failed", "scale": {"current": 3, "lastScaleTime": "2026-01-01T00:00:00Z"}, "rootCause": {"exitCode": 1}},
    {"conditions": [{"type": "Queued", "status": "True"}], "observedGeneration": 2, "of a newer operator": {"a": [1]}},
]

NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 2**31, 2**63, 10**30, 10**5000, 0.5, 2.0, -0.0, 1e300, "", " ", "x", "0", "-1"),
    *("5", "1e3", "true", "null", "x" * 300, "\u00e4", "\x00", "a.b", "-a", "//", "Normal", "500m", "1Gi", "${X}"),
    *([], [None], [1, "a"], [[]], [{}], {}, {"a": None}, {"": 1}, {"name": "a"}, {"spec": 5}, {"spec": {}}),
    *({"spec": {"containers": [5]}}, {"spec": {"containers": [{"name": 5}]}}, {"metadata": []}, {"cpu": True}),
    *({"limits": {"cpu": "x"}}, {"requests": {"gpu": 1}}, [{"name": "a", "resource": {}}], {"template": []}),
)
JSON = st.sampled_from(NASTY) | st.dictionaries(NAMES, st.sampled_from(NASTY), max_size=3)


def valid(kind: type) -> st.SearchStrategy[Data]:
    """Objects of the kind whose every field has the right type and is within its own bounds."""
    spec = _of(shape_of(kind).fields["spec"])
    return st.fixed_dictionaries(
        {"metadata": _metadata(), "spec": spec}, optional={"status": st.sampled_from(STATUSES)}
    )


def _metadata() -> st.SearchStrategy[Data]:
    return st.fixed_dictionaries(
        {"name": st.sampled_from(["job", "a-b", "J.ob"])},
        optional={
            "namespace": st.just("space"),
            "uid": st.just("0-1"),
            "generation": st.integers(0, 9),
            "creationTimestamp": st.just("2026-01-01T00:00:00Z"),
            "annotations": st.dictionaries(NAMES, WORDS, max_size=2),
            "labels": st.dictionaries(NAMES, WORDS, max_size=2),
        },
    )


def _of(shape: Shape) -> st.SearchStrategy[Any]:
    match shape.form:
        case "object":
            return _object(shape)
        case "map":
            return st.dictionaries(NAMES, _of(shape.of), max_size=2)
        case "list":
            return st.lists(_of(shape.of), max_size=2)
        case "choice":
            return st.sampled_from(shape.choices)
        case "integer":
            least = shape.minimum or 0
            return st.integers(least, min(shape.maximum or 20, least + 20))
        case "number":
            return st.sampled_from([0.0, 1.5, 60.0])
        case "boolean":
            return st.booleans()
        case "quantity":
            return QUANTITIES
        case "priority":
            return st.sampled_from(["Normal", "Production", "7", 7, "no such level"])
        case "template":
            return TEMPLATES
        case "anything":
            return st.sampled_from([{"name": "data"}, {}, {"name": 5, "mountPath": "/x"}])
    return WORDS


def _object(shape: Shape) -> st.SearchStrategy[Data]:
    required = {name: _of(field) for name, field in shape.fields.items() if name in shape.required}
    optional = {name: _of(field) for name, field in shape.fields.items() if name not in shape.required}
    return st.fixed_dictionaries(required, optional=optional)


def paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The place of everything inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in ((*at, key), *paths(item, (*at, key)))]


def spoilt(sample: Data) -> st.SearchStrategy[Any]:
    """The sample with up to three things replaced by anything, removed, or added."""
    change = st.tuples(st.sampled_from(paths(sample)), JSON | st.just(ABSENT), st.booleans())
    return JSON | st.lists(change, min_size=1, max_size=3).map(lambda changes: _changed(sample, changes))


def _changed(sample: Any, changes: list[tuple[tuple[str | int, ...], Any, bool]]) -> Any:
    for at, value, beside in changes:
        sample = _put(sample, at, value, beside)
    return sample


def _put(value: Any, at: tuple[str | int, ...], new: Any, beside: bool) -> Any:
    """A changed copy; where an earlier change has taken the place away, nothing happens."""
    step, rest = at[0], at[1:]
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        inner = _put(value[step], rest, new, beside) if rest else new
        return [*value[:step], *([] if inner is ABSENT else [inner]), *value[step + 1 :]]
    if isinstance(value, dict) and step in value:
        inner = _put(value[step], rest, new, beside) if rest else new
        name = f"{step}x" if beside and not rest else step
        changed = {**value, name: inner}
        return {key: item for key, item in changed.items() if item is not ABSENT}
    return value
