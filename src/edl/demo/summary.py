"""Prints the outcome of the demonstration in a few lines."""

from rich.console import Console
from rich.text import Text

from edl.demo.chart import chart
from edl.demo.scenario import Outcome
from edl.demo.view import line
from edl.demo.workloads import CLICKS, REGRESSION, SERVICE, SERVICE_CORES, SERVICE_PODS


def show(console: Console, outcome: Outcome) -> None:
    color = console.is_terminal
    console.print()
    console.print(Text("What happened, and what was decided", style="bold"))
    for event in outcome.recording.events:
        console.print(line(event), soft_wrap=True)
    console.print()
    console.print(chart(outcome.recording, width=min(100, console.width - 8), color=color))
    console.print()
    for fact in facts(outcome):
        console.print(fact, soft_wrap=True)


def facts(outcome: Outcome) -> list[Text]:
    lines = []
    for job in (REGRESSION, CLICKS):
        first, last, account = outcome.first_losses[job], outcome.last_losses[job], outcome.task_counts[job]
        lines.append(
            _fact(
                job,
                (account.text, "green" if account.exactly_once else "bold red"),
                "; ",
                (f"loss {first:.3g} -> {last:.3g}", "green" if last < first else "bold red"),
            )
        )
    sizes = ", ".join(f"{job} {outcome.largest[job]} -> {size}" for job, size in outcome.squeezed.items())
    ready = f"{SERVICE_PODS} x {SERVICE_CORES} cores were made free and used within {outcome.service_seconds:.1f} s"
    lines.append(_fact(SERVICE, f"{ready}; trainers at most and beside it: {sizes}"))
    trainer, master = outcome.recovered["trainer"], outcome.recovered["master"]
    lines.append(
        _fact("kill -9", f"a new trainer ran after {trainer:.1f} s, a new master gave out tasks after {master:.1f} s")
    )
    lines.append(_fact("in all", f"{outcome.recording.seconds:.0f} s"))
    return lines


def _fact(about: str, *text: str | tuple[str, str]) -> Text:
    return Text.assemble((f"{about:<12}", "bold"), *text)
