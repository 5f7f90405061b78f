"""The control plane's answers as typed values. Instants are RFC 3339 UTC strings, money is US dollars."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

from svc._errors import plain
from svc._providers import THIS_COMPUTER
from svc._table import html_table, text_table

if TYPE_CHECKING:
    from typing_extensions import Self

    from svc._chart import Chart
    from svc._costs import Receipt


def dollars(usd: float) -> str:
    """An amount for people: cents, and more digits below one cent."""
    fine = (f"{usd:.{digits}f}" for digits in range(3 if 0 < usd < 0.01 else 2, 6))
    return "$" + next((text for text in fine if usd == 0 or float(text) > 0), f"{usd:.6f}")


def cost_text(job: Job) -> str:
    """The cost of a run for people: ``unknown``, or ``> $0.40``, if the price of a machine was not reported."""
    if all(machine.price_per_hour_usd is not None for machine in job.machines):
        return dollars(job.cost_usd)
    return f"> {dollars(job.cost_usd)}" if job.cost_usd > 0 else "unknown"


def cost_beside(job: Job) -> str:
    """The same next to other words: ``cost unknown``; empty for a run that has cost nothing."""
    text = cost_text(job)
    return "cost unknown" if text == "unknown" else text if job.cost_usd else ""


JobStatus = Literal[
    "waiting",
    "provisioning",
    "awaiting_ssh",
    "syncing",
    "installing",
    "running",
    "terminating",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
    "timed_out",
]
TERMINAL_STATUSES = frozenset({"succeeded", "failed", "cancelled", "interrupted", "timed_out"})


@dataclass(frozen=True)
class Task:
    """The script to run.

    :param entrypoint: a script inside the project directory, or ``-m package.module``.
    :param args: its arguments, passed exactly as given.
    """

    entrypoint: str
    args: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class JobError:
    """Why a job did not succeed."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True)
class Note:
    """The current activity of a run: ``kind`` for programs, for example "terminating" or "disk_full"; ``message``
    for people."""

    kind: str
    message: str


@dataclass(frozen=True)
class Machine:
    """A rented host of a job. In every ``state`` but ``released`` it may cost money."""

    id: str | None
    name: str
    node: int
    address: str | None
    state: str
    price_per_hour_usd: float | None
    created_at: str
    terminated_at: str | None


