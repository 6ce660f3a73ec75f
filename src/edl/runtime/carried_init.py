"""Elastic deep learning on Kubernetes: the part that pods need, brought by the operator's init container.

This is `edl/__init__.py` where `edl.runtime.carry` has put it, first on PYTHONPATH. An image that has EDL's own package
keeps to that one: it is put in our place. Of another project that is called `edl`, too, nothing is taken.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _installed() -> importlib.machinery.ModuleSpec | None:
    """The spec of EDL's package in the image, if it has one."""
    brought = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    others = [entry for entry in sys.path if os.path.realpath(entry or os.getcwd()) != brought]
    found = importlib.machinery.PathFinder.find_spec("edl", others)
    if found is None or found.loader is None:
        return None
    places = found.submodule_search_locations or ()
    ours = any(os.path.exists(os.path.join(place, "runtime", "torch", "plugin.py")) for place in places)
    return found if ours else None


_spec = _installed() if __name__ == "edl" else None
if _spec is not None and _spec.loader is not None:
    # The import system hands out whatever stands in sys.modules when this module has run.
    sys.modules["edl"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["edl"])
