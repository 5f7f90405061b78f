"""Runs by their ids: the record, the list, changes, the end, removal. Every function blocks; ``svc.aio`` has the same ones for asyncio.

Reading (``job``, ``jobs``), killing and reconciling start no control plane: without a running one, the command ``svc`` reads the
store, or makes the change (``_command.py``). ``_run.py`` starts runs, and ``_follow.py`` follows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlencode

from svc._call import bad_field, call, checked_id, is_finite, quoted, word_list
from svc._command import asked
from svc._control_plane import PLANES
from svc._errors import ConfigError, make_error, short_traceback
from svc._follow import driven
from svc._records import CheckpointsRemoved, Job, JobList, Placement, ReconcileReport
from svc._run import ProviderName

__all__ = ["job", "jobs", "kill", "placements", "reconcile", "remove", "remove_checkpoints", "update"]

if TYPE_CHECKING:
    from typing_extensions import Unpack

PAGE_MAX = 500
# Deleting large checkpoints takes long, and a reconcile as long as the providers do.
LONG_SECONDS_MAX = 600.0


@short_traceback
def job(job_id: str) -> Job:
    """The current record of the job: status, cost, exit code. Raises ``JobNotFound``. Starts no control plane."""
    return driven(job_id) if PLANES.is_there() else Job.from_record(_only(asked("jobs", "--", checked_id(job_id)), job_id))


def _only(answer: Mapping[str, Any], job_id: str) -> Mapping[str, Any]:
    record: Mapping[str, Any] = answer["jobs"][0]
    # The command also accepts the beginning of an id.
    if record["id"] != job_id:
        raise make_error("job_not_found", f"This home has no run {job_id}.", "`svc jobs --all` lists them.")
    return record


@short_traceback
def jobs(
    *,
    status: str | None = None,
    provider: ProviderName | None = None,
    label: str | None = None,
    tags: Sequence[str] | None = None,
    archived: bool = False,
    limit: int = 50,
) -> list[Job]:
    """Recent jobs, newest first, at most ``limit``; the other arguments filter the list; of ``tags``, a run must have all.

    Archived runs are left out; with ``archived=True`` only they are listed.

    Starts no control plane.

    The list shows itself as a table in a notebook and on a console.

    Raises ``ConfigError`` for a ``limit`` below 1.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigError("invalid_request", "limit must be a whole number of at least 1.")
    given = {"status": status, "provider": provider, "label": label}
    query: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    wanted = [] if tags is None else word_list("tags", tags)
    if not PLANES.is_there():
        words = [f"--{name}={value}" for name, value in query.items()] + [f"--tag={tag}" for tag in wanted]
        words += ["--archived"] if archived else []
        return JobList(Job.from_record(record) for record in asked("jobs", f"--limit={limit}", *words)["jobs"])
    if wanted:
        query["tag"] = ",".join(wanted)
    if archived:
        query["archived"] = "only"
    found = JobList()
    while len(found) < limit:
        query["limit"] = min(limit - len(found), PAGE_MAX)
        page = call("GET", f"/jobs?{urlencode(query)}")
        found += [Job.from_record(record) for record in page["jobs"]]
        if not page.get("next_cursor"):
            break
        query["cursor"] = page["next_cursor"]
    return found


class JobChange(TypedDict, total=False):
    """The named arguments of ``update``: see there."""

    budget_usd: float | None
    max_runtime_minutes: float | None
    price_cap: float | None
    label: str | None
    tags: Sequence[str]


_LIMITS = ("budget_usd", "max_runtime_minutes", "price_cap")


@short_traceback
def update(job_id: str, **change: Unpack[JobChange]) -> Job:
    """Change the limits, the label or the tags of a run: ``budget_usd``, ``max_runtime_minutes``, ``price_cap``, ``label``, ``tags``.

    Arguments that are left out stay; None removes a limit or the label, and ``tags`` replaces all tags. The machine's own guard
    gets a new budget, too. Starts no control plane.

    Raises ``JobNotFound``, and ``SvcError`` (``change_refused``) for a limit that cannot be held.
    """
    if "tags" in change:
        change["tags"] = word_list("tags", change["tags"])
    for name, value in change.items():
        if name in _LIMITS and value is not None and not is_finite(value):
            raise bad_field(name, "must be a finite number, or None to remove the limit")
    if PLANES.is_there():
        return Job.from_record(call("PATCH", f"/jobs/{quoted(job_id)}", dict(change)))
    job(job_id)
    flags = {"budget_usd": "budget-usd", "max_runtime_minutes": "max-runtime", "price_cap": "price-cap", "label": "label", "tags": "tags"}
    for name in change:
        if name not in flags:
            raise ConfigError("invalid_request", f"{name} cannot be changed after the start of a run.")
    given = {name: ",".join(value) if isinstance(value, list) else value for name, value in change.items()}
    words = [f"--{flags[n]}={('' if n in ('label', 'tags') else 'none') if v in (None, '') else v}" for n, v in given.items()]
    return Job.from_record(asked("set", *words, "--", job_id))


