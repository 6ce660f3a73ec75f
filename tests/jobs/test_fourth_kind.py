"""A kind is one package and one line of the registry: nothing else tells kinds apart or lists them."""

import ast
import subprocess
import sys
from pathlib import Path

import edl

SOURCE = Path(edl.__file__).parent
ROOT = Path(__file__).parents[2]
KINDS = ("edl.jobs.training", "edl.jobs.pytorch", "edl.jobs.easydl")
REGISTRY = "jobs/registry.py"


def test_a_fourth_kind_needs_one_package_and_one_line() -> None:
    command = [sys.executable, "-m", "tests.jobs.fourth_kind.scenario"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout == "a fourth kind works\n", ended.stderr


def test_nothing_but_the_registry_knows_a_kind() -> None:
    """Kinds do not know each other either: what two of them need is in jobs/core."""
    knowing = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for kind in _imported_kinds(path)
        if not path.is_relative_to(SOURCE.joinpath(*kind.split(".")[1:]))
    }
    assert knowing == {REGISTRY}


def _imported_kinds(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    named = [(f"{node.module}.", one.name) for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names]
    named += [("", one.name) for node in nodes if isinstance(node, ast.Import) for one in node.names]
    modules = {f"{module}{name}." for module, name in named}
    return {kind for kind in KINDS for module in modules if module.startswith(f"{kind}.")}
