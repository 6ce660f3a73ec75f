"""Speed of validation: 10,000 of mixed quality, per CPU-second, beside what merely parsing their YAML costs.

The bound is PyYAML's C loader, which says nothing about lines, duplicates or types. Also: what `edl` costs to start.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from edl.cli.commands.jobs.validate import inspected
from edl.cli.input.manifests import Manifest
from edl.cli.input.yaml_text import documents
from edl.jobs.admission import check

COUNT = 10_000
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.yaml"))


def mixed() -> list[str]:
    """Two of three are good; the third has one of five mistakes."""
    mistakes = (
        ("name:", "nmae:"),
        ("min-instance: 2", "min-instance: 7"),
        ("replicas:", "replica:"),
        ("image: ", "image: [x] #"),
        ("kind:", "knd:"),
    )
    made = []
    for number in range(COUNT):
        text = EXAMPLES[number % len(EXAMPLES)].read_text()
        if number % 3 == 0:
            text = text.replace(*mistakes[number // 3 % len(mistakes)], 1)
        made.append(text)
    return made


def manifests(texts: list[str]) -> Iterator[Manifest]:
    for text in texts:
        for document in documents(text):
            yield Manifest("x.yaml", document, (), document.value)


def rate(work: Callable[[], object], count: int = COUNT) -> float:
    started = time.process_time()
    work()
    return count / (time.process_time() - started)


def start_up(*words: str) -> float:
    """CPU seconds of the quickest of five runs."""
    spent = []
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-m", "edl.cli.main", *words], stdout=subprocess.DEVNULL, check=False)
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(spent)


def main() -> None:
    texts = mixed()
    values = [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts]  # the safe one, in C
    bound = rate(lambda: [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts])
    findings: list[object] = []
    whole = rate(lambda: findings.extend(finding for _, found in inspected(manifests(texts)) for finding in found))
    judged = rate(lambda: [check(value) for value in values])
    print(f"manifests validated from text  {whole:8.0f} per CPU-second  ({whole / bound:.2f} x PyYAML's bare C loader)")
    print(f"  of which decoded and judged  {judged:8.0f} per CPU-second  ({len(findings)} findings)")
    print(f"PyYAML's C loader alone        {bound:8.0f} per CPU-second")
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder, "job.yaml")
        one.write_text(texts[1])
        print(f"edl --help                     {start_up('--help'):8.3f} CPU-seconds")
        print(f"edl validate of one file       {start_up('validate', '-f', str(one)):8.3f} CPU-seconds")


if __name__ == "__main__":
    main()
