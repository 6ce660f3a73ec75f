"""The notebook in examples/ does what it shows: its cells are run, and what they show is compared."""

import ast
import json
import linecache
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "python" / "jobs.ipynb"


def run(source: str, name: str, space: dict[str, Any]) -> object:
    """As a notebook does: the value of the last line, and sources that can be read back."""
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)  # noqa: S102 - what a notebook is for
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), space)  # noqa: S307 - as above


def test_the_notebook_shows_what_its_cells_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-m", "edl.cli.main", "up", "--cpu", "1"], check=True, timeout=100)
    space: dict[str, Any] = {"__name__": "__notebook__"}
    try:
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            if cell["cell_type"] == "code":
                shown = run("".join(cell["source"]), f"<{cell['id']}>", space)
                wanted = "".join(text for output in cell["outputs"] for text in output["data"]["text/plain"])
                assert ("" if shown is None else repr(shown)) == wanted
    finally:
        environment = {**os.environ}
        subprocess.run(
            [sys.executable, "-m", "edl.cli.main", "down", "--delete"], env=environment, check=True, timeout=100
        )
