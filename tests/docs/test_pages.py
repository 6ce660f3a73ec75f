"""The pages are readable as text, their links and anchors lead somewhere, and what they name exists."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from edl.brain.policy import rules
from edl.scheduler.reasons.codes import Code
from tests.docs.generate import PAGES as GENERATED
from tests.docs.generate import REFERENCE
from tests.docs.outside_hosts import outside
from tests.docs.pages import DOCS, PAGES, ROOT, name_of, prose

COLUMNS = 100
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*)$")
PATH = re.compile(r"\b((?:src/edl|tests|bench|examples|charts)/[\w./-]*[\w/])")
MODULE = re.compile(r"\bedl(?:\.[a-z_]+)+\b")
NOT_MODULES = re.compile(r"\bedl\.(?:dev|tar)\b")
"""`edl.dev` is the domain of labels and annotations, `edl.tar` a file."""
SOURCE = ROOT / "src" / "edl"
CODE = ("src", "tests", "bench", "examples")
every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@every_page
def test_lines_fit(page: Path) -> None:
    """Outside tables and what cannot be broken: a link, a long word. Generated code is as programs print it."""
    lines = prose(page) if page.name in GENERATED else enumerate(page.read_text().splitlines(), start=1)
    long = [
        number
        for number, line in lines
        if len(line) > COLUMNS and not line.lstrip().startswith(("|", "<!--")) and " " in line.strip()[:COLUMNS]
    ]
    assert long == []


def anchors(page: Path) -> set[str]:
    """As GitHub and the site make them from headings."""
    found = set()
    for _, line in prose(page):
        if match := HEADING.match(line):
            text = re.sub(r"[^\w\s-]", "", match[1].replace("`", "").lower()).strip()
            found.add(re.sub(r"[-\s]+", "-", text))
    return found


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for _, line in prose(page):
        for link in LINK.findall(line):
            target, _, anchor = link.partition("#")
            if "://" in target:
                continue
            file = page.parent / target if target else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(link)
    assert broken == []


@every_page
def test_paths_exist(page: Path) -> None:
    named = {path for path in PATH.findall(page.read_text()) if "..." not in path}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@every_page
def test_modules_exist(page: Path) -> None:
    text = NOT_MODULES.sub("", page.read_text())
    assert sorted(name for name in set(MODULE.findall(text)) if not importable(name)) == []


def importable(dotted: str) -> bool:
    """A module, or an attribute of one."""
    names = dotted.split(".")
    for cut in range(len(names), 0, -1):
        try:
            spec = importlib.util.find_spec(".".join(names[:cut]))
        except ModuleNotFoundError:
            continue
        if spec is not None:
            module = importlib.import_module(".".join(names[:cut])) if cut < len(names) else None
            return all(hasattr(module, name) for name in names[cut : cut + 1])
    return False


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text() == GENERATED[name](), "run: make docs"


def test_the_tree_is_complete() -> None:
    """Every package and every public module of `src/edl` has its line in the architecture page."""
    page = (DOCS / "concepts" / "architecture.md").read_text()
    shown, parents = set(), [""]
    for line in page.partition("## The tree")[2].partition("```\n")[2].partition("```")[0].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        shown.add("".join(parents[: depth + 1]) + name)
        parents[depth + 1 :] = [name]
    packages = {f"{folder.parent.relative_to(SOURCE)}/" for folder in SOURCE.rglob("__init__.py")} - {"./"}
    modules = {file.name for file in SOURCE.glob("*.py") if not file.name.startswith("_")}
    assert shown == packages | modules


def test_pages_that_the_code_names_exist() -> None:
    code = [*ROOT.glob("*file"), *(file for folder in CODE for file in (ROOT / folder).rglob("*.py"))]
    named = {(name, file.name) for file in code for name in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text())}
    assert sorted(each for each in named if not (ROOT / each[0]).exists()) == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("scheduler.md", list(Code)),
        ("brain.md", [value for name, value in vars(rules).items() if name.isupper() and isinstance(value, str)]),
    ],
)
def test_every_stable_name_is_explained(page: str, names: list[str]) -> None:
    text = (DOCS / "concepts" / page).read_text()
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_layer_contract_is_explained() -> None:
    page = (DOCS / "concepts" / "architecture.md").read_text()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert [contract["name"] for contract in contracts if f"| {contract['name']} |" not in page] == []


@pytest.mark.parametrize(
    ("html", "loads"),
    [
        ('<a href="https://example.com">a link to follow</a>', 0),
        ('<script src="assets/app.js"></script><link rel="stylesheet" href="main.css">', 0),
        ('<link rel="stylesheet" href="https://fonts.example.com/css">', 1),
        ('<script src="//cdn.example.com/app.js"></script><img alt="" src="http://example.com/a.png">', 2),
    ],
)
def test_what_a_page_loads_is_seen(html: str, loads: int) -> None:
    assert len(outside(html)) == loads
