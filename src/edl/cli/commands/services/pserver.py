"""`edl pserver`: a parameter server of a TrainingJob; the operator runs it in the job's pserver pods."""

import argparse

from edl.cli.commands.services.role import run_role

SUMMARY = "run a parameter server of a TrainingJob (the operator does, in its pod)"
ORDER = 240


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoints", metavar="DIR", help="where checkpoints are kept (default $EDL_CHECKPOINT_DIR)")


def run(args: argparse.Namespace) -> int:
    from edl.runtime.parameters.run import run

    return run_role("pserver", run, checkpoints=args.checkpoints)
