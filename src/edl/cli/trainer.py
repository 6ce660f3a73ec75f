"""`edl trainer`: plans the resources of an EasyDL job and gives its workers their shards; the operator runs it in the
job's trainer pod."""

import argparse
import logging
import os
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--period",
        type=float,
        metavar="SECONDS",
        help="how often it reports and asks for a plan (default $EDL_PLAN_SECONDS, 30)",
    )
    parser.add_argument("--brain", metavar="URL", help="default $EDL_BRAIN_URL; without one it plans by local rules")
    parser.add_argument(
        "--lease",
        type=float,
        metavar="SECONDS",
        help="a silent worker keeps its shard this long (default $EDL_TASK_LEASE, 16)",
    )


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from edl.runtime.environment import Environment, SettingError
    from edl.runtime.trainer.run import run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        env = Environment.read(os.environ)
        return run(
            replace(
                env,
                plan_seconds=args.period or env.plan_seconds,
                brain_url=args.brain or env.brain_url,
                task_lease=args.lease or env.task_lease,
            )
        )
    except (SettingError, ValueError) as error:
        print(f"edl trainer: {error}", file=sys.stderr)
        return 2
