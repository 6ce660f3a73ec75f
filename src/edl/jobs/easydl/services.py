"""The Secret with the token and a Service for every slot of an EasyDL job."""

from collections.abc import Sequence

from edl.api.kubernetes.core import Service
from edl.jobs.core.actions import Action, Delete
from edl.jobs.core.children import Child, Owner, own_services, ownership, reconcile_child, redirected
from edl.jobs.core.maintenance import already_created
from edl.jobs.core.outcome import Refusal
from edl.jobs.core.refusals import name_taken, still_terminating
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.easydl.children import EasydlChildren
from edl.jobs.easydl.role import RoleReconcile
from edl.jobs.easydl.types import ElasticJob


class Services:
    def __init__(self, request: ReconcileRequest[ElasticJob], children: EasydlChildren, owner: Owner) -> None:
        self._request, self._children, self._owner = request, children, owner
        self._observed, self._uid = request.observed, request.job.metadata.uid

    def reconcile(self, roles: Sequence[RoleReconcile]) -> tuple[list[Action], Refusal | None]:
        """For the slots that have pods or get them, and for no others. Stops at a name that is not ours."""
        wanted = [(role.name, index, attempt) for role in roles for index, attempt in _slots(role)]
        actions: list[Action] = []
        secret = self._children.secret(self._request.token, self._request.ca)
        startup_problem = next(
            (role.observed_pods.startup_problem for role in roles if role.observed_pods.startup_problem is not None),
            None,
        )
        if self._request.token and wanted and not already_created(secret, self._observed, startup_problem):
            actions += reconcile_child(secret, None, self._owner, self._uid, None)
        for slot in wanted:
            found, blocked = self._service(*slot)
            if blocked is not None:
                return actions, blocked
            actions += found
        names = {self._children.slot(role, index) for role, index, _ in wanted}
        own = own_services(self._observed.objects, self._owner, self._uid)
        actions += [Delete(Service.KIND, name, seen.metadata.uid) for name, seen in own if name not in names]
        return actions, None

    def _service(self, role: str, index: int, attempt: int) -> tuple[list[Action], Refusal | None]:
        child = self._children.service(role, index, attempt)
        seen = self._observed.objects.get((child.kind, child.name))
        owned = ownership(seen, self._owner, self._uid)
        if owned == "foreign" or (seen is None and self._is_taken(child)):
            return [], name_taken(child)
        if owned in ("leftover", "going"):
            return [], still_terminating(child)
        actions = reconcile_child(child, seen, self._owner, self._uid, None)
        if not actions and isinstance(seen, Service):
            return redirected(seen, self._children.selector(role, index, attempt)), None
        return actions, None

    def _is_taken(self, child: Child) -> bool:
        known = (one for one in self._observed.refusals if one.foreign and one.retry_at > self._request.now)
        return any((one.kind, one.name) == (child.kind, child.name) for one in known)


def _slots(role: RoleReconcile) -> list[tuple[int, int]]:
    """Index and attempt of whoever has each slot, or will."""
    found = {new.index: new.attempt for new in role.plan.create}
    found |= {index: pod.attempt for index, pod in role.plan.holders.items()}
    return sorted(found.items())
