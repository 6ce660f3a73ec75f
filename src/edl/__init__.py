"""Elastic deep learning on Kubernetes.

    import edl

    job = edl.run("train.py", args=["--epochs", "3"], min=1, max=4)
    job.wait()

Importing it costs nothing: what a call needs is imported by the call.
"""

# What type checkers see is in __init__.pyi: an import here, even one for them alone, would make every module of EDL
# depend on the client.

__version__ = "0.1.0"
_OF_THE_CLIENT = ("Job", "JobError", "get", "list_jobs", "run")


def __getattr__(name):  # type: ignore[no-untyped-def]  # typed in __init__.pyi; `typing` costs more than all the rest
    if name not in _OF_THE_CLIENT:
        raise AttributeError(f"module 'edl' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("edl.client"), name)


def __dir__():  # type: ignore[no-untyped-def]  # as above
    return ["__version__", *_OF_THE_CLIENT]
