"""Which columns each kind shows in a Table."""

from __future__ import annotations

from edl.embedded.server.registry import Resource
from edl.embedded.server.table import Columns, NameAndAge

_GENERIC = NameAndAge()


def columns_for(resource: Resource) -> Columns:
    return _GENERIC
