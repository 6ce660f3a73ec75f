"""Values made from the declared shapes, which must decode, and samples that are spoilt somewhere, which need not."""

import random
from typing import Any

from hypothesis import strategies as st

from edl.api.schema.shape import Shape, shape_of
from tests.api.samples import ABSENT, Data

NAMES = ("a", "job", "job-ps-0", "job-worker-1", "edl.dev/pin", "edl.dev/sizes", "cpu", "nvidia.com/gpu")
WORDS = ("a", "job", "true", "1,2,4", "30s", "Normal", "host:80", "10%", "/data", " ", "ä")
QUANTITIES = ("500m", "1", "1Gi", "0", "1e3", 0, 2, 0.5, 4096)
PRIORITIES = ("Normal", "Production", "7", 7, "no such level")
THINGS: tuple[Data, ...] = ({"name": "data"}, {}, {"name": 5, "mountPath": "/x"})
TEMPLATES: tuple[Data, ...] = (
    {},
    {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
    {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "trainer"}], "nodeSelector": {"a": "b"}}},
    {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}},
    {"spec": {"containers": None, "priorityClassName": "high", "restartPolicy": "Always"}},
    {"spec": {"containers": [{"name": "c"}, {"name": "c", "image": "a b"}], "tolerations": [{"key": "x"}]}},
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
JSON = st.sampled_from(NASTY) | st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NASTY), max_size=3)


def valid(kind: type) -> st.SearchStrategy[Data]:
    """Objects of the kind whose every field has the right type and is within its own bounds.

    Drawn from a seed: hypothesis would spend ten times as long on the drawing as the tests on the object.
    """
    return st.integers(0, 2**64).map(lambda seed: _Maker(random.Random(seed)).object_of(shape_of(kind)))


# What fits wherever it is wanted, by the name of the field; "" is for all others.
FITTING: dict[str, tuple[Any, ...]] = {
    "": ("/data", "/a"),
    "freezing_window": ("30s", "1m"),
    "rdzvEndpoint": ("etcd:2379", "[::1]:80"),
    "name": ("job", "a-b"),
    "min-instance": (1, 2),
    "minReplicas": (1, 2),
    "replicas": (3,),
    "max-instance": (3, 6),
    "maxReplicas": (3, 6),
    "resource_updation": ([],),
    "limits": ({"cpu": 1, "nvidia.com/gpu": 1}, {"memory": "1Gi"}),
    "requests": ({"cpu": 0.5}, {}),
    "annotations": ({"edl.dev/sizes": "2,3"}, {"edl.dev/pin": "true", "edl.dev/priority": "7"}),
    "labels": ({"a": "b"},),
    "NodeSelector": ({"disk": "ssd"},),
    "volumes": ([{"name": "data"}],),
    "VolumeMounts": ([{"name": "data", "mountPath": "/m"}],),
    "imagePullSecrets": ([{"name": "key"}],),
    "priority": ("Production", 7),
    "cpu": (4, "500m"),
    "memory": (4096, "4Gi"),
    "disk": (1, "1Gi"),
    "template": (TEMPLATES[1], TEMPLATES[3]),
}


class _Maker:
    """Most objects are made of what fits, so that they are valid as a whole; the others of anything that decodes."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.fitting = dice.random() < 0.7

    def object_of(self, shape: Shape) -> Data:
        made = {"metadata": self._metadata(), "spec": self._value(shape.fields["spec"])}
        return made | ({"status": self.dice.choice(STATUSES)} if self._maybe() else {})

    def _maybe(self) -> bool:
        return self.dice.random() < 0.5

    def _metadata(self) -> Data:
        optional = {
            "namespace": "space",
            "uid": "0-1",
            "generation": self.dice.randrange(9),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": self._words("annotations"),
            "labels": self._words("labels"),
        }
        name = self.dice.choice(FITTING["name"] if self.fitting else ("job", "J.ob"))
        return {"name": name, **{field: value for field, value in optional.items() if self._maybe()}}

    def _words(self, field: str) -> Any:
        if self.fitting:
            return self.dice.choice(FITTING[field])
        return {self.dice.choice(NAMES): self.dice.choice(WORDS) for _ in range(self.dice.randrange(3))}

    def _value(self, shape: Shape, name: str = "") -> Any:
        dice = self.dice
        if self.fitting and name in FITTING and shape.form != "object":
            return dice.choice(FITTING[name])
        match shape.form:
            case "object":
                names = [name for name in shape.fields if name in shape.required or self._maybe()]
                return {name: self._value(shape.fields[name], name) for name in names}
            case "map":
                return {dice.choice(NAMES): self._value(shape.of) for _ in range(dice.randrange(3))}
            case "list":
                return [self._value(shape.of) for _ in range(dice.randrange(3))]
            case "integer":
                least = shape.minimum or 0
                return dice.randint(least, min(shape.maximum or 20, least + 20))
        return dice.choice(self._choices(shape))

    def _choices(self, shape: Shape) -> Any:
        choices = {
            "choice": shape.choices,
            "number": (0.0, 1.5, 60.0),
            "boolean": (True, False),
            "quantity": QUANTITIES,
            "priority": PRIORITIES,
            "template": TEMPLATES,
            "anything": THINGS,
            "text": FITTING[""] if self.fitting else WORDS,
        }
        return choices[shape.form]


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
