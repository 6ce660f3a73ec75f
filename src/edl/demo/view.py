"""Views of a running demonstration: in a terminal the nodes, the jobs and what they hold, renewed as it goes; lines
elsewhere."""

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from edl.cli.output.job_table import job_table
from edl.cli.output.live import JobSnapshot, PlainScreen
from edl.demo.chart import IDLE, MARKS, chart, colors
from edl.demo.recording import Recording, TimelineEvent

STYLES = {"user": "bold", "fault": "bold red", "decision": "dim"}


class PlainView:
    def __init__(self) -> None:
        self._screen = PlainScreen(every=5.0)

    def report(self, event: TimelineEvent) -> None:
        print(line(event).plain, flush=True)

    def show(self, recording: Recording, snapshots: list[JobSnapshot]) -> None:
        self._screen.show(snapshots)

    def close(self) -> None:
        pass


class LiveView:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def report(self, event: TimelineEvent) -> None:
        self._console.print(line(event), soft_wrap=True)

    def show(self, recording: Recording, snapshots: list[JobSnapshot]) -> None:
        parts: list[RenderableType] = [nodes(recording), job_table(snapshots)] if snapshots else [nodes(recording)]
        if self._console.height >= 38:
            parts.append(chart(recording, width=min(100, self._console.width - 8)))
        self._live.update(Group(*parts))

    def close(self) -> None:
        self._live.stop()


def line(event: TimelineEvent) -> Text:
    mark = MARKS[(event.mark - 1) % len(MARKS)] if event.mark else " "
    who = f"{event.who}: " if event.kind == "decision" else ""
    return Text.assemble((f"{event.at:5.1f} s ", "dim"), (f"{mark} {who}{event.text}", STYLES[event.kind]))


def nodes(recording: Recording) -> Columns:
    """A box per node, a cell per core."""
    palette = colors(recording.holders)
    held = recording.moments[-1].held if recording.moments else {}
    boxes = []
    for number in range(recording.nodes):
        name = f"node-{number}"
        cells = [holder for holder in recording.holders for _ in range(round(held.get(name, {}).get(holder, 0) / 1000))]
        text = Text()
        for core in range(recording.node_cores):
            text.append("███ ", style=palette[cells[core]] if core < len(cells) else IDLE)
        boxes.append(Panel(text, title=name, border_style="dim", expand=False))
    return Columns(boxes)
