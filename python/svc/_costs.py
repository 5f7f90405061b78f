"""Costs of machines, and the limits of a home, as typed values. Amounts are US dollars, instants RFC 3339 UTC strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from svc._errors import plain
from svc._records import dollars, known_fields
from svc._table import html_table, text_table


@dataclass(frozen=True)
class Waste:
    """Parts of a cost that brought nothing, in dollars.

    ``starting`` is the time from the order of a machine until the script began, ``idle_gpu`` times of at least five minutes in
    which no GPU worked, ``held`` from the end of the script until svc began to end the machine, ``lost`` work that another
    machine had to repeat, ``failed`` scripts of runs that failed, ``proof`` the wait until the provider confirmed the end.
    """

    starting: float = 0.0
    idle_gpu: float = 0.0
    held: float = 0.0
    lost: float = 0.0
    failed: float = 0.0
    proof: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all kinds, in dollars."""
        return sum(float(getattr(self, part.name)) for part in fields(self))


@dataclass(frozen=True)
class CostTotal:
    """A sum of costs. ``cost_usd`` is None if no price is known: unknown is never 0.

    ``cost_estimate_usd`` also counts the time without a price, at the rate that you gave; None if a rate is missing or no time
    needs one. ``work_usd`` is the part of ``cost_usd`` that is not waste. ``hours`` is the time of machines.
    """

    cost_usd: float | None = None
    cost_estimate_usd: float | None = None
    work_usd: float = 0.0
    waste: Waste = field(default_factory=Waste)
    hours: float = 0.0
    hours_without_price: float = 0.0
    machines: int = 0
    machines_without_price: int = 0

    @property
    def shown(self) -> str:
        """The cost for people: ``unknown`` where no price is known, and ``> $3.00`` where some time has none."""
        if self.cost_usd is None:
            return "unknown"
        partly = self.machines_without_price > 0 or self.hours_without_price > 0
        return f"> {dollars(self.cost_usd)}" if partly else dollars(self.cost_usd)


@dataclass(frozen=True)
class CostGroup(CostTotal):
    """The costs of one day, month, provider, project, label or GPU model: its ``key``, None for runs without a label."""

    key: str | None = None


@dataclass(frozen=True)
class CostReport:
    """Costs in groups, and their total: see ``svc.costs``. A notebook and a console show it as a table.

    ``since`` and ``until`` are the first and the last day that were asked for; days begin at midnight in ``time_zone``.
    """

    by: str
    time_zone: str
    groups: tuple[CostGroup, ...]
    total: CostTotal
    since: str | None = None
    until: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CostReport:
        """From the JSON of ``GET /v1/costs``; members that this version does not know are ignored."""
        return cls(
            by=str(record["by"]),
            time_zone=str(record["time_zone"]),
            groups=tuple(CostGroup(**_amounts(CostGroup, group)) for group in record["groups"]),
            total=CostTotal(**_amounts(CostTotal, record["total"])),
            since=record["from"],
            until=record["to"],
        )

    def _heads(self) -> tuple[str, ...]:
        return (self.by, "cost", "waste", "hours", "machines")

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for name, sums in (*((plain(g.key or "-"), g) for g in self.groups), ("total", self.total)):
            yield name, sums.shown, dollars(sums.waste.total), f"{sums.hours:.1f}", str(sums.machines)

    def __repr__(self) -> str:
        """One line for each group, and the total."""
        return text_table(self._heads(), [*self._rows()]) if self.groups else "no costs"

    def _repr_html_(self) -> str:
        """A table for notebooks; every value is escaped."""
        return html_table(self._heads(), [*self._rows()]) if self.groups else "<p>no costs</p>"


@dataclass(frozen=True)
class ReceiptMachine:
    """One machine of a run: from when to when, at which price, and how its end was proven.

    ``ordered_at`` is when svc ordered it; ``ended_at`` is when its end was proven, None while it may still cost money.
    ``price_per_hour_usd`` is the last price, and ``price_changed`` is true if an earlier time had another one.
    ``unproven_usd`` is the most that an order may have cost whose outcome was never proven;
    None for all others.
    """

    name: str
    provider: str
    node: int
    placement: int
    ordered_at: str
    id: str | None = None
    gpus: str | None = None
    ended_at: str | None = None
    hours: float = 0.0
    price_per_hour_usd: float | None = None
    price_changed: bool = False
    cost_usd: float | None = None
    cost_estimate_usd: float | None = None
    work_usd: float = 0.0
    waste: Waste = field(default_factory=Waste)
    proof: str | None = None
    unproven_usd: float | None = None


