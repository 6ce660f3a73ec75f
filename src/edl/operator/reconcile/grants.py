"""Grants of the scheduler's last plan to each job, in the memory of the leading operator.

Nothing here needs to last: the target of a grant is written into the job's status before it is acted upon, and a new
leader reads it there. Grants are by uid, so that a job made anew under an old name starts with nothing.
"""

from collections.abc import Container, Iterator, Mapping

from edl.jobs.core.grant import Grant


class Grants:
    def __init__(self) -> None:
        self._by_uid: dict[str, Grant] = {}

    def get(self, uid: str) -> Grant | None:
        return self._by_uid.get(uid)

    def put(self, uid: str, grant: Grant) -> bool:
        """Whether the job is to be reconciled because of it: another target, another reason for it, or other roles.
        Words alone change with every plan and are no reason, unless they answer an edit."""
        known = self._by_uid.get(uid)
        self._by_uid[uid] = grant
        if known is None or (known.target, known.minimum) != (grant.target, grant.minimum):
            return True
        if (known.hold, known.request) != (grant.hold, grant.request):
            return True
        if known.code != grant.code:
            return True
        if known.edition != grant.edition and known.message != grant.message:
            return True  # what is said about an edit is news, though it be the same with another number in it
        return (known.roles, known.in_force) != (grant.roles, grant.in_force)

    def keep(self, uids: Container[str]) -> None:
        """Forgets jobs that are gone."""
        for uid in [uid for uid in self._by_uid if uid not in uids]:
            del self._by_uid[uid]

    def __iter__(self) -> Iterator[tuple[str, Grant]]:
        return iter(self._by_uid.items())


def spread(by_node: Mapping[str, int]) -> tuple[str, ...]:
    """One entry per pod: a node that is to take two comes twice."""
    return tuple(node for node, count in sorted(by_node.items()) for _ in range(count) if node)
