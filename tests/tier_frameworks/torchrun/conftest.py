"""One warm process for all tests of this folder whose workers are forked from it."""

import os
from collections.abc import Iterator

import pytest

from edl.runtime.torch.warm_workers import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    imports = "edl.torch.api,edl.torch.checkpoints.checkpointer,torch.distributed.fsdp"
    made = Zygote.start({"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "EDL_WARM_IMPORTS": imports})
    assert made is not None
    assert made.wait_until_warm(300.0)
    try:
        yield made
    finally:
        made.close()
