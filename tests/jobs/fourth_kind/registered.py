"""EDL with one line more in its registry. To be imported before anything that reads it, in a process of its own."""

import importlib.util
import sys
from pathlib import Path

LINE = "    EASYDL_JOB,\n)"
IMPORT = "from edl.jobs.training.kind import KIND as TRAINING_JOB\n"


def register() -> None:
    assert "edl.jobs.registry" not in sys.modules, "the registry was read before"
    spec = importlib.util.find_spec("edl.jobs.registry")
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text()
    assert text.count(LINE) == text.count(IMPORT) == 1
    text = text.replace(LINE, "    EASYDL_JOB,\n    SLEEP_JOB,\n)")
    text = text.replace(IMPORT, f"{IMPORT}from tests.jobs.fourth_kind.kind import KIND as SLEEP_JOB\n")
    module = importlib.util.module_from_spec(spec)
    sys.modules["edl.jobs.registry"] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)  # noqa: S102  # EDL's own source, with a line more


register()
