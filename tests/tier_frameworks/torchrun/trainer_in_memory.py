"""`examples/pytorch/train_transformers.py` with checkpoints in memory, and a trace of its steps."""

import argparse
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import edl.torch as elastic

EXAMPLE = Path(__file__).parents[3] / "examples" / "pytorch" / "train_transformers.py"


class Trace(TrainerCallback):  # type: ignore[misc,unused-ignore]  # transformers is not installed where types are checked
    def __init__(self, folder: Path, pause: float) -> None:
        self._file, self._pause = folder / f"{os.getpid()}.jsonl", pause

    def on_step_end(self, args: Any, state: Any, control: Any, *, model: Any, lr_scheduler: Any, **kwargs: Any) -> None:
        line = {"at": time.monotonic(), "step": state.global_step, "rank": args.process_index, "world": args.world_size}
        line["model"] = sum(weight.double().sum().item() for weight in model.parameters())
        line["lr"] = lr_scheduler.get_last_lr()
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        time.sleep(self._pause)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--pause", type=float)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--trace", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        output_dir=str(options.trace / "output"),
        max_steps=options.steps,
        save_strategy="no",
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    data = runpy.run_path(str(EXAMPLE))["Sentences"]()
    memory = elastic.TrainerCheckpoints(options.checkpoint, every=1000, write_every=1000)
    trace = Trace(options.trace, options.pause)
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[trace, memory])
    trainer.train(resume_from_checkpoint=memory.resume())
    print(f"finished at step {trainer.state.global_step}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
