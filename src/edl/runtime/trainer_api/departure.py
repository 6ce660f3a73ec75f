"""Asks, while a trainer is on its way out, whether there is still a job to hand its task in to.

A trainer that leaves a job which goes on has its grace to finish the task. After the deletion or the end of the whole
job master and servers go at the same time: nobody will acknowledge anything, and waiting would only hold the room.
"""

import logging
import threading
import time
from typing import Literal

from edl.runtime.service_client import ServiceClient, ServiceDownError, ServiceRefusalError

log = logging.getLogger(__name__)

EVERY = 0.5
ENDED = ("succeeded", "failed")  # phases, in lower case


def job_is_over(service: ServiceClient) -> bool:
    """False while nobody can be asked: losing the service is no reason to lose a task."""
    try:
        job = service.job()
    except ServiceDownError:
        return False
    except ServiceRefusalError as error:
        log.info("the job is gone: %s", error)
        return True
    return job is not None and job.phase.lower() in ENDED


def wait_out_grace(
    service: ServiceClient | None, closed: threading.Event, grace: float
) -> Literal["closed", "late", "job over"]:
    """Until the trainer is `closed`, its grace has passed, or there is no job any more."""
    deadline = time.monotonic() + grace
    while (left := deadline - time.monotonic()) > 0:
        if service is not None and job_is_over(service):
            return "closed" if closed.is_set() else "job over"
        if closed.wait(min(left, EVERY) if service is not None else left):
            return "closed"
    return "late"
