"""TensorFlow's ParameterServerStrategy as an EasyDL job: a regression whose weights live on parameter servers.

TF_CONFIG, which EDL sets, says who this process is. Parameter servers and workers serve for ever. The chief, which is
the job's first worker, schedules steps on the others; a step whose worker dies is done again by another one, and the
worker's successor, at the same address, takes part as soon as it serves. The end of the chief is the end of the job.
"""

import argparse
import os
import time
from typing import Any

os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # steps wait for workers that are not there yet
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

FEATURES = 8
BATCH = 64
LEARNING_RATE = 0.1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50, help="of an epoch")
    parser.add_argument("--pause", type=float, default=0.0, help="pretends that an epoch takes seconds longer")
    return parser.parse_args()


def serve(resolver: Any) -> None:
    """As a parameter server or a worker, until the pod is deleted."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()


def batches() -> Any:
    """Made anew on every worker: inputs whose sum, and 3 more, is to be learnt."""
    inputs = tf.data.Dataset.random(seed=1).batch(BATCH * FEATURES)
    inputs = inputs.map(lambda bits: tf.reshape(tf.cast(bits % 2000, tf.float32) / 1000.0 - 1.0, (BATCH, FEATURES)))
    return inputs.map(lambda x: (x, tf.reduce_sum(x, axis=1) + 3.0))


def train(resolver: Any, options: argparse.Namespace) -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights, bias = tf.Variable(tf.zeros(FEATURES)), tf.Variable(0.0)

    def train_step(data: Any) -> Any:
        inputs, wanted = next(data)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(inputs, weights) + bias - wanted) ** 2)
        for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias)), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    step = tf.function(train_step)
    data = iter(coordinator.create_per_worker_dataset(batches))
    epoch = 0
    while epoch < options.epochs:
        losses = [coordinator.schedule(step, args=(data,)) for _ in range(options.steps)]
        coordinator.join()
        epoch += 1
        loss = sum(float(one.fetch()) for one in losses) / len(losses)
        print(f"epoch {epoch}: {options.steps} steps, loss {loss:.6f}", flush=True)
        time.sleep(options.pause)
    print("weights", *(f"{weight:.3f}" for weight in weights.numpy()), f"{bias.numpy():.3f}", flush=True)


def main() -> None:
    options = arguments()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        train(resolver, options)
    else:
        serve(resolver)


if __name__ == "__main__":
    main()
