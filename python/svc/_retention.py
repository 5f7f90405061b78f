"""Archiving runs, and the rule by which a home removes old runs. Every function blocks; ``svc.aio`` has the same ones for asyncio.

They start no control plane: without a running one, the command ``svc`` reads the store, or makes the change (``_command.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from svc._call import call, check_json, quoted
from svc._client import job
from svc._command import asked
from svc._control_plane import PLANES
from svc._errors import ConfigError, short_traceback
from svc._records import Job, known_fields

__all__ = ["Retention", "archive", "retention", "set_retention", "unarchive"]


@dataclass(frozen=True)
class Retention:
    """The rule that removes ended runs by age: see ``svc.retention``.

    ``rule`` is None by default: nothing is removed. ``due`` has the ``count``, the ``bytes`` and the ``runs`` that it would remove now.
    ``removed`` lists what it has removed, the newest first. ``doubt`` says why it removes less than the dates say.
    """

    rule: Mapping[str, Any] | None = field(default=None, hash=False)
    set_at: str | None = None
    looked_at: str | None = None
    doubt: str | None = None
    due: Mapping[str, Any] | None = field(default=None, hash=False)
    removed: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Retention:
        """From the JSON of ``GET /v1/retention``; members that this version does not know are ignored."""
        values = known_fields(cls, record)
        values["removed"] = tuple(values.get("removed") or ())
        return cls(**values)


@short_traceback
def archive(job_id: str) -> Job:
    """Archive a finished run: lists leave it out, and nothing removes it by age. Its files stay.

    Raises ``JobNotFound``, and ``SvcError`` (``job_not_archivable``) for a run that has not ended. Starts no control plane.
    """
    return _archived(job_id, "archive")


@short_traceback
def unarchive(job_id: str) -> Job:
    """List an archived run again; the retention rule may remove it again. Raises ``JobNotFound``. Starts no control plane."""
    return _archived(job_id, "unarchive", "--undo")


@short_traceback
def retention() -> Retention:
    """Return the rule that removes ended runs by age, what it has removed and what it would remove now. Starts no control plane."""
    return Retention.from_record(call("GET", "/v1/retention") if PLANES.is_there() else asked("prune", "rule"))


@short_traceback
def set_retention(older_than: str | None, *, keep_best: str | None = None, keep_newest: int | None = None) -> Retention:
    """Set the rule by which the control plane removes ended runs once an hour, and at each start; None removes the rule.

    :param older_than: the age since the end of a run: a number and m, h, d or w, such as ``"30d"``.
    :param keep_best: ``"loss:3"`` keeps the three runs whose loss was lowest at any step, ``"acc:3:max"`` those whose acc was highest.
    :param keep_newest: keeps so many of the runs that ended last.

    Archived runs and runs in use stay. Removed runs cannot be restored. Raises ``ConfigError``, which names the argument; then nothing
    is changed. Starts no control plane.
    """
    given = {"keep_best": keep_best, "keep_newest": keep_newest}
    if older_than is None and any(value is not None for value in given.values()):
        raise ConfigError("invalid_request", "older_than is needed with keep_best or keep_newest.")
    check_json(given)
    if PLANES.is_there():
        rule = None if older_than is None else {"older_than": older_than, **given}
        return Retention.from_record(call("PUT", "/v1/retention", {"rule": rule}))
    if older_than is None:
        return Retention.from_record(asked("prune", "rule", "clear"))
    words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None]
    return Retention.from_record(asked("prune", "rule", f"--older-than={older_than}", *words))


def _archived(job_id: str, path: str, *flags: str) -> Job:
    if PLANES.is_there():
        return Job.from_record(call("POST", f"/jobs/{quoted(job_id)}/{path}", {}))
    job(job_id)
    return Job.from_record(asked("archive", *flags, "--", job_id)["jobs"][0])
