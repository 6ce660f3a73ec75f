"""Names of slots and of the pods that fill them. A slot keeps its name and address while pods come and go."""


def slot_name(job: str, role: str, index: int, *, alone: bool = False) -> str:
    """A role that is `alone` has one slot, which needs no number."""
    return f"{job}-{role}" if alone else f"{job}-{role}-{index}"


def pod_name(slot: str, attempt: int) -> str:
    """The first pod of a slot has the slot's name; each later one a name of its own, so that it need not wait."""
    return slot if attempt == 0 else f"{slot}-{attempt}"
