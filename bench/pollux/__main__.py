"""`python -m bench.pollux`: completion times of the published Pollux workloads under EDL's policies and two rivals."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.pollux import report
from bench.pollux.application import Application
from bench.pollux.job import PAUSE, SimulatedJob
from bench.pollux.optimus import Optimus
from bench.pollux.shipping import REMAINING, Shipping
from bench.pollux.simulator import Scheduler, Simulator
from bench.pollux.tables import BadTableError, Submission, read_applications, read_published, read_workloads
from bench.pollux.tiresias import Tiresias

from edl.cli.output.progress_line import ProgressLine
from edl.scheduler.policies.registry import POLICIES

RIVALS: dict[str, Callable[[], Scheduler]] = {"tiresias": Tiresias, "optimus": Optimus}
NAMES = (*POLICIES, *(name + REMAINING for name, policy in POLICIES.items() if policy.divides), *RIVALS)
EXPLANATION = f"""
files, all in one folder (the traces are not part of this repository):
  FILE.csv                 load,workload,name,time,application,num_replicas,batch_size
  pollux_placements.csv    application,placement,local_bsz,step_time,sync_time
  pollux_scalability.csv   application,num_nodes,num_replicas,local_bsz,step_time,sync_time
  pollux_validation.csv    application,batch_size,progress,iteration,grad_sqr,grad_var
  --published FILE.csv     variant,workload,name,jct_s (variant: policy and load, such as pollux-1.0)

policies:
  cfs, fulfillment         the shipping scheduler; jobs of 1 GPU per worker, batch chosen by the job's agent
  goodput                  the same, by throughput models and gradient noise, without remaining work
  goodput{REMAINING}        the same, and told how much work is left of each job
  tiresias, optimus        rivals with the batch of the trace; Optimus knows true step times and remaining steps

rules: 16 nodes of 4 GPUs; every 60 s all jobs advance, then one decision; any change of a job's nodes costs {PAUSE} s
(--pause) with its GPUs held, the first start too. decision_ms is CPU time, all plans of a tick together.
"""


def main() -> int:
    arguments = _arguments()
    try:
        runs = _run(arguments)
    except (BadTableError, ValueError) as error:
        print(f"bench.pollux: {error}", file=sys.stderr)
        return 2
    if arguments.output == "json":
        print(json.dumps(runs, indent=2))
    else:
        print(report.HEAD)
        for one in (*map(report.line, runs), *report.means(runs)):
            print(one)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pollux",
        description=__doc__,
        epilog=EXPLANATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--workloads", type=Path, required=True, metavar="FILE.csv", help="jobs; tables from its folder"
    )
    parser.add_argument("--load", default="1.0", help="rows of this load (default 1.0)")
    parser.add_argument("--only", default="", metavar="N[,N...]", help="these workloads (default: all of the load)")
    parser.add_argument("--policy", default="goodput", metavar="NAME[,NAME...]", help=", ".join(NAMES))
    parser.add_argument("--published", type=Path, metavar="FILE.csv", help="compare with published times, job by job")
    parser.add_argument("--pause", type=int, default=PAUSE, metavar="SECONDS", help=f"of a change (default {PAUSE})")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")
    return parser.parse_args()


def _run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    policies = [name.strip() for name in arguments.policy.split(",")]
    if unknown := [name for name in policies if name not in NAMES]:
        raise ValueError(f"--policy: there is no {unknown[0]!r}; known: {', '.join(NAMES)}")
    if arguments.pause < 0:
        raise ValueError(f"--pause {arguments.pause}: wants seconds, 0 or more")
    applications = read_applications(arguments.workloads.parent)
    submissions = _chosen(read_workloads(arguments.workloads, applications), arguments)
    published = read_published(arguments.published) if arguments.published else None
    runs = []
    for policy in policies:
        for workload in sorted({one.workload for one in submissions}):
            own = [one for one in submissions if one.workload == workload]
            simulator = _simulate(policy, own, applications, arguments)
            runs.append(report.figures(arguments.load, workload, policy, simulator))
            if published is not None:
                known = published.get((policy, arguments.load, workload))
                compared = report.against_published(report.completion_times(simulator), known)
                print(f"{policy}, workload {workload}: {compared}", file=sys.stderr)
    return runs


def _chosen(submissions: list[Submission], arguments: argparse.Namespace) -> list[Submission]:
    loads = sorted({one.load for one in submissions})
    found = [one for one in submissions if float(one.load) == float(arguments.load)]
    if not found:
        raise ValueError(f"--load {arguments.load}: {arguments.workloads} has {', '.join(loads) or 'no jobs'}")
    arguments.load = found[0].load
    if not arguments.only:
        return found
    wanted = {int(number) for number in arguments.only.split(",")}
    if missing := sorted(wanted - {one.workload for one in found}):
        raise ValueError(f"--only: {arguments.workloads} has no workload {missing[0]} of load {arguments.load}")
    return [one for one in found if one.workload in wanted]


def _simulate(
    policy: str, submissions: list[Submission], applications: dict[str, Application], arguments: argparse.Namespace
) -> Simulator:
    scheduler = RIVALS[policy]() if policy in RIVALS else Shipping(policy)
    jobs = [
        SimulatedJob(one, applications[one.application], batch_size=None, pause=arguments.pause) for one in submissions
    ]
    scheduler.submit(jobs)
    simulator = Simulator(jobs, scheduler)
    progress = ProgressLine(f"{policy}, workload {submissions[0].workload}", quiet=arguments.quiet)
    simulator.run(progress)
    progress.end()
    return simulator


if __name__ == "__main__":
    sys.exit(main())
