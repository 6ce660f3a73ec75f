"""What pods of a job have written, of those that are kept."""

import contextlib

from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.transport import HttpTransport, Request
from edl.operator.resources import PODS
from tests.stories.backend import ProcessBackend
from tests.stories.story import Story


async def pod_logs(story: Story, job: str, role: str) -> dict[str, str]:
    """By pod."""
    labels = {"edl.dev/job": job, "edl.dev/role": role}
    pods = (await story.client.list(PODS, namespace=story.namespace, labels=labels)).items
    assert isinstance(story.backend, ProcessBackend)
    client, texts = Client(HttpTransport(from_kubeconfig([story.backend.kubeconfig]))), {}
    try:
        for pod in pods:
            with contextlib.suppress(ApiError):  # it has not begun
                name = pod["metadata"]["name"]
                request = Request("GET", PODS.path(story.namespace, name, "log"), accept="*/*")
                texts[name] = b"".join([piece async for piece in client.stream(request)]).decode()
    finally:
        await client.close()
    return texts
