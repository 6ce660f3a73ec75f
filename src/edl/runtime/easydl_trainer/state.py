"""Durable state of a trainer: its plans and what came of them, and enough samples to go on deciding.

A few KiB in the job service, written before a plan is posted, so that the next trainer does exactly the same.
"""

import msgspec

from edl.protocol.job_facts import Features, Incident, PlanRecord, Sample

KEY = "trainer"
SAMPLES, WITH_PODS, PLANS, INCIDENTS, SEEN = 60, 4, 20, 20, 200


class TrainerState(msgspec.Struct, frozen=True, omit_defaults=True):
    """`seen` are failed pods whose incident is known already."""

    features: Features = Features()
    plans: tuple[PlanRecord, ...] = ()
    samples: tuple[Sample, ...] = ()
    incidents: tuple[Incident, ...] = ()
    seen: tuple[str, ...] = ()

    def trimmed(self) -> "TrainerState":
        """The newest of each; what pods used is kept of the last samples only."""
        samples = self.samples[-SAMPLES:]
        bare = tuple(msgspec.structs.replace(sample, pods={}) for sample in samples[:-WITH_PODS])
        return msgspec.structs.replace(
            self,
            plans=self.plans[-PLANS:],
            samples=bare + samples[-WITH_PODS:],
            incidents=self.incidents[-INCIDENTS:],
            seen=self.seen[-SEEN:],
        )


def encode(state: TrainerState) -> bytes:
    return msgspec.json.encode(state.trimmed())


def decode(data: bytes) -> TrainerState:
    return msgspec.json.decode(data, type=TrainerState)
