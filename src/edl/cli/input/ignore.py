"""Ignore files: the patterns of `.gitignore` and `.edlignore`, as git reads them.

A pattern counts in the directory of its file and below; of several that match, the last one counts, deeper files after
higher ones and `.edlignore` after `.gitignore`. `!` takes a path in again, but nothing below a directory that is out.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

FILES = (".gitignore", ".edlignore")
_ALWAYS = {".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
_OF_ENVIRONMENTS = "pyvenv.cfg"


class Pattern(msgspec.Struct, frozen=True):
    """`expression` is for paths relative to the directory of the file that it stands in."""

    expression: re.Pattern[str]
    out: bool
    directories: bool

    def matches(self, path: str, *, directory: bool) -> bool:
        return (directory or not self.directories) and self.expression.fullmatch(path) is not None


class Ignored:
    """What the ignore files from `above` down to a directory say about what lies in it."""

    def __init__(self, levels: tuple[tuple[Path, tuple[Pattern, ...]], ...] = ()) -> None:
        self._levels = levels

    @classmethod
    def at(cls, top: Path) -> "Ignored":
        """With the files of the directories above it, up to the root of its repository."""
        above = [top, *top.parents]
        root = next((number for number, folder in enumerate(above) if (folder / ".git").exists()), 0)
        found = cls()
        for folder in reversed(above[1 : root + 1]):
            found = found.below(folder)
        return found

    def below(self, folder: Path) -> "Ignored":
        """The same, with the ignore files of this directory."""
        patterns = tuple(pattern for name in FILES for pattern in _read(folder / name))
        return Ignored((*self._levels, (folder, patterns))) if patterns else self

    def is_out(self, path: Path, *, directory: bool) -> bool:
        if directory and (path.name in _ALWAYS or os.path.exists(path / _OF_ENVIRONMENTS)):
            return True
        out = False
        for folder, patterns in self._levels:
            inside = path.relative_to(folder).as_posix()
            for pattern in patterns:
                if pattern.matches(inside, directory=directory):
                    out = pattern.out
        return out


def _read(file: Path) -> Iterable[Pattern]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [pattern for line in lines if (pattern := parse(line)) is not None]


def parse(line: str) -> Pattern | None:
    """None of a comment, an empty line, or what matches nothing."""
    text = re.sub(r"(?<!\\) +$", "", line)
    if not text or text.startswith("#"):
        return None
    out = not text.startswith("!")
    text = text if out else text[1:]
    directories = text.endswith("/")
    text = text.rstrip("/") if directories else text
    anchored = "/" in text
    expression = _expression(text.removeprefix("/"))
    if not text or expression is None:
        return None
    return Pattern(re.compile(expression if anchored else f"(?:.*/)?{expression}", re.DOTALL), out, directories)


def _expression(text: str) -> str | None:
    found, at = "", 0
    while at < len(text):
        rest = text[at:]
        if rest.startswith("**/") and (at == 0 or text[at - 1] == "/"):
            found, at = found + "(?:.*/)?", at + 3
        elif rest == "**" and (at == 0 or text[at - 1] == "/"):
            found, at = found + ".*", at + 2
        elif rest[0] == "*":
            found, at = found + "[^/]*", at + len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            found, at = found + "[^/]", at + 1
        elif rest[0] == "[":
            part = _bracket(rest)
            if part is None:
                return None
            found, at = found + part[0], at + part[1]
        elif rest[0] == "\\" and len(rest) > 1:
            found, at = found + re.escape(rest[1]), at + 2
        else:
            found, at = found + re.escape(rest[0]), at + 1
    return found


def _bracket(text: str) -> tuple[str, int] | None:
    """The class that begins the text, and how many characters it takes; None if it never ends."""
    match = re.match(r"\[([!^]?)(\]?[^\]]*)\]", text)
    if match is None:
        return None
    inside = match[2].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("&&", "\\&&")
    inside = inside.replace("~~", "\\~~").replace("||", "\\||")
    return f"(?!/)[{'^' if match[1] else ''}{inside}]", match.end()
