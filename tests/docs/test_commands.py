"""Every command in the README and the docs is run. A block that needs more than Python says so in a comment before it,
`<!-- needs: WHAT -->`; it is run where that is there, and its commands must exist in any case.

`make` lines are read by make and not carried out: the gate would run itself, and what they do has tests of its own.
"""

import ast
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from edl.cli import registry
from edl.cli.main import main
from tests.docs.pages import PAGES, ROOT, name_of

BLOCK = re.compile(r"(?:^<!-- needs: (?P<needs>[^\n]*) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
FOUND_HERE = {
    "kubectl": lambda: shutil.which("kubectl") is not None,
    "PyTorch in .venv": lambda: importlib.util.find_spec("torch") is not None,
    "PaddlePaddle 2.6.2 in .venv": lambda: importlib.util.find_spec("paddle") is not None,
}
NOT_HERE = {"a Kubernetes cluster and a registry that it pulls from"}


class Block(NamedTuple):
    page: str
    line: int
    language: str
    needs: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            if match["language"] in languages:
                line = text.count("\n", 0, match.start("text")) + 1
                found.append(Block(name_of(page), line, match["language"], match["needs"] or "", match["text"]))
    return found


COMMAND_BLOCKS = blocks("sh", "console", "bash", "shell")


def commands(block: Block) -> list[list[str]]:
    return [line.partition("#")[0].split() for line in block.text.splitlines() if line.partition("#")[0].strip()]


def runnable(block: Block) -> bool:
    return not block.needs or (block.needs in FOUND_HERE and FOUND_HERE[block.needs]())


def test_the_readme_shows_its_first_commands_first() -> None:
    first = COMMAND_BLOCKS[0]
    assert (first.page, commands(first)) == ("README.md", [["make", "demo"], ["make", "test"]])


@pytest.mark.parametrize("block", COMMAND_BLOCKS, ids=lambda block: block.name)
def test_commands_exist_and_needs_are_known(block: Block) -> None:
    assert not block.needs or block.needs in FOUND_HERE or block.needs in NOT_HERE, f"say what {block.needs} means here"
    for words in commands(block):
        if words[0] == "edl":
            assert words[1] in registry.commands(), words
        if words[0] == "make":
            dry = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
            assert dry.returncode == 0, dry.stderr


@pytest.mark.timeout(240)
@pytest.mark.parametrize("block", [block for block in COMMAND_BLOCKS if runnable(block)], ids=lambda block: block.name)
def test_commands_run(block: Block, tmp_path: Path) -> None:
    """In a directory that looks like a clone whose virtualenv is active, with a home of its own, stopping at the first
    command that fails."""
    for name in ("examples", "docs", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    script = "\n".join(line for line in block.text.splitlines() if not line.startswith("make "))
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment |= {"EDL_HOME": str(tmp_path / "home"), "PS1": "", "PATH": path}
    try:
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    finally:
        down = [sys.executable, "-m", "edl.cli.main", "down"]
        subprocess.run(down, env=environment, capture_output=True, timeout=60, check=True)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.name)
def test_manifests_are_valid(block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(block.text)
    assert main(["validate", "-f", str(file)]) == 0, capsys.readouterr().out


def test_the_job_in_the_readme_is_the_example() -> None:
    shown = [block.text for block in blocks("yaml") if block.page == "README.md"]
    assert shown == [(ROOT / "examples" / "fit_a_line" / "job.yaml").read_text()]


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.name)
def test_python_compiles_and_what_it_imports_exists(block: Block) -> None:
    tree = compile(block.text, block.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports, "begin with the imports"
    for node in imports:
        if isinstance(node, ast.Import):
            assert all(importlib.import_module(alias.name) for alias in node.names)
            continue
        module = importlib.import_module(node.module or "")
        assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
