"""`python bench/bench_brain.py`: quality and speed of the Brain's decisions; see bench/brain."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
runpy.run_module("bench.brain", run_name="__main__")
