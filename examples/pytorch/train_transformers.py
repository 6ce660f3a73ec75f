"""The same with the Trainer of Hugging Face: nothing in it knows of EDL.

A tiny language model, made up here together with its data, so that nothing is downloaded. The Trainer saves a
checkpoint every few steps; whoever starts anew resumes from the last one.

    torchrun --nproc-per-node 2 train_transformers.py --steps 40 --output /tmp/run
"""

import argparse
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Sentences(torch.utils.data.Dataset):
    """Sequences in which every number follows from the one before."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(16) * 3 + index) % 64
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("run"))
    options = parser.parse_args()
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    arguments = TrainingArguments(
        output_dir=str(options.output),
        max_steps=options.steps,
        save_steps=options.every,
        logging_steps=options.every,
        save_total_limit=2,
        per_device_train_batch_size=8,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Sentences())
    last = get_last_checkpoint(str(options.output)) if options.output.exists() else None
    trainer.train(resume_from_checkpoint=last)
    if trainer.is_world_process_zero():
        print(f"finished at step {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main()
