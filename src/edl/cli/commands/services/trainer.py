"""`edl trainer`: plans the resources of an EasyDL job and gives its workers their shards; the operator runs it in the
job's trainer pod."""

import argparse

from edl.cli.commands.services.role import run_role

SUMMARY = "run the planning trainer of an EasyDL job (the operator does, in its pod)"
ORDER = 250


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
    from edl.runtime.easydl_trainer.run import run

    return run_role("trainer", run, plan_seconds=args.period, brain_url=args.brain, task_lease=args.lease)
