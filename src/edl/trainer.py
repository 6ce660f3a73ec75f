"""The API of training scripts that take part in an elastic job.

from edl.trainer import Trainer

with Trainer() as trainer:
    model = trainer.parameters(dense={"w": w0}, optimizer="adam", learning_rate=0.1)
    for task in trainer.tasks(chunks=64):
        weights = model.pull()
        loss, gradient = step(weights, data[task.part(len(data))])
        model.push({"w": gradient})
        trainer.report(loss=loss, samples=len(gradient))
"""

from edl.runtime.parameters.model import Optimizer
from edl.runtime.trainer_api.master_connection import JobFailedError
from edl.runtime.trainer_api.parameters import Parameters
from edl.runtime.trainer_api.shards import Shard
from edl.runtime.trainer_api.task import Task
from edl.runtime.trainer_api.task_reporter import Acknowledgement
from edl.runtime.trainer_api.trainer import Sparse, Trainer

__all__ = ["Acknowledgement", "JobFailedError", "Optimizer", "Parameters", "Shard", "Sparse", "Task", "Trainer"]
