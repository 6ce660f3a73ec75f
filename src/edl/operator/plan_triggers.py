"""Decides which changes of objects trigger a plan. Each function returns something if the change matters.

Changes that a plan caused itself do not: they would only lead to the same plan again.
"""

from collections.abc import Mapping

from edl.api.kubernetes.core import Node, Pod
from edl.api.labels import LABEL_UID
from edl.jobs.core.phase import FINAL
from edl.operator.resources import RawJob
from edl.scheduler.placement.node_match import planned_nodes


def any_change(old: object, new: object) -> tuple[int, ...]:
    return (1,)


def job_matters(old: RawJob | None, new: RawJob | None) -> tuple[int, ...]:
    """Status that the operator writes itself does not matter, but that a job has ended does."""
    if old is None or new is None:
        return (1,)
    before, after = old.metadata, new.metadata
    same = (before.uid, before.generation, before.annotations) == (after.uid, after.generation, after.annotations)
    going = before.deletion_timestamp != after.deletion_timestamp
    return (1,) if not same or going or _finished(old) != _finished(new) else ()


def _finished(job: RawJob) -> bool:
    """Kinds spell their phases with capitals or without."""
    return isinstance(job.status, Mapping) and str(job.status.get("phase")).lower() in FINAL


def pod_matters(old: Pod | None, new: Pod | None) -> tuple[int, ...]:
    """That a plan is carried out does not matter: a pod that it wanted exists, and then is on a node.

    Nor if that is another node than it chose: kube-scheduler scores a part of a large cluster only, about half of two
    hundred nodes. The capacity is taken all the same; the next regular plan sees where.
    """
    if new is None:
        return (1,)
    if old is None:
        return () if _planned(new) and not new.spec.node_name else (1,)
    return (1,) if _relevant_of_pod(old) != _relevant_of_pod(new) else ()


def _planned(pod: Pod) -> tuple[str, ...]:
    """The nodes that the plan chose for pods of ours like this one."""
    return planned_nodes(pod.spec) if LABEL_UID in pod.metadata.labels else ()


def _relevant_of_pod(pod: Pod) -> tuple[object, ...]:
    scheduled = pod.status.condition("PodScheduled")
    return (
        _planned(pod) or pod.spec.node_name,
        pod.finished,
        pod.status.nominated_node_name,
        pod.metadata.deletion_timestamp,
        scheduled.reason if scheduled is not None else "",
        pod.spec.scheduling_gates,
        [container.resources for container in pod.spec.containers],
    )


def node_matters(old: Node | None, new: Node | None) -> tuple[int, ...]:
    if old is None or new is None:
        return (1,)
    return (1,) if _relevant_of_node(old) != _relevant_of_node(new) else ()


def _relevant_of_node(node: Node) -> tuple[object, ...]:
    """Heartbeats change times and nothing else."""
    return node.spec, node.status.allocatable, node.metadata.labels, node.ready
