"""Defaults of a TrainingJob, filled in memory and never written into the user's spec."""

from msgspec.structs import replace

from edl.jobs.core.defaults import given_or
from edl.jobs.training.types import Pserver, TrainingJob, TrainingJobSpec

PORT = 7164
BACKOFF_LIMIT = 6


def with_defaults(job: TrainingJob) -> TrainingJob:
    return replace(job, spec=_spec(job.spec))


def _spec(spec: TrainingJobSpec) -> TrainingJobSpec:
    trainer = spec.trainer
    return replace(
        spec,
        trainer=replace(
            trainer,
            max_instance=given_or(trainer.max_instance, trainer.min_instance),
            replicas=given_or(trainer.replicas, trainer.min_instance),
            passes=given_or(trainer.passes, given_or(spec.passes, 1)),
        ),
        pserver=spec.pserver and _pserver(spec.pserver, trainer.min_instance),
        etcd=spec.etcd and replace(spec.etcd, replicas=given_or(spec.etcd.replicas, 1)),
        port=given_or(spec.port, PORT),
        ports_num=given_or(spec.ports_num, 1),
        ports_num_for_sparse=given_or(spec.ports_num_for_sparse, 1),
        fault_tolerant=given_or(spec.fault_tolerant, False),
        backoff_limit=given_or(spec.backoff_limit, BACKOFF_LIMIT),
        passes=given_or(spec.passes, given_or(trainer.passes, 1)),
    )


def _pserver(pserver: Pserver, trainers: int) -> Pserver:
    least = given_or(pserver.min_instance, trainers)
    return replace(pserver, min_instance=least, max_instance=given_or(pserver.max_instance, least))
