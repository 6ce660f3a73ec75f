"""Linear regression with PaddlePaddle's own parameter servers. Plain Paddle: nothing in here knows of EDL.

    python -m edl.paddle fit_a_line.py DIRECTORY

A line of a data file is `13 x1 ... x13 1 y`, Paddle's format for slots: how many values, then the values.
"""

import os
import sys

import numpy as np
import paddle
from paddle.distributed import fleet

FEATURES = 13
PASSES = int(os.environ.get("PADDLE_INIT_NUM_PASSES", "5"))


def main(directory: str) -> None:
    paddle.enable_static()
    fleet.init(is_collective=False)
    x = paddle.static.data("x", [None, FEATURES], "float32")
    y = paddle.static.data("y", [None, 1], "float32")
    predicted = paddle.static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w"), bias_attr=paddle.ParamAttr(name="b"))
    loss = paddle.mean(paddle.nn.functional.square_error_cost(predicted, y))
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=32, thread_num=1, use_var=[x, y], pipe_command="cat")
    files = sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.startswith("part-"))
    dataset.set_filelist(fleet.util.get_file_shard(files))
    for _ in range(PASSES):
        executor.train_from_dataset(
            paddle.static.default_main_program(), dataset, fetch_list=[loss], fetch_info=["loss"], print_period=10
        )
    scope = paddle.static.global_scope()
    weights = [np.array(scope.find_var(name).get_tensor()).reshape(-1) for name in ("w", "b")]
    print("weights", *(f"{value:.4f}" for value in np.concatenate(weights)), flush=True)
    fleet.stop_worker()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
