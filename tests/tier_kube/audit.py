"""Requests to the API servers of this session, from the audit logs of those that run and of other workers."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from edl.install.options import NAME
from tests.tier_kube.cluster.cluster import clusters
from tests.tier_kube.cluster.kubectl import Manifest


class Asked(NamedTuple):
    """A verb on a resource. The core group is the empty string; a part of an object is `pods/status`."""

    group: str
    resource: str
    verb: str


def entries(kept: Path | None) -> Iterator[Manifest]:
    """What the API servers of the session were asked; a watch is there once its client has gone. `kept` holds the logs
    of servers that have been stopped."""
    stopped = sorted(kept.glob("*.audit.log")) if kept else []
    for log in [*stopped, *sorted(clusters().glob(f"test*-{os.getpid()}/audit.log"))]:
        every = map(json.loads, log.read_text().splitlines())
        yield from (entry for entry in every if "objectRef" in entry)


def asked(entry: Manifest) -> Asked:
    what = entry["objectRef"]
    part = f"/{what['subresource']}" if what.get("subresource") else ""
    return Asked(what.get("apiGroup", ""), f"{what['resource']}{part}", entry["verb"])


def forbidden(entry: Manifest) -> bool:
    """Not allowed by RBAC; a quota or an admission rule that says no is another matter."""
    return bool(entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid")


def limited(entry: Manifest) -> bool:
    """Refused by the operator's own admission policy; a limited installation's has its namespace after the name."""
    return f"ValidatingAdmissionPolicy '{NAME}" in (entry.get("responseStatus") or {}).get("message", "")
