"""EDL's own services of a local cluster, in the form in which an embedded cluster runs services beside itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edl.cli.local.brain import brain
from edl.cli.local.kept_logs import logs_of_deleted_jobs_forgotten
from edl.cli.local.operator import operator
from edl.embedded.cluster import EmbeddedCluster
from edl.embedded.kept_logs import KeptLogs
from edl.embedded.server.http.direct import direct_transport
from edl.kube.rest.client import Client


@asynccontextmanager
async def operator_with_brain(cluster: EmbeddedCluster) -> AsyncIterator[None]:
    """Both run until the block ends; the operator leads when it begins."""
    home, transport = cluster.home, direct_transport(cluster.server.api)
    async with (
        brain(home.path) as settings,
        operator(transport, data=home.data, brain=settings),
        logs_of_deleted_jobs_forgotten(Client(transport), KeptLogs(home.logs)),
    ):
        yield