@dataclass(frozen=True)
class Job:
    """The state of a training run at the time of the call; read it again with ``svc.job(id)``.

    ``exit_code`` is None until it is known. ``note`` reports the current activity, for example that a machine may
    still cost money. Secrets in ``spec`` are masked by the control plane.
    """

    id: str
    status: JobStatus
    exit_code: int | None = None
    cost_usd: float = 0.0
    label: str | None = None
    tags: tuple[str, ...] = ()
    provider: str = THIS_COMPUTER
    gpus: str = "cpu"
    nodes: int = 1
    entrypoint: str = ""
    args: tuple[str, ...] = ()
    created_at: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    price_per_hour_usd: float | None = None
    machines: tuple[Machine, ...] = ()
    error: JobError | None = None
    code_snapshot: str | None = None
    disk_bytes: int | None = None
    left_out: Mapping[str, Any] | None = field(default=None, hash=False)
    spec: Mapping[str, Any] = field(default_factory=dict, hash=False)
    note: Note | None = None
    cost_estimate_usd: float | None = None
    rate_usd_per_hour: float | None = None
    budget_usd: float | None = None
    spent_usd: float | None = None
    budget_left_usd: float | None = None
    budget_kept_usd: float | None = None
    budget_stops_at: str | None = None
    resumed_from: Mapping[str, str | None] | None = field(default=None, hash=False)
    archived_at: str | None = None

    def update(self, **change: Any) -> Job:
        """Change the limits, the label or the tags of the run; returns its new record: see ``svc.update``."""
        from svc import _client

        return _client.update(self.id, **change)

    def placements(self) -> list[Placement]:
        """The machines that the job has used so far, one after the other: see ``svc.placements``."""
        from svc import _client

        return _client.placements(self.id)

    def chart(self, *metrics: str) -> Chart:
        """The run's metrics as a chart that moves in its notebook cell: see ``svc.chart``."""
        from svc import _chart

        return _chart.chart(self.id, *metrics)

    def receipt(self) -> Receipt:
        """The costs of the run so far, machine by machine: see ``svc.receipt``."""
        from svc import _money

        return _money.receipt(self.id)

    @property
    def done(self) -> bool:
        """Whether the job has ended and its machines are confirmed gone."""
        return self.status in TERMINAL_STATUSES

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Job:
        """From the JSON of a job record; members that this version does not know are ignored."""
        values = known_fields(cls, record)
        for name in ("args", "tags"):
            values[name] = tuple(values.get(name) or ())
        values["machines"] = tuple(Machine(**known_fields(Machine, machine)) for machine in values.get("machines") or ())
        error = values.get("error")
        values["error"] = JobError(**known_fields(JobError, error)) if error else None
        note = values.get("note")
        values["note"] = Note(**known_fields(Note, note)) if note else None
        return cls(**values)

    def __repr__(self) -> str:
        shown = [f"{self.id!r}", f"status={self.status!r}"]
        if self.exit_code is not None:
            shown.append(f"exit_code={self.exit_code}")
        shown += [f"provider={self.provider!r}", f"gpus={self.gpus!r}", f"cost_usd={self.cost_usd:g}"]
        if self.label is not None:
            shown.append(f"label={self.label!r}")
        if self.error is not None:
            shown.append(f"error={self.error.code!r}")
        return f"Job({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """A small table for notebooks; every value is escaped."""
        rows: list[tuple[str, object]] = [
            ("job", self.id),
            ("label", self.label),
            ("tags", ", ".join(self.tags)),
            ("status", self.status),
            ("exit code", self.exit_code),
            ("cost", cost_text(self)),
            ("machine", f"{self.provider}, {self.gpus}" + (f", {self.nodes} nodes" if self.nodes > 1 else "")),
            ("entrypoint", " ".join((self.entrypoint, *self.args))),
            ("created", self.created_at),
            ("started", self.started_at),
            ("ended", self.ended_at),
            ("note", self.note.message if self.note else None),
            ("error", f"{self.error.message} {self.error.hint}" if self.error else None),
        ]
        cells = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{html.escape(str(value))}</td></tr>"
            for name, value in rows
            if value not in (None, "")
        )
        return f"<table>{cells}</table>"


class JobList(list[Job]):
    """Jobs as a list that a notebook and a console show as a table."""

    _HEADS = ("id", "status", "exit", "machine", "cost", "created", "label", "entrypoint", "why")

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for job in self:
            about = job.note or job.error
            yield (
                job.id,
                job.status,
                "" if job.exit_code is None else str(job.exit_code),
                f"{job.provider}, {job.gpus}" + (f", {job.nodes} nodes" if job.nodes > 1 else ""),
                cost_text(job),
                job.created_at[:19].replace("T", " "),
                plain(job.label or ""),
                plain(" ".join((job.entrypoint, *job.args))),
                plain(about.message) if about else "",
            )

    def __repr__(self) -> str:
        """One line for each job, its columns aligned."""
        if not self:
            return "no jobs"
        return text_table(self._HEADS, [*self._rows()])

    def _repr_html_(self) -> str:
        """A table for notebooks; every value is escaped."""
        if not self:
            return "<p>no jobs</p>"
        return html_table(self._HEADS, [*self._rows()])


@dataclass(frozen=True)
class Placement:
    """One machine or gang that a job used or tried to get, from its order until it was confirmed gone.

    ``status`` is the job's while it is open, then how it ended; ``failure`` is one word for why. ``work_lost_seconds`` and
    ``work_lost_usd`` are what the next placement had to repeat, ``saved_usd`` what a spot machine cost less than one on demand;
    None where that is unknown.
    """

    n: int
    candidate: int
    provider: str
    gpus: str
    status: str
    opened_at: str
    region: str | None = None
    spot: str = "never"
    started_at: str | None = None
    closed_at: str | None = None
    price_per_hour_usd: float | None = None
    cost_usd: float = 0.0
    failure: str | None = None
    step: str | None = None
    error: JobError | None = None
    exit_code: int | None = None
    checkpoint: str | None = None
    resumed_from: Mapping[str, str] | None = field(default=None, hash=False)
    goes_on: bool = False
    work_lost_seconds: float | None = None
    work_lost_usd: float | None = None
    saved_usd: float | None = None
    machines: tuple[str, ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Placement:
        """From the JSON of a placement; members that this version does not know are ignored."""
        values = known_fields(cls, record)
        error = values.get("error")
        values["error"] = JobError(**known_fields(JobError, error)) if error else None
        values["machines"] = tuple(values.get("machines") or ())
        return cls(**values)


@dataclass(frozen=True)
class CheckpointsRemoved:
    """The result of ``remove_checkpoints``. Space on the disk, in bytes.

    ``linked_bytes`` stays in use, because other files are hard links to the same content; ``left_bytes`` could not be deleted
    yet, and svc retries. ``checkpoints`` has ``name``, ``files`` and ``bytes`` of each.
    """

    id: str
    dry_run: bool = False
    freed_bytes: int = 0
    linked_bytes: int = 0
    left_bytes: int = 0
    checkpoints: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CheckpointsRemoved:
        """From the JSON of the answer; members that this version does not know are ignored."""
        values = known_fields(cls, record)
        values["checkpoints"] = tuple(values.get("checkpoints") or ())
        return cls(**values)


@dataclass(frozen=True)
class ReconcileReport:
    """The result of ``reconcile``: what was found and done; with ``dry_run``, what would be done."""

    dry_run: bool = False
    replayed: tuple[Mapping[str, Any], ...] = ()
    resumed: tuple[str, ...] = ()
    ending: tuple[Mapping[str, Any], ...] = ()
    terminated: tuple[Mapping[str, Any], ...] = ()
    failed: tuple[Mapping[str, Any], ...] = ()
    unreachable_providers: tuple[str, ...] = ()
    foreign: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ReconcileReport:
        """From the JSON of the report."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in known_fields(cls, record).items()
        }
        return cls(**values)


class LogStream(Protocol):
    """The lines of a job's log as they arrive, and states of an unfinished line, which end with ``\\r``.

    ``close`` may be called from another thread and ends the iteration, as the end of a ``with`` block does.
    """

    def __iter__(self) -> Iterator[str]: ...
    def __next__(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None: ...


def known_fields(kind: Any, record: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a record that the dataclass has; those of a newer control plane are left out."""
    names = {entry.name for entry in fields(kind)}
    return {name: value for name, value in record.items() if name in names}
