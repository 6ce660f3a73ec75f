"""`edl master`: the task queue of a TrainingJob; the operator runs it in the job's master pod."""

import argparse
import logging
import os
import sys


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
    from dataclasses import replace

    from edl.runtime.environment import Environment, SettingError
    from edl.runtime.master.run import run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        env = Environment.read(os.environ)
        return run(
            replace(
                env,
                task_lease=args.lease or env.task_lease,
                checkpoint_seconds=args.checkpoint_every or env.checkpoint_seconds,
            )
        )
    except (SettingError, ValueError) as error:
        print(f"edl master: {error}", file=sys.stderr)
        return 2
