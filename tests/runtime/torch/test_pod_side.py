"""Code that runs in the pods of PyTorch users needs the standard library and torch alone, on Python 3.10 and newer."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import edl
from edl.runtime.carry import CARRIED, INIT
from edl.runtime.carry import modules as carried_modules
from tests.runtime.torch.service_thread import serving

SOURCE = Path(edl.__file__).parent
MODULES = sorted({path for name in (*CARRIED, INIT, "__init__.py") for path in carried_modules(SOURCE / name)})
NEWER = {
    ("asyncio", "timeout"),
    ("asyncio", "TaskGroup"),
    ("asyncio", "Runner"),
    ("contextlib", "chdir"),
    ("datetime", "UTC"),
    ("enum", "StrEnum"),
    ("typing", "Self"),
    ("typing", "assert_never"),
    ("typing", "NotRequired"),
    ("typing", "override"),
    ("itertools", "batched"),
}
"""What the standard library had not yet in 3.10, as far as it is tempting here."""

ALONE = """
import sys

class Alone:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top != "edl" and top not in sys.stdlib_module_names:
            raise ImportError(f"{name} is neither ours nor in the standard library")

sys.meta_path.insert(0, Alone())
"""
AGENT = """
import os, threading
from types import SimpleNamespace
from edl.runtime.torch import activity, failure_message, warm_workers, worker_starter, zygote
from edl.runtime.torch.plugin import Settings, connect

options = SimpleNamespace(run_id="r", endpoint="", min_nodes=1, max_nodes=1, local_addr=None, config={})
connection = connect(options, Settings(), os.environ)
connection.act(lambda state: state.wait("here:1"))
assert connection.until(lambda state: state.number == 1, 60.0), connection.state
watched = activity.of_workers(lambda: None, os.environ)
before = set(threading.enumerate())
watched._report()
for reporting in set(threading.enumerate()) - before:
    reporting.join(60.0)
connection.act(lambda state: state.finish())
assert connection.until(lambda state: state.over, 60.0)
connection.close()
print("met")
"""


def test_an_agent_meets_others_with_the_standard_library_alone() -> None:
    with serving() as service:
        env = {**os.environ, **service.env("p"), "EDL_STALL_TIMEOUT": "5", "PYTHONPATH": str(SOURCE.parent)}
        ran = subprocess.run(
            [sys.executable, "-S", "-c", ALONE + AGENT],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (ran.stdout, ran.stderr[-2000:]) == ("met\n", "")
        assert service.until(lambda: service.reported("p")), "the progress that it reported"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_of_the_pod_is_understood_by_python_3_10(module: Path) -> None:
    tree = ast.parse(module.read_text(), feature_version=(3, 10))
    assert not any(isinstance(node, ast.TryStar) for node in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not {(node.module, name.name) for name in node.names} & NEWER
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in NEWER, f"line {node.lineno}"
