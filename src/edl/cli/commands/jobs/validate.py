"""Check manifests and say everything that is wrong with them, with file, line, field and fix.

Exit code 0: no error (there may be warnings). 1: errors.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator

import msgspec

from edl.api.schema.problem import Path, path_text
from edl.cli.input.manifests import Manifest, load
from edl.cli.output.terminal import harmless
from edl.jobs.admission import check

SUMMARY = "check manifests and say everything that is wrong with them"
ORDER = 170


class Finding(msgspec.Struct, frozen=True):
    """One line of the report; its fields are those of `-o json`."""

    file: str
    document: int
    line: int
    path: str
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line} {self.path}".rstrip()
        return f"{where}: {'warning: ' if self.severity == 'warning' else ''}{self.message}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        nargs="+",
        action="extend",
        required=True,
        metavar="FILE",
        help="files or directories of manifests, - for stdin",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")


def run(options: argparse.Namespace) -> int:
    wrong = False
    found: list[Finding] = []
    for manifest, findings in inspected(load(options.filename)):
        wrong |= any(finding.severity == "error" for finding in findings)
        if options.output == "json":
            found += findings
        else:
            _print_text(manifest, findings)
    if options.output == "json":
        json.dump([msgspec.structs.asdict(finding) for finding in found], sys.stdout, ensure_ascii=False)
        print()
    return 1 if wrong else 0


def inspected(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, list[Finding]]]:
    """Every manifest with what was found in it; what is wrong with a whole document is said of its first object."""
    said: object = None
    for manifest in manifests:
        found = [] if said is manifest.document else list(_of_yaml(manifest))
        said = manifest.document
        if not manifest.document.broken:
            found += _of_object(manifest)
        yield manifest, sorted(found, key=lambda finding: finding.line)


def _of_yaml(manifest: Manifest) -> Iterator[Finding]:
    for problem in manifest.document.problems:
        yield _finding(manifest, problem.line, problem.at, problem.message)


def _of_object(manifest: Manifest) -> Iterator[Finding]:
    if not manifest.at and manifest.value is None:
        message = "is empty" if manifest.document.value is None else "is a list without items"
        yield _finding(
            manifest, manifest.document.line_of(()), (), f"{message}; wants an object with apiVersion and kind"
        )
        return
    disputed = [problem.at for problem in manifest.document.problems]
    for problem in check(manifest.value).problems:
        at = (*manifest.at, *problem.at)
        # What is wrong with a value that YAML may have changed has been said.
        if not any(at[: len(bad)] == bad for bad in disputed):
            yield _finding(manifest, manifest.document.line_of(at), at, problem.message, problem.severity)


def _finding(manifest: Manifest, line: int, at: Path, message: str, severity: str = "error") -> Finding:
    return Finding(manifest.file, manifest.document.number, line, path_text(at), message, severity)


def _print_text(manifest: Manifest, findings: list[Finding]) -> None:
    for finding in findings:
        print(harmless(f"{finding}{f' (document {finding.document})' if finding.document > 1 else ''}"))
    if not any(finding.severity == "error" for finding in findings):
        metadata = manifest.value["metadata"]
        name = metadata.get("name") or metadata.get("generateName")
        where = f"{manifest.file}:{manifest.document.line_of(manifest.at)}"
        print(harmless(f"{where} {manifest.value['kind']} {name}: valid"))
