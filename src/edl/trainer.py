"""What a training script imports to take part in an elastic job.

from edl.trainer import Trainer

with Trainer() as trainer:
    model = trainer.parameters(dense={"w": w0}, optimizer="adam", learning_rate=0.1)
    for task in trainer.tasks(chunks=64):
        weights = model.pull()
        loss, gradient = step(weights, data[task.part(len(data))])
        model.push({"w": gradient})
        trainer.report(loss=loss, samples=len(gradient))
"""

from .runtime.model import Optimizer
from .runtime.training.courier import Acknowledgement
from .runtime.training.parameters import Parameters
from .runtime.training.shards import Shard
from .runtime.training.task import Task
from .runtime.training.trainer import JobFailedError, Sparse, Trainer

__all__ = ["Acknowledgement", "JobFailedError", "Optimizer", "Parameters", "Shard", "Sparse", "Task", "Trainer"]