@dataclass(frozen=True)
class Receipt:
    """The costs of one run, machine by machine: see ``svc.receipt``. A notebook and a console show it as a table.

    ``is_final`` is false while a machine of the run may still cost money.
    """

    job_id: str
    status: str
    is_final: bool
    machines: tuple[ReceiptMachine, ...]
    total: CostTotal
    label: str | None = None
    project: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Receipt:
        """From the JSON of ``GET /jobs/{id}/receipt``; members that this version does not know are ignored."""
        machines = tuple(
            ReceiptMachine(**_amounts(ReceiptMachine, {**one, "ordered_at": one["from"], "ended_at": one["to"]}))
            for one in record["machines"]
        )
        values = {**known_fields(cls, record), "machines": machines, "total": CostTotal(**_amounts(CostTotal, record["total"]))}
        return cls(**values)

    _HEADS = ("placement", "machine", "provider", "gpus", "from", "to", "hours", "$/h", "cost", "end")

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.machines:
            yield (
                str(one.placement),
                plain(one.name),
                one.provider,
                plain(one.gpus or "-"),
                one.ordered_at[:19].replace("T", " "),
                (one.ended_at or "-")[:19].replace("T", " "),
                f"{one.hours:.2f}",
                "unknown" if one.price_per_hour_usd is None else dollars(one.price_per_hour_usd),
                "unknown" if one.cost_usd is None else dollars(one.cost_usd),
                plain(one.proof or "not proven: it may cost money"),
            )
        yield ("total", *[""] * 5, f"{self.total.hours:.2f}", "", self.total.shown, "" if self.is_final else "not final")

    def __repr__(self) -> str:
        """One line for each machine, and the total."""
        return text_table(self._HEADS, [*self._rows()]) if self.machines else "no machines"

    def _repr_html_(self) -> str:
        """A table for notebooks; every value is escaped."""
        return html_table(self._HEADS, [*self._rows()]) if self.machines else "<p>no machines</p>"


@dataclass(frozen=True)
class LimitUse:
    """One limit: ``limit`` is None if it is not set.

    ``used`` is what the ledger counts for the period, or what runs hold now; ``reserved`` is what open runs may need in addition,
    None if svc cannot tell; ``left`` is None without a limit or if ``reserved`` is unknown.
    """

    limit: float | None = None
    used: float = 0.0
    reserved: float | None = None
    left: float | None = None


@dataclass(frozen=True)
class LimitWait:
    """A run that waits for a limit: its position from 1, ``of`` how many, which limit, and why.

    ``limit`` is None if it waits only for its turn. ``never`` is true if it would not fit either if nothing else ran.
    """

    job_id: str
    position: int
    of: int
    why: str
    limit: str | None = None
    never: bool = False
    passes: int = 0


@dataclass(frozen=True)
class Limits:
    """The most that all runs of the home together may cost and hold: see ``svc.limits``. A notebook and a console show it as a table.

    ``usd_per_day``, ``usd_per_month`` and ``usd_per_hour`` are dollars; ``max_machines`` and ``max_gpus`` count.
    """

    usd_per_day: LimitUse
    usd_per_month: LimitUse
    usd_per_hour: LimitUse
    max_machines: LimitUse
    max_gpus: LimitUse
    waiting: tuple[LimitWait, ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Limits:
        """From the JSON of ``GET /v1/limits``; members that this version does not know are ignored."""
        values: dict[str, Any] = {
            part.name: LimitUse(**known_fields(LimitUse, record[part.name])) for part in fields(cls) if part.name != "waiting"
        }
        waiting = tuple(LimitWait(**known_fields(LimitWait, one)) for one in record["waiting"])
        return cls(**values, waiting=waiting)

    _HEADS = ("limit", "at most", "used", "reserved", "left")

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for part in fields(self):
            if part.name == "waiting":
                continue
            use: LimitUse = getattr(self, part.name)
            amount = dollars if part.name.startswith("usd") else "{:g}".format
            yield (
                part.name,
                "none" if use.limit is None else amount(use.limit),
                amount(use.used),
                "unknown" if use.reserved is None else amount(use.reserved),
                "-" if use.limit is None else "unknown" if use.left is None else amount(use.left),
            )

    def __repr__(self) -> str:
        """One line for each limit, and one for each run that waits."""
        lines = [text_table(self._HEADS, [*self._rows()])]
        return "\n".join([*lines, *(f"{one.position}. {one.job_id} {plain(one.why)}" for one in self.waiting)])

    def _repr_html_(self) -> str:
        """Tables for notebooks; every value is escaped."""
        table = html_table(self._HEADS, [*self._rows()])
        if not self.waiting:
            return table
        return table + html_table(("position", "run", "why"), [(str(w.position), w.job_id, plain(w.why)) for w in self.waiting])


def _amounts(kind: Any, record: Mapping[str, Any]) -> dict[str, Any]:
    return {**known_fields(kind, record), "waste": Waste(**known_fields(Waste, record["waste"]))}
