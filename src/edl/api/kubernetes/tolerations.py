"""Taints and tolerations: whether a pod may be on a tainted node. Knows nothing of time or of who sets taints."""

from collections.abc import Iterable

from edl.api.kubernetes.cluster import Taint
from edl.api.kubernetes.pod import Toleration


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """No effect means every effect, no key with `Exists` means every taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value)


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint], effects: tuple[str, ...]) -> Taint | None:
    """The first taint with one of the effects that no toleration covers."""
    known = list(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(tolerates(one, taint) for one in known):
            return taint
    return None
