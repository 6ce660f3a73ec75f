"""The dry run's cluster: what is free on every node now, and what will be free when all that leaves has left.

Both are kept because growth may only use what is free now, while room that is on its way out may be promised to
those who wait for it. A promise takes from `later` alone; a pod that is asked to leave gives to `later` alone; so
nothing is promised twice and nothing is used before it is free. Every change is journaled and can be taken back.
"""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edl.scheduler.facts import NOWHERE, Shape, Snapshot, Taxes
from edl.scheduler.field import Field
from edl.scheduler.settings import STUCK_AFTER, Settings

if TYPE_CHECKING:
    from edl.scheduler.unit import Unit

_Count = tuple[dict[Any, int], object, int]
_Size = tuple["Unit", int]
_Room = tuple[int, Shape, Taxes, int, int]


class Board:
    def __init__(self, snapshot: Snapshot, settings: Settings, now: float) -> None:
        self.snapshot = snapshot
        self.axes = snapshot.axes
        self.now: list[list[int]] = [list(node.free) for node in snapshot.nodes]
        self.later: list[list[int]] = [list(node.free) for node in snapshot.nodes]
        self.usable: list[bool] = [not node.refusal for node in snapshot.nodes]
        self.by_limits = settings.available == "limits"
        self.capacity = self.total([node.capacity for node in snapshot.nodes])
        self.free_before = self.total(self.now)
        free = self.capacity
        committed = (
            snapshot.committed if self.by_limits else [free[place] - self.free_before[place] for place in (0, 1)]
        )
        self.spare_now = [free[0] - committed[0], free[1] - committed[1]]
        self.spare_later = self.spare_now.copy()
        load = settings.load()
        self.kept_idle = free[0] - free[0] * load.numerator // load.denominator
        self.tax_now = [account.hard - account.used for account in snapshot.accounts]
        self.tax_later = self.tax_now.copy()
        self.counts = [dict(counter.counts) for counter in snapshot.counters]
        self.journal: list[_Room | _Count | _Size] = []
        self.backoff: dict[int, float] = {}  # shape that kube-scheduler refused: until when
        self.field = Field(self)
        self._allowed: dict[int, list[int]] = {}
        self._let_go(now)

    def total(self, rows: Sequence[Sequence[int]]) -> list[int]:
        """Over usable nodes."""
        width = len(self.axes.names)
        columns = list(zip(*itertools.compress(rows, self.usable), strict=True))
        return [sum(column) for column in columns] or [0] * width

    def _let_go(self, now: float) -> None:
        """Count on the room of terminating pods, unless they are stuck."""
        for pod in self.snapshot.leaving:
            if now > pod.until + STUCK_AFTER:
                continue
            for account, amount in pod.taxes:
                self.tax_later[account] += amount
            if pod.node == NOWHERE:
                continue
            row = self.later[pod.node]
            for place, amount in enumerate(pod.requests):
                row[place] += amount
            if self.usable[pod.node]:
                given = pod.limits if self.by_limits else pod.requests
                self.spare_later[0] += given[0]
                self.spare_later[1] += given[1]

    def shift(self, node: int, shape: Shape, taxes: Taxes, now: int, later: int) -> None:
        """Give (+1) or take (-1) the room of one pod, now and later."""
        self.journal.append((node, shape, taxes, now, later))
        self._apply(node, shape, taxes, now, later)

    def _apply(self, node: int, shape: Shape, taxes: Taxes, now: int, later: int) -> None:
        for account, amount in taxes:
            self.tax_now[account] += amount * now
            self.tax_later[account] += amount * later
        if node == NOWHERE:
            return
        row_now, row_later = self.now[node], self.later[node]
        for place, amount in shape.needs:
            row_now[place] += amount * now
            row_later[place] += amount * later
        if self.usable[node]:
            cpu, memory = shape.limits if self.by_limits else shape.requests[:2]
            self.spare_now[0] += cpu * now
            self.spare_now[1] += memory * now
            self.spare_later[0] += cpu * later
            self.spare_later[1] += memory * later
        for counter in shape.counted:
            self._count(counter, node, -later)
        self.field.touched.add(node)
        if now > 0 or later > 0:
            self.field.grown.append(node)

    def _count(self, counter: int, node: int, by: int) -> None:
        domain = self.snapshot.counters[counter].domains[node]
        if domain is not None:
            counts = self.counts[counter]
            counts[domain] = counts.get(domain, 0) + by

    def tally(self, counts: dict[Any, int], key: object, by: int) -> None:
        """Count something of a unit, so that it can be taken back with the room."""
        self.journal.append((counts, key, by))
        counts[key] = counts.get(key, 0) + by

    def resize(self, unit: "Unit", size: int) -> None:
        self.journal.append((unit, unit.size))
        unit.size = size

    def mark(self) -> int:
        return len(self.journal)

    def rollback(self, mark: int) -> None:
        journal = self.journal
        while len(journal) > mark:
            entry = journal.pop()
            if len(entry) == 5:
                node, shape, taxes, now, later = entry
                self._apply(node, shape, taxes, -now, -later)
            elif len(entry) == 3:
                counts, key, by = entry
                counts[key] -= by
            else:
                unit, size = entry
                unit.size = size

    def fits(self, node: int, shape: Shape, now: bool) -> bool:
        row = self.later[node]
        for place, amount in shape.needs:
            if row[place] < amount:
                return False
        if now:
            row = self.now[node]
            for place, amount in shape.needs:
                if row[place] < amount:
                    return False
        return not shape.rules or self._obeys(node, shape)

    def _obeys(self, node: int, shape: Shape) -> bool:
        """Rules between pods: apart, near, spread."""
        for rule in shape.rules:
            domain = self.snapshot.counters[rule.counter].domains[node]
            counts = self.counts[rule.counter]
            here = counts.get(domain, 0) if domain is not None else 0
            if rule.kind == "apart":
                if here > 0:
                    return False
            elif domain is None:
                return False
            elif rule.kind == "near":
                if here == 0 and not (rule.counts_itself and not any(counts.values())):
                    return False
            elif here + rule.counts_itself - self._fewest(rule.counter) > rule.skew:
                return False
        return True

    def _fewest(self, counter: int) -> int:
        domains = self.snapshot.counters[counter].domains
        known = {domains[node] for node, usable in enumerate(self.usable) if usable}
        return min((self.counts[counter].get(domain, 0) for domain in known if domain is not None), default=0)

    def allowed(self, node: int, shape: Shape) -> bool:
        return self.usable[node] and self.snapshot.allowed[shape.where][self.snapshot.nodes[node].kind]

    def allowed_nodes(self, where: int) -> list[int]:
        """The usable nodes that a placement allows."""
        found = self._allowed.get(where)
        if found is None:
            kinds = self.snapshot.allowed[where]
            nodes = self.snapshot.nodes
            found = [place for place, usable in enumerate(self.usable) if usable and kinds[nodes[place].kind]]
            self._allowed[where] = found
        return found

    def find(self, shape: Shape, *, now: bool, guard: Shape | None = None, prefer: int = NOWHERE) -> int:
        """A node for one pod, or NOWHERE. `guard`: a shape of which as little as possible is to be spoilt."""
        if prefer != NOWHERE and self.allowed(prefer, shape) and self.fits(prefer, shape, now):
            return prefer
        return self.field.find(shape, now, guard)

    def commits(self, shape: Shape) -> Sequence[int]:
        """What a pod takes of what is available (decision 19)."""
        return shape.limits if self.by_limits else shape.requests

    def name(self, node: int) -> str:
        return self.snapshot.nodes[node].name if node != NOWHERE else ""
