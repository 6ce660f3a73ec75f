"""Click-through rate from the categories of an impression: sparse embeddings on PaddlePaddle's own parameter servers.

    python -m edl.paddle ctr.py DIRECTORY

Plain Paddle: nothing in here knows of EDL. A line of a data file is `1 id` for each category and `1 click`.
"""

import os
import sys
from typing import Any

import paddle
from paddle.distributed import fleet

SLOTS, ROWS, WIDTH = 4, 1000, 8
PASSES = int(os.environ.get("PADDLE_INIT_NUM_PASSES", "5"))


def embedded(ids: Any) -> Any:
    start = paddle.nn.initializer.Uniform(-0.1, 0.1)
    table = paddle.ParamAttr(name="embedding", initializer=start)
    return paddle.static.nn.sequence_lod.sequence_pool(
        paddle.static.nn.sparse_embedding(ids, [ROWS, WIDTH], param_attr=table), "sum"
    )


def main(directory: str) -> None:
    paddle.enable_static()
    fleet.init(is_collective=False)
    slots = [paddle.static.data(f"slot{number}", [None, 1], "int64", lod_level=1) for number in range(SLOTS)]
    click = paddle.static.data("click", [None, 1], "int64")
    logits = paddle.static.nn.fc(paddle.concat([embedded(ids) for ids in slots], axis=1), 2)
    loss = paddle.mean(paddle.nn.functional.cross_entropy(logits, click))
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.Adam(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    executor, program = paddle.static.Executor(paddle.CPUPlace()), paddle.static.default_main_program()
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=32, thread_num=1, use_var=[*slots, click], pipe_command="cat")
    files = sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.startswith("part-"))
    dataset.set_filelist(fleet.util.get_file_shard(files))
    for _ in range(PASSES):
        executor.train_from_dataset(program, dataset, fetch_list=[loss], fetch_info=["loss"], print_period=20)
    dataset.set_filelist([os.path.join(directory, "unseen")])
    executor.infer_from_dataset(program, dataset, fetch_list=[loss], fetch_info=["unseen"], print_period=1)
    fleet.stop_worker()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
