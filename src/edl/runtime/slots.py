"""Claims slots at the job service on behalf of this process."""

import logging
import time
import uuid

from edl.protocol.slots import Slot
from edl.runtime.environment import Environment
from edl.runtime.service_client import Service, ServiceRefusalError, patiently

log = logging.getLogger(__name__)

POLL = 0.3


def new_holder(env: Environment) -> str:
    """Names this process: a restarted container in the same pod is another holder."""
    return f"{env.pod}/{uuid.uuid4().hex[:12]}"


def claim_slot(service: Service, role: str, index: int | None, holder: str, address: str = "") -> Slot:
    """Waits until the service grants a slot, which may take until the pod of the last holder is gone."""
    while True:
        try:
            return patiently(lambda: service.claim(role, index, holder, address), f"claim of a {role}'s slot")
        except ServiceRefusalError as error:
            log.info("no slot yet: %s", error)
            time.sleep(POLL)