@short_traceback
def kill(job_id: str) -> Job:
    """Cancel the job and terminate its machine. Returns once the kill is recorded; ``wait`` returns when it is done.

    Killing a job again, or one that has ended, changes nothing. Raises ``JobNotFound``. If no control plane runs, it
    returns when the machine is gone.
    """
    if not PLANES.is_there():
        job(job_id)
        return Job.from_record(_only(asked("kill", "--", job_id), job_id))
    return Job.from_record(call("POST", f"/jobs/{quoted(job_id)}/kill", {}))


@short_traceback
def remove(job_id: str) -> int:
    """Delete a finished run: its log, metrics and checkpoints on this computer, and code that no other run uses.

    Returns the number of bytes freed on this disk. Raises ``JobNotFound``, and ``SvcError`` (``job_not_removable``) for a run
    that has not ended, whose machine is not confirmed gone, or that another run resumes from. Starts no control plane.
    """
    if PLANES.is_there():
        return int(call("DELETE", f"/jobs/{quoted(job_id)}", seconds=LONG_SECONDS_MAX)["freed_bytes"])
    job(job_id)
    answer = asked("rm", "--", job_id)
    for failed in answer["failed"]:
        error = failed["error"]
        raise make_error(str(error["code"]), str(error["message"]), str(error["hint"]))
    return int(answer["removed"][0]["freed_bytes"])


@short_traceback
def remove_checkpoints(job_id: str, names: Sequence[str], dry_run: bool = False) -> CheckpointsRemoved:
    """Delete checkpoints of a finished run on this computer, all of the named ones or none; with ``dry_run`` only measure.

    A checkpoint's name is its path in the checkpoint directory. Raises ``JobNotFound``, and ``SvcError``: ``checkpoint_not_removable``
    while the run is open, or another run or a copy needs one of them; ``checkpoint_not_found``. Starts no control plane.
    """
    names = word_list("names", names)
    if PLANES.is_there():
        body = {"names": names, "dry_run": bool(dry_run)}
        path = f"/jobs/{quoted(job_id)}/checkpoints/remove"
        return CheckpointsRemoved.from_record(call("POST", path, body, seconds=LONG_SECONDS_MAX))
    job(job_id)
    # As a path, so that a name of digits is not read as a step.
    words = [f"--checkpoint=./{name}" for name in names] + (["--dry-run"] if dry_run else [])
    return CheckpointsRemoved.from_record(asked("rm", *words, "--", job_id))


@short_traceback
def placements(job_id: str) -> list[Placement]:
    """The machines that the job has used, one after the other: where, for how long, what each cost, and why it ended.

    Raises ``JobNotFound``. Starts no control plane.
    """
    if PLANES.is_there():
        answer = call("GET", f"/jobs/{quoted(job_id)}/placements")
    else:
        job(job_id)
        answer = asked("timeline", "--", job_id)
    return [Placement.from_record(record) for record in answer["placements"]]


@short_traceback
def reconcile(dry_run: bool = False, gone: str | None = None) -> ReconcileReport:
    """Resume unfinished runs after a crash and terminate orphaned machines; with ``dry_run`` only report.

    ``gone`` is the name of a machine that the provider's console shows as gone, but whose end svc cannot check because the
    provider's key was replaced. svc asks the provider once more and then closes the machine's record; with ``dry_run`` it
    only checks. Raises ``SvcError``: ``machine_not_found``; ``machine_not_closable`` while a run uses the machine or the
    provider shows it, or if svc can check its end itself; errors of the provider.
    """
    if not PLANES.is_there():
        flags = [*(["--dry-run"] if dry_run else []), *([] if gone is None else ["--gone", gone])]
        return ReconcileReport.from_record(asked("reconcile", *flags))
    body = {"dry_run": bool(dry_run), **({} if gone is None else {"gone": gone})}
    return ReconcileReport.from_record(call("POST", "/v1/reconcile", body, seconds=LONG_SECONDS_MAX))
