"""The cluster as a whole: nodes and what they hold, who waits, and how namespaces share it."""

from collections import Counter

from edl.api.kubernetes.core import Node
from edl.web.model.state import ClusterState
from edl.web.model.usage import NOTHING, Usage, capacity_of, plus
from edl.web.types import Amounts, ClusterSample, ClusterView, JobRow, NodeRow, Share

NODES = 1000  # that a page lists
WAITING = 500
OVER = ("succeeded", "failed")


def cluster_view(state: ClusterState, past: list[ClusterSample], missing: list[str]) -> ClusterView:
    """`past`: what history keeps; of its time, history counts."""
    nodes = sorted(state.caches.nodes.all(), key=lambda node: _natural(node.metadata.name))
    rows = [_node_row(node, state.usage) for node in nodes]
    capacity = jobs = others = NOTHING
    for row in rows:
        capacity, jobs, others = plus(capacity, row.capacity), plus(jobs, row.jobs), plus(others, row.others)
    job_rows = list(state.jobs.rows())
    waiting = sorted((row for row in job_rows if row.state == "waiting"), key=lambda row: (row.created or 0, row.key))
    return ClusterView(
        capacity=capacity,
        jobs=jobs,
        others=others,
        nodes=rows[:NODES],
        more_nodes=max(0, len(rows) - NODES),
        queue=waiting[:WAITING],
        shares=_shares(job_rows, state.usage),
        samples=[*past, *(one for one in state.samples.all() if not past or one.time > past[-1].time)],
        counts=dict(Counter(row.state for row in job_rows)),
        missing=missing,
    )


def _natural(name: str) -> tuple[str, int]:
    """node-2 before node-10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def _node_row(node: Node, usage: Usage) -> NodeRow:
    name = node.metadata.name
    state = "not ready" if not node.ready else "cordoned" if node.spec.unschedulable else "ready"
    return NodeRow(
        name=name,
        state=state,
        capacity=capacity_of(node),
        jobs=usage.on(name, ours=True),
        others=usage.on(name, ours=False),
        pods=usage.pods_on.get(name, 0),
    )


def _shares(jobs: list[JobRow], usage: Usage) -> list[Share]:
    """Of every namespace that has jobs, the one that holds most first."""
    used: dict[str, Amounts] = {}
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for row in jobs:
        used[row.namespace] = plus(used.get(row.namespace, NOTHING), usage.by_job.get(row.key, NOTHING))
        waiting[row.namespace] += row.state == "waiting"
        running[row.namespace] += row.state not in (*OVER, "waiting", "new", "suspended")
    shares = [
        Share(namespace=name, used=amounts, running=running[name], waiting=waiting[name])
        for name, amounts in used.items()
    ]
    return sorted(shares, key=lambda one: (-one.used[2], -one.used[0], one.namespace))
