"""Installing a CustomResourceDefinition and waiting until its resource is served."""

import asyncio

from tests.conformance.samples import DEFINITIONS, Object
from tests.conformance.trace import Trace


async def define(t: Trace, definition: Object) -> None:
    code, answer, _ = await t.send("POST", DEFINITIONS, definition)
    assert code in (201, 409), answer
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    async with asyncio.timeout(30):
        while (await t.send("GET", path))[0] != 200:
            await asyncio.sleep(0.05)
