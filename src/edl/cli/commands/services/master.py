"""`edl master`: the task queue of a TrainingJob; the operator runs it in the job's master pod."""

import argparse

from edl.cli.commands.services.role import run_role

SUMMARY = "run the task queue of a TrainingJob (the operator does, in its pod)"
ORDER = 230


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lease",
        type=float,
        metavar="SECONDS",
        help="a silent trainer keeps its task this long (default $EDL_TASK_LEASE, 16)",
    )
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        metavar="SECONDS",
        help="how far apart checkpoints are at most (default $EDL_CHECKPOINT_SECONDS, 30)",
    )


def run(args: argparse.Namespace) -> int:
    from edl.runtime.tasks.run import run

    return run_role("master", run, task_lease=args.lease, checkpoint_seconds=args.checkpoint_every)
