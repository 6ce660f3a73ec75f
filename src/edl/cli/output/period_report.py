"""The report of a period as a table for a terminal, as CSV and JSON for programs, as a page to send around."""

import csv
import io
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape

import msgspec

from edl.cli.output.amounts import SPENT_COLUMNS, hours, in_hours, share, span, spent_rows
from edl.cli.output.spreadsheets import plain_cell
from edl.cli.output.tables import table
from edl.ledger.amounts import Amounts
from edl.ledger.report import PeriodLine, PeriodReport
from edl.ledger.uses import CapacityUse

JOBS_SHOWN = 20
HEADER = ("GPU-H", "CORE-H", "GIB-H", "GOODPUT", "WAITED", "CHANGES", "COST OF CHANGES")
Section = tuple[str, Sequence[str], list[Sequence[object]]]


def _sections(report: PeriodReport, most: int | None) -> list[Section]:
    """Title, header and rows of each table."""
    found: list[Section] = []
    if report.cluster:
        found.append(("Capacity", ("USE", "GPU-H", "", "CORE-H", "", "GIB-H", ""), _capacity(report)))
    found.append(("Namespaces", ("NAMESPACE", "JOBS", *HEADER), [_namespace(line) for line in report.namespaces]))
    largest = sorted(report.jobs, key=lambda line: (-line.held.gpus, -line.held.cores, line.namespace, line.name))
    shown = largest[:most]
    title = "Jobs" if len(shown) == len(largest) else f"The {len(shown)} largest of {len(largest)} jobs"
    found.append((title, ("JOB", "OUTCOME", *HEADER), [_job(line) for line in shown]))
    return [section for section in found if section[2]]


def _capacity(report: PeriodReport) -> list[Sequence[object]]:
    rows = [(str(use), report.cluster[use]) for use in CapacityUse if use in report.cluster]
    return [_with_shares(name, amounts, report.capacity) for name, amounts in [*rows, ("all", report.capacity)]]


def _with_shares(name: str, amounts: Amounts, whole: Amounts) -> Sequence[object]:
    cells: list[object] = [name]
    for resource in ("gpus", "cores", "gib"):
        part, total = getattr(amounts, resource), getattr(whole, resource)
        cells += [hours(part), share(part / total) if total else "-"]
    return cells


def _namespace(line: PeriodLine) -> Sequence[object]:
    return line.namespace, line.jobs, *_figures(line)


def _job(line: PeriodLine) -> Sequence[object]:
    return f"{line.namespace}/{line.name}", line.outcome or "lives", *_figures(line)


def _figures(line: PeriodLine) -> Sequence[object]:
    lost = line.lost
    costs = ((hours(lost.gpus), "GPU-h"), (hours(lost.cores), "core-h"))
    cost = " ".join(f"{value} {name}" for value, name in costs if value != "-")
    return *in_hours(line.held), share(line.goodput), span(line.waited / line.jobs), line.changes or "-", cost


def _title(report: PeriodReport) -> str:
    return f"From {_when(report.since)} to {_when(report.until)} UTC"


def _notes(report: PeriodReport) -> list[str]:
    """What a reader has to know to trust the figures."""
    notes = []
    estimated = sum(line.estimated for line in report.jobs)
    if estimated >= 1:
        notes.append(f"{span(estimated)} of all jobs together are estimated: no operator looked then.")
    length = report.until - report.since
    if report.cluster and report.observed < 0.99 * length:
        notes.append(f"Capacity was observed for {span(report.observed)} of {span(length)}.")
    if not report.cluster:
        notes.append("Without the cluster's capacity: it was not observed, or this token may not see it.")
    return notes


def as_table(report: PeriodReport) -> str:
    if not report.jobs and not report.cluster:
        return f"{_title(report)}: nothing was booked\n"
    parts = [_title(report)]
    parts += [f"{title}\n{table(header, rows)}" for title, header, rows in _sections(report, JOBS_SHOWN)]
    return "\n\n".join([*parts, *_notes(report)]) + "\n"


def as_csv(report: PeriodReport) -> str:
    """A row for each job and use; those of the cluster's capacity have no job."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("namespace", "name", "uid", "outcome", *SPENT_COLUMNS))
    for line in report.jobs:
        who = [plain_cell(one) for one in (line.namespace, line.name, line.uid, line.outcome)]
        writer.writerows((*who, *row) for row in spent_rows(line.spent))
    for use, amounts in report.cluster.items():
        figures = (report.observed, amounts.instances, amounts.gpus, amounts.cores, amounts.gib)
        writer.writerow(("", "", "", "", f"capacity:{use}", *(round(figure, 3) for figure in figures)))
    return text.getvalue()


def as_json(report: PeriodReport) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def as_html(report: PeriodReport) -> str:
    """A page without anything from elsewhere, and without scripts."""
    body = [f"<h1>Use of the cluster</h1><p>{escape(_title(report))}</p>"]
    for title, header, rows in _sections(report, None):
        body.append(f"<h2>{escape(title)}</h2>{_html_table(header, rows)}")
    body += [f"<p>{escape(note)}</p>" for note in _notes(report)]
    head = f'<meta charset="utf-8"><title>Use of the cluster</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _html_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    top = "".join(f'<th scope="col">{escape(cell.capitalize())}</th>' for cell in header)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


_STYLE = (
    ":root{color-scheme:light dark}body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em}"
    "table{border-collapse:collapse}th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #8884}"
    "th:first-child,td:first-child{text-align:left}"
)


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment))


FORMATS: Mapping[str, Callable[[PeriodReport], str]] = {
    "table": as_table,
    "csv": as_csv,
    "html": as_html,
    "json": as_json,
}
