"""The validating webhook: what `edl validate` refuses is refused before it is stored, in the same words.

It only validates, never changes anything, and it may be away: the API server then asks nobody (failure policy Ignore),
and the operator says the same in the job's status. Every replica answers. The leader sees to it that the API server
trusts us, by writing our authority into the configuration that `edl install` made.
"""

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from edl.api.admission import check, check_edit
from edl.api.problem import Problem, errors
from edl.kube.client import Client
from edl.kube.errors import ApiError, KubeError
from edl.kube.resource import Resource

log = logging.getLogger(__name__)

CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
PATH = "/validate"
TRUST_EVERY = 15.0
_MAX_BYTES = 16 * 1024**2  # a review holds the old object and the new one

Data = dict[str, Any]


def review(request: Data) -> Data:
    """The answer to the `request` of an AdmissionReview. Never raises for an object, whatever it is."""
    new, old = request.get("object"), request.get("oldObject")
    problems = _problems(new, old)
    wrong = errors(problems)
    answer: Data = {"uid": request.get("uid", ""), "allowed": not wrong}
    if wrong:
        answer["status"] = _refusal(wrong)
    if said := [str(problem) for problem in problems if problem.severity == "warning"]:
        answer["warnings"] = said
    return answer


def _problems(new: Any, old: Any) -> tuple[Problem, ...]:
    """An object that was stored before its rules were is still labelled, finalized and deleted: only what a user
    changes in it is judged."""
    if not isinstance(new, dict) or (isinstance(old, dict) and _judged(old) == _judged(new)):
        return ()
    problems = check(new).problems
    if isinstance(old, dict) and not errors(problems):
        problems = (*problems, *check_edit(old, new))
    return problems


def _judged(body: Data) -> Data:
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return {"spec": body.get("spec"), "annotations": annotations}


def _refusal(wrong: list[Problem]) -> Data:
    causes = [{"reason": "FieldValueInvalid", "field": one.path, "message": one.message} for one in wrong]
    return {
        "code": 422,
        "reason": "Invalid",
        "message": "; ".join(map(str, wrong)),
        "details": {"causes": causes},
    }


class Webhook:
    """`address` is where it listens, `name` its configuration's; `ca` is whom API servers are told to trust."""

    def __init__(self, client: Client, *, address: tuple[str, int], tls: ssl.SSLContext, name: str, ca: str) -> None:
        self._client, self._address, self._tls, self._name = client, address, tls, name
        self._bundle = base64.b64encode(ca.encode()).decode()
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=_MAX_BYTES)
        app.router.add_post(PATH, _validate)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, *self._address, ssl_context=self._tls).start()
            self.port = runner.addresses[0][1]
            log.info("the webhook listens on port %d", self.port)
            yield
        finally:
            await runner.cleanup()

    async def be_trusted(self) -> None:
        """While we lead. Whoever applies the manifests anew may take our authority out of them."""
        while True:
            try:
                await self.trust()
            except KubeError as error:
                log.warning("API servers may not trust the webhook: %s", error)
            await asyncio.sleep(TRUST_EVERY)

    async def trust(self) -> bool:
        """Whether anything had to be written. Without a configuration nobody asks us, and that is all right."""
        try:
            found = await self._client.get(CONFIGURATIONS, self._name)
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": self._bundle}
            for index, hook in enumerate(found.get("webhooks") or ())
            if hook.get("clientConfig", {}).get("caBundle") != self._bundle
        ]
        if not patch:
            return False
        version = found["metadata"]["resourceVersion"]
        held = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        await self._client.patch(CONFIGURATIONS, self._name, [held, *patch], kind="json")
        log.info("API servers are told to trust the webhook")
        return True


async def _validate(request: web.Request) -> web.Response:
    try:
        body = msgspec.json.decode(await request.read(), type=Data)
        asked = body.get("request")
    except (msgspec.DecodeError, RecursionError) as error:
        return web.Response(status=400, text=f"wants an AdmissionReview: {error}\n")
    if not isinstance(asked, dict):
        return web.Response(status=400, text="wants an AdmissionReview with a request\n")
    answer = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": review(asked),
    }
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
