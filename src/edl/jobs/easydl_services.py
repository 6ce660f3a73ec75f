"""What the pods of an EasyDL job need beside themselves: the Secret with its token, and a Service for every slot."""

from collections.abc import Sequence

from edl.api.core import Service
from edl.api.easydl_job import ElasticJob
from edl.jobs.children import Child, Owner, Standing, reconcile_child, standing
from edl.jobs.easydl_children import EasydlChildren
from edl.jobs.easydl_role import RoleLook
from edl.jobs.intents import Delete, Intent
from edl.jobs.look import Look
from edl.jobs.outcome import ObjectKey, Refusal
from edl.jobs.refusal import name_taken, still_going
from edl.jobs.upkeep import is_made


class Services:
    def __init__(self, look: Look[ElasticJob], children: EasydlChildren, owner: Owner) -> None:
        self._look, self._children, self._owner = look, children, owner
        self._observed, self._uid = look.observed, look.job.metadata.uid

    def reconcile(self, roles: Sequence[RoleLook]) -> tuple[list[Intent], Refusal | None]:
        """For the slots that have pods or get them, and for no others. Stops at a name that is not ours."""
        wanted = [(role.name, index, attempt) for role in roles for index, attempt in _slots(role)]
        intents: list[Intent] = []
        secret = self._children.secret(self._look.token, self._look.ca)
        trouble = next((role.sight.trouble for role in roles if role.sight.trouble is not None), None)
        if self._look.token and wanted and not is_made(secret, self._observed, trouble):
            intents += reconcile_child(secret, None, self._owner, self._uid, None)
        for slot in wanted:
            found, blocked = self._service(*slot)
            if blocked is not None:
                return intents, blocked
            intents += found
        names = {self._children.slot(role, index) for role, index, _ in wanted}
        for (kind, name), seen in sorted(self._observed.objects.items()):
            if kind == Service.KIND and name not in names and self._stands((kind, name)) == "ours":
                intents.append(Delete(kind, name, seen.metadata.uid))
        return intents, None

    def _service(self, role: str, index: int, attempt: int) -> tuple[list[Intent], Refusal | None]:
        child = self._children.service(role, index, attempt)
        seen, stands = self._observed.objects.get((child.kind, child.name)), self._stands((child.kind, child.name))
        if stands == "foreign" or (seen is None and self._is_taken(child)):
            return [], name_taken(child)
        if stands in ("leftover", "going"):
            return [], still_going(child)
        intents = reconcile_child(child, seen, self._owner, self._uid, None)
        if not intents and isinstance(seen, Service):
            led = self._children.lead_to(seen, role, index, attempt)
            return [led] if led is not None else [], None
        return intents, None

    def _is_taken(self, child: Child) -> bool:
        known = (one for one in self._observed.refusals if one.foreign and one.retry_at > self._look.now)
        return any((one.kind, one.name) == (child.kind, child.name) for one in known)

    def _stands(self, key: ObjectKey) -> Standing:
        return standing(self._observed.objects.get(key), self._owner, self._uid)


def _slots(role: RoleLook) -> list[tuple[int, int]]:
    """Index and attempt of whoever has each slot, or will."""
    found = {new.index: new.attempt for new in role.plan.create}
    found |= {index: pod.attempt for index, pod in role.plan.holders.items()}
    return sorted(found.items())
