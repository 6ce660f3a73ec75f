"""The validating webhook: refuses what `edl validate` refuses, with the same messages, before it is stored.

It never changes an object, and it may be down: the API server then stores the job unchecked (failure policy Ignore),
and the operator reports the same problems in the job's status. Every replica answers. The leader writes the
installation's CA into the configuration that `edl install` made, so that the API server trusts the webhook.
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

from edl.api.schema.problem import Problem, errors
from edl.jobs.admission import check, check_edit
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.resource import Resource
from edl.serving.http import HttpLimits, serve_app

log = logging.getLogger(__name__)

CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
PATH = "/validate"
CA_CHECK_SECONDS = 15.0
_MAX_BYTES = 16 * 1024**2  # a review holds the old object and the new one
_MAX_BYTES_IN_ALL = 4 * _MAX_BYTES  # of reviews at one time: API servers prove nothing, so anybody may send them
_LIMITS = HttpLimits(body=10.0)  # API servers do not wait longer for an answer

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
    """Checks only what a user changes: an object that was stored before its rules were must stay possible to label,
    finalize and delete."""
    if not isinstance(new, dict) or (isinstance(old, dict) and _checked_part(old) == _checked_part(new)):
        return ()
    problems = check(new).problems
    if isinstance(old, dict) and not errors(problems):
        problems = (*problems, *check_edit(old, new))
    return problems


def _checked_part(body: Data) -> Data:
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
    """`address` is where it listens, `name` is that of its configuration, `ca` the authority written there."""

    def __init__(self, client: Client, *, address: tuple[str, int], tls: ssl.SSLContext, name: str, ca: str) -> None:
        self._client, self._address, self._tls, self._name = client, address, tls, name
        self._bundle = base64.b64encode(ca.encode()).decode()
        self._reading = 0  # bytes of the reviews that are being read
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=_MAX_BYTES)
        app.router.add_post(PATH, self._validate)
        runner = await serve_app(app, *self._address, tls=self._tls, limits=_LIMITS)
        try:
            self.port = runner.addresses[0][1]
            log.info("the webhook listens on port %d", self.port)
            yield
        finally:
            await runner.cleanup()

    async def _validate(self, request: web.Request) -> web.Response:
        size = _MAX_BYTES if request.content_length is None else request.content_length
        if self._reading + size > _MAX_BYTES_IN_ALL:
            return web.Response(status=503, headers={"Retry-After": "1"}, text="too many reviews at a time\n")
        self._reading += size
        try:
            return _answer(await request.read())
        finally:
            self._reading -= size

    async def keep_ca_installed(self) -> None:
        """While this operator leads: applying the manifests again may remove the CA."""
        while True:
            try:
                await self.install_ca()
            except KubeError as error:
                log.warning("API servers may not trust the webhook: %s", error)
            await asyncio.sleep(CA_CHECK_SECONDS)

    async def install_ca(self) -> bool:
        """Whether anything had to be written. Without a configuration there is nothing to do."""
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


def _answer(review_body: bytes) -> web.Response:
    try:
        body = msgspec.json.decode(review_body, type=Data)
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
