"""Turns a function, e.g. one of a notebook, into a script: its source, and a call with arguments as JSON. No pickle.

The function must stand on its own: it imports what it uses, and takes everything else as arguments.
"""

import ast
import builtins
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edl.client.session import JobError

CALL = """

if __name__ == "__main__":
    import json
    import sys

    _given = json.loads(sys.argv[1])
    {name}(*_given["args"], **_given["kwargs"])
"""


def function_script(function: Callable[..., Any], folder: Path) -> Path:
    """A file in the folder that calls the function with its first argument; JobError says what stands in the way."""
    name = getattr(function, "__name__", "")
    if not inspect.isfunction(function) or not name.isidentifier():
        raise JobError(f"{function!r} is no function with a name: define it with `def`")
    _check(function)
    text = _source(function) + CALL.format(name=name)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}.py"
    file.write_text(text)
    return file


def call_arguments(args: Sequence[Any] | Mapping[str, Any]) -> list[str]:
    given = {"args": [], "kwargs": dict(args)} if isinstance(args, Mapping) else {"args": list(args), "kwargs": {}}
    try:
        return [json.dumps(given)]
    except (TypeError, ValueError) as error:
        raise JobError(f"args of a function are sent as JSON: {error}") from None


def _source(function: Callable[..., Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise JobError(f"the source of {function.__name__} cannot be read; write it into a file") from None


def _check(function: Callable[..., Any]) -> None:
    """What a function finds around it here would not be there."""
    code = function.__code__
    if code.co_freevars:
        raise JobError(f"{function.__name__} uses {_named(code.co_freevars)} of the function around it: pass as args")
    missing = sorted(_globals(_source(function)) - {function.__name__} - set(dir(builtins)))
    if missing:
        raise JobError(f"{function.__name__} uses {_named(missing)} from outside: import or define it inside")


def _globals(source: str) -> set[str]:
    """Names that are read and never bound within the function. Approximate: a name bound anywhere in it counts."""
    tree = ast.parse(source)
    read, bound = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
    return read - bound


def _named(names: Sequence[str]) -> str:
    return ", ".join(names)
