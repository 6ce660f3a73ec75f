"""The throughput models of jobs, from what they have measured. A model is fitted again only after news of its curve."""

from collections.abc import Mapping

from msgspec.structs import replace

from edl.scheduler.snapshot.types import Snapshot
from edl.throughput.measured_model import measured_model, remaining_work
from edl.throughput.measurements import Measurements
from edl.throughput.model import JobModel

Measured = tuple[int, Measurements]
"""A number that differs after news, and the measurements."""


class ModelCache:
    """Models by uid. Jobs whose measurements are not handed in any more are forgotten."""

    def __init__(self) -> None:
        self._measured: Mapping[str, Measured] = {}
        self._kept: dict[str, tuple[Measured, int, JobModel | None]] = {}

    def take(self, measured: Mapping[str, Measured]) -> None:
        """What is known now; `model` is asked for each job then."""
        self._measured = measured
        if len(self._kept) > len(measured):
            self._kept = {uid: entry for uid, entry in self._kept.items() if uid in measured}

    def model(self, uid: str, most: int) -> JobModel | None:
        now = self._measured.get(uid)
        if now is None:
            return None
        entry = self._kept.get(uid)
        if entry is not None and entry[0][1] is now[1] and entry[1] == most:
            return entry[2]
        if entry is not None and (entry[0][0], entry[1]) == (now[0], most):
            model = entry[2]
            left = remaining_work(now[1])
            if model is not None and model.remaining != left:
                model = replace(model, remaining=left)
        else:
            model = measured_model(now[1], most)
        self._kept[uid] = now, most, model
        return model


def with_models(taken: Snapshot, cache: ModelCache, measured: Mapping[str, Measured]) -> Snapshot:
    """The same snapshot with models, where the policy that it was taken for needs none."""
    cache.take(measured)
    models = ((facts, cache.model(facts.uid, facts.max)) for facts in taken.jobs)
    jobs = [
        facts if model is None or facts.model is not None else replace(facts, model=model) for facts, model in models
    ]
    return replace(taken, jobs=tuple(jobs))
