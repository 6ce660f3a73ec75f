"""The identity of a job among jobs of all kinds."""

from typing import NamedTuple


class JobKey(NamedTuple):
    """Two kinds may each have a job of the same name; `kind` is the name of the kind's CRD."""

    kind: str
    namespace: str
    name: str
