"""A process that wants to lead: `python -m tests.kube.candidate URL IDENTITY SECONDS`.

While it leads it writes its name into one object, again and again, as a reconcile would: read, then replace that
version. It prints a line when it begins to lead, and ends with code 3 when it loses the lease.
"""

import asyncio
import sys
from contextlib import suppress

from edl.kube.controllers.lease import Fence, Lease, LeaseLostError
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.kube.rest.transport import HttpTransport
from tests.kube.fake_api import anybody
from tests.kube.things import THINGS


async def lead(url: str, identity: str, duration: float) -> None:
    transport = HttpTransport(anybody(url))
    lease = Lease(Client(transport), name="leader", namespace="edl", identity=identity, duration=duration)
    client = Client(Fence(transport, lease.check), timeout=2.0)

    async def work() -> None:
        print("leading", flush=True)
        while True:
            with suppress(KubeError):
                item = await client.get(THINGS, "ledger", namespace="edl")
                await client.replace(THINGS, "ledger", {**item, "writer": identity}, namespace="edl")
            await asyncio.sleep(0.01)

    try:
        await lease.hold(work)
    finally:
        await transport.close()


if __name__ == "__main__":
    try:
        asyncio.run(lead(sys.argv[1], sys.argv[2], float(sys.argv[3])))
    except LeaseLostError as error:
        print(error, flush=True)
        sys.exit(3)
