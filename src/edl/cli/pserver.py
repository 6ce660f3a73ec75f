"""`edl pserver`: a parameter server of a TrainingJob; the operator runs it in the job's pserver pods."""

import argparse
import logging
import os
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoints", metavar="DIR", help="where checkpoints are kept (default $EDL_CHECKPOINT_DIR)")


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from edl.runtime.environment import Environment, SettingError
    from edl.runtime.pserver.run import run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        env = Environment.read(os.environ)
        return run(replace(env, checkpoints=args.checkpoints or env.checkpoints))
    except (SettingError, ValueError) as error:
        print(f"edl pserver: {error}", file=sys.stderr)
        return 2
