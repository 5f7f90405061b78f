"""Starting and following runs. Every function blocks; ``svc.aio`` has the same ones for asyncio.

C1. All functions talk to the control plane of this home (``SVC_HOME``). If none runs, one is started; it ends with
    the last process that uses it, like an interrupted control plane. Reading (``job``, ``jobs``), killing and
    reconciling start none (``_command.py``).
C2. A call whose answer was lost is retried: submissions carry a key, so that a retry never starts a second run.
C3. ``stream`` counts the bytes it has read and resumes from there after a lost connection: no line lost, none
    twice.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import quote, urlencode

from svc import _http
from svc._command import asked
from svc._config import Settings, checked
from svc._control_plane import PLANES, STARTED
from svc._errors import ConfigError, SvcError, WaitTimeout, make_error, short_traceback
from svc._gpus import list_gpus, vram_for
from svc._http import home
from svc._progress import progress_of
from svc._providers import THIS_COMPUTER
from svc._records import CheckpointsRemoved, Job, JobList, LogStream, Placement, ReconcileReport, Task

__all__ = [
    "configure", "job", "jobs", "kill", "list_gpus", "placements", "plan", "reconcile", "remove", "remove_checkpoints", "run",
    "stream", "update", "vram_for", "wait",
]  # fmt: skip

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from svc.aio import RunParameters

# generated: providers
ProviderName = Literal["local", "podhost", "market", "cloudvm", "notebook"]
# end: providers
Launcher = Literal["auto", "single", "torchrun", "ray"]
Health = Literal["quick", "off"]
Choose = Literal["in_order", "cheapest"]
Spot = Literal["never", "prefer", "only"]

LOST_SECONDS_MAX = 60.0
STREAM_IDLE_SECONDS = 60.0
LINE_BYTES_MAX = 1024 * 1024
# Minimum time between two states of an unfinished line, and the maximum length of such a line.
STATE_SECONDS = 0.5
STATE_BYTES_MAX = 4096
PAGE_MAX = 500
# Deleting large checkpoints takes long, and a reconcile as long as the providers do.
LONG_SECONDS_MAX = 600.0
_POLL_SECONDS = (0.05, 0.5)
_KEY = re.compile(r"[!-~]{1,200}")


class _Named:
    """The latest registry of ``configure``, and the control planes that have it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: Settings | None = None
        self._told: dict[Path, Settings] = {}

    def name(self, settings: Settings) -> None:
        with self._lock:
            self._settings = settings

    def tell(self, port: int) -> None:
        """Sends the registry to the control plane of this home, unless it already has it."""
        at = home()
        with self._lock:
            settings = self._settings
            if settings is None or self._told.get(at) is settings:
                return
            _http.call(port, "PUT", "/v1/registry", settings.body)
            self._told[at] = settings


_REGISTRY = _Named()


@short_traceback
def configure(registry: Mapping[str, Any] | None = None, use: Sequence[str] | None = None) -> None:
    """Set the registry of credentials and the ``cred_id``s in use; without ``use`` all of its credentials are.

    ``registry={}`` with ``use=[]`` is enough for the ``local`` provider. ``env://`` means the environment of this
    process, read now; the next call sends the registry to the control plane of this home, which keeps references in
    clear and values sealed. ``notifications`` has ``targets`` by name, each with its ``secret_ref``, and ``rules`` for all runs.
    Raises ``ConfigError``, which names the malformed part, and ``CredentialError`` for a missing variable; nothing is changed then.
    """
    _REGISTRY.name(checked({} if registry is None else registry, use))


@short_traceback
def run(
    task: Task | Mapping[str, Any],
    *,
    provider: ProviderName = "local",
    gpus: str = "cpu",
    label: str | None = None,
    tags: Sequence[str] | None = None,
    min_vram_gb: int | None = None,
    disk_gb: int | None = None,
    region: str | None = None,
    price_cap: float | None = None,
    project_dir: str | os.PathLike[str] | None = None,
    nodes: int | None = None,
    terminate_on_exit: bool | None = None,
    idle_timeout_minutes: float | None = None,
    max_runtime_minutes: float | None = None,
    budget_usd: float | None = None,
    rate_usd_per_hour: float | None = None,
    orphan_grace_minutes: float | None = None,
    stop_grace_seconds: int | None = None,
    keep_checkpoints: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    install: str | None = None,
    python: str | os.PathLike[str] | None = None,
    launcher: Launcher | None = None,
    image: str | None = None,
    data: Sequence[str] | None = None,
    resume_from: str | None = None,
    resume_checkpoint: str | None = None,
    sinks: Sequence[Mapping[str, Any]] | None = None,
    candidates: Sequence[Mapping[str, Any]] | None = None,
    choose: Choose | None = None,
    wait_for_capacity_minutes: int | None = None,
    retry: Mapping[str, Any] | None = None,
    spot: Spot | None = None,
    max_preemptions: int | None = None,
    health: Health | None = None,
    notify: Sequence[str] | None = None,
    idempotency_key: str | None = None,
    wait: bool = False,
) -> Job:
    """Start a training run and return its record immediately or, with ``wait=True``, when the run has ended.

    :param task: what to run: ``svc.Task(entrypoint=..., args=[...])`` or a dict with these two.
    :param provider: the provider of the machine.
    :param gpus: ``cpu``, ``<MODEL>`` or ``<MODEL>:<COUNT>``, for example ``A100:4`` for four on one machine.
    :param label: a name for people.
    :param tags: words by which the run is found again: letters, digits and ``._:/=+@-``, at most 16.
    :param min_vram_gb: minimum memory per GPU, in GB.
    :param disk_gb: scratch disk, in GB.
    :param region: a hint in the provider's own naming.
    :param price_cap: dollars per hour; svc rents nothing more expensive.
    :param project_dir: the directory to send to the machine; by default the current directory.
    :param nodes: the number of separate machines.
    :param terminate_on_exit: end the machine when the control plane ends; true by default.
    :param idle_timeout_minutes: end a run that has been idle for this long; 0 turns it off.
    :param max_runtime_minutes: hard limit from launch.
    :param budget_usd: ceiling in dollars for everything that the run costs, failed machines included; the machine itself ends in time.
    :param rate_usd_per_hour: price of one machine, for a provider that reports none.
    :param keep_checkpoints: the complete checkpoints to keep on this computer (default: all): ``{"last": 3}``, ``{"best": "loss:3"}``
        (the lowest; ``"acc:3:max"`` the highest), ``{"rotation": "follow"}`` (also removes what the script removes), or several. The
        newest one is always kept.
    :param orphan_grace_minutes: after this long without a control plane, a finished or idle machine shuts itself down.
    :param stop_grace_seconds: time between TERM and KILL when the run is ended, 0 to 3600, to save a last checkpoint.
    :param env: environment variables of the run; ``env://NAME`` and ``store://path`` values are resolved and kept secret.
    :param install: ``auto``, ``none``, or a shell command.
    :param python: interpreter of a local run, a command or a path; by default the one that runs this. Rented machines have their own.
    :param launcher: how to start one process per GPU.
    :param image: container image or VM image family.
    :param data: names of data manifests.
    :param resume_from: a job whose last complete checkpoint this run starts from; ``last`` is the newest job.
    :param resume_checkpoint: a complete checkpoint of that job, by its path, instead of the last one.
    :param sinks: object stores that also receive checkpoints and logs.
    :param candidates: machines that the run may use, instead of ``provider`` and ``gpus``: ``[{"provider": "podhost", "gpus": "A100"},
        {"provider": "market", "gpus": "H100", "price_cap": 2.5, "spot": "prefer"}]``. Fields that one leaves out are the run's own.
    :param choose: ``in_order`` (default) takes the first candidate with an offer, ``cheapest`` the lowest price per hour.
    :param wait_for_capacity_minutes: how long the run waits, at no cost, when no candidate has a machine; by default about a minute.
    :param retry: when another machine follows a failure: ``{"max": 3, "on": ["machine_lost", "preempted", "exit:75"]}``.
    :param spot: ``prefer`` takes a spot machine where one is offered, ``only`` nothing else; the provider may take it back at any time.
    :param max_preemptions: after so many preemptions (default 10) ``prefer`` rents on demand, and ``only`` ends the run.
    :param health: ``quick`` (default) tests a rented machine before the script starts; ``off`` skips the tests.
    :param notify: rules that report, in addition to those of the home: ``["loss > 10", "loss is nan, stop", "loss silent 20m"]``; with
        ``, stop`` at its end a rule also ends the run. ``configure`` and ``svc notify`` say where messages go.
    :param idempotency_key: repeating a call with the same key and parameters returns the same job.
    :param wait: block until the run has ended and its machine is gone; a terminal or notebook shows the steps while waiting
        (``SVC_PROGRESS=0`` turns that off).

    Parameters that are None use the control plane's default. Raises ``ConfigError``, ``UnsupportedError``,
    ``CredentialError`` or ``PriceCapExceeded`` before anything is rented. A failed run does not raise: see
    ``status`` and ``error``.
    """
    spec: dict[str, Any] = _spec_of(
        task,
        {
            "provider": provider,
            "gpus": gpus,
            "min_vram_gb": min_vram_gb,
            "disk_gb": disk_gb,
            "region": region,
            "price_cap": price_cap,
            "project_dir": project_dir,
            "nodes": nodes,
            "terminate_on_exit": terminate_on_exit,
            "idle_timeout_minutes": idle_timeout_minutes,
            "max_runtime_minutes": max_runtime_minutes,
            "budget_usd": budget_usd,
            "rate_usd_per_hour": rate_usd_per_hour,
            "orphan_grace_minutes": orphan_grace_minutes,
            "stop_grace_seconds": stop_grace_seconds,
            "keep_checkpoints": keep_checkpoints,
            "env": env,
            "install": install,
            "python": python,
            "launcher": launcher,
            "image": image,
            "data": data,
            "resume_from": resume_from,
            "resume_checkpoint": resume_checkpoint,
            "sinks": sinks,
            "candidates": candidates,
            "choose": choose,
            "wait_for_capacity_minutes": wait_for_capacity_minutes,
            "retry": retry,
            "spot": spot,
            "max_preemptions": max_preemptions,
            "health": health,
            "notify": notify,
        },
    )
    if idempotency_key is None:
        idempotency_key = f"py-{uuid.uuid4().hex}"
    elif not isinstance(idempotency_key, str) or not _KEY.fullmatch(idempotency_key):
        raise _bad_field("idempotency_key", "must be 1 to 200 visible ASCII characters without spaces")
    body = {"label": label, **({} if tags is None else {"tags": _words("tags", tags)}), "spec": spec}
    try:
        record = call("POST", "/jobs", body, {"Idempotency-Key": idempotency_key})
    except KeyboardInterrupt:
        # The caller has no id yet.
        _tell_interrupted("stopped during the submission of a run: if it was accepted, it", "svc kill last")
        raise
    started = Job.from_record(record)
    STARTED.add(started.id)
    try:
        return _wait_for(started.id, None) if wait else started
    except SvcError as error:
        hint = f"The run {started.id} was started, and may continue and cost money: `svc kill {started.id}` ends it. {error.hint}"
        raise make_error(error.code, error.message, hint, error.errors) from error


class JobChange(TypedDict, total=False):
    """The named arguments of ``update``: see there."""

    budget_usd: float | None
    max_runtime_minutes: float | None
    price_cap: float | None
    label: str | None
    tags: Sequence[str]


def _words(name: str, given: Sequence[str]) -> list[str]:
    """A list; a plain text, which is a sequence of letters, was meant as one word."""
    if isinstance(given, str):
        raise ConfigError("invalid_request", f'{name} must be a list: {name}=["{given}"].')
    try:
        return list(given)
    except TypeError:
        raise _bad_field(name, f"must be a list, not {type(given).__name__}") from None


@short_traceback
def plan(task: Task | Mapping[str, Any], **parameters: Unpack[RunParameters]) -> dict[str, Any]:
    """What ``run`` with the same arguments would rent, send and cost. Rents, starts and stores nothing.

    ``offers`` are the machines that all candidates offer now, ``candidates`` says of each why it is refused and how long its
    runs took to start, ``order`` is the order in which svc would try them, ``refusals`` says why the run would be refused.
    """
    given: dict[str, Any] = dict(parameters)
    given.pop("idempotency_key", None)
    label = given.pop("label", None)
    given.pop("tags", None)
    answer: dict[str, Any] = call("POST", "/v1/plan", {"label": label, "spec": _spec_of(task, given)})
    return answer


def _spec_of(task: Task | Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The spec for the request: without parameters that are None, with paths of the caller."""
    spec: dict[str, Any] = {**_task_fields(task), **{name: value for name, value in parameters.items() if value is not None}}
    for name, value in spec.items():
        if isinstance(value, tuple):
            spec[name] = list(value)
        elif isinstance(value, Mapping):
            spec[name] = dict(value)
    python = spec.pop("python", None)
    # Candidates are machines elsewhere, which have their own.
    own = _own_python(spec.get("provider", THIS_COMPUTER)) if python is None and "candidates" not in spec else python
    if own is not None:
        spec["python"] = own if python is None else _python_path(python)
    # The server's own directory is not the caller's, so the caller's is always sent. An empty text may be an unset
    # variable, and the current directory may hold much that was never meant to be sent.
    if spec.get("project_dir") == "":
        raise _bad_field("project_dir", "must not be empty; leave it out for the current directory")
    try:
        spec["project_dir"] = os.path.abspath(os.path.expanduser(os.fsdecode(spec.get("project_dir", os.curdir))))
    except (TypeError, OSError) as error:
        raise _bad_field("project_dir", f"cannot be used: {error}") from error
    _check_json(spec)
    return spec


def _own_python(provider: object) -> str | None:
    """The interpreter of the caller, for a local run; None if it is embedded in another program, or frozen into
    one."""
    own = sys.executable
    if provider != THIS_COMPUTER or not own or getattr(sys, "frozen", False):
        return None
    return own if os.path.basename(own).startswith(("python", "pypy")) else None


def _python_path(python: Any) -> Any:
    """A path is relative to the caller; the control plane looks up a command."""
    try:
        text = os.fsdecode(python)
    except TypeError:
        return python
    return os.path.abspath(os.path.expanduser(text)) if os.sep in text or text.startswith("~") else text


@short_traceback
def wait(job_id: str, timeout: float | None = None) -> Job:
    """Block until the job has ended and its machines are confirmed gone, and return its last record.

    :param timeout: seconds; after that ``WaitTimeout`` (also a ``TimeoutError``) is raised and the job continues.

    Raises ``JobNotFound``, and ``SvcError`` when no control plane answers for a minute. Ctrl-C that the caller
    catches only ends the waiting, and prints when the run ends.
    """
    return _wait_for(job_id, timeout)


@short_traceback
def job(job_id: str) -> Job:
    """The current record of the job: status, cost, exit code. Raises ``JobNotFound``. Starts no control plane."""
    return driven(job_id) if PLANES.is_there() else Job.from_record(_only(asked("jobs", "--", _checked_id(job_id)), job_id))


def driven(job_id: str) -> Job:
    """Like ``job``, for a job that a caller waits for: a control plane must be running, so that it makes progress."""
    return Job.from_record(call("GET", f"/jobs/{quoted(job_id)}"))


def _only(answer: Mapping[str, Any], job_id: str) -> Mapping[str, Any]:
    record: Mapping[str, Any] = answer["jobs"][0]
    # The command also accepts the beginning of an id.
    if record["id"] != job_id:
        raise make_error("job_not_found", f"This home has no job {job_id}.", "`svc jobs --all` lists them.")
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
    wanted = [] if tags is None else _words("tags", tags)
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


@short_traceback
def update(job_id: str, **change: Unpack[JobChange]) -> Job:
    """Change the limits, the label or the tags of a run: ``budget_usd``, ``max_runtime_minutes``, ``price_cap``, ``label``, ``tags``.

    Arguments that are left out stay; None removes a limit or the label, and ``tags`` replaces all tags. The machine's own guard
    gets a new budget, too. Starts no control plane.

    Raises ``JobNotFound``, and ``SvcError`` (``change_refused``) for a limit that cannot be held.
    """
    if "tags" in change:
        change["tags"] = _words("tags", change["tags"])
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
    names = _words("names", names)
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
def reconcile(dry_run: bool = False) -> ReconcileReport:
    """Resume unfinished runs after a crash and terminate orphaned machines; with ``dry_run`` only report."""
    if not PLANES.is_there():
        return ReconcileReport.from_record(asked("reconcile", *(["--dry-run"] if dry_run else [])))
    return ReconcileReport.from_record(call("POST", "/v1/reconcile", {"dry_run": bool(dry_run)}, seconds=LONG_SECONDS_MAX))


@short_traceback
def stream(job_id: str) -> LogStream:
    """Yield the lines of the job's log from its beginning, as they arrive, without line ends, until the job ends.

    While a run shows a progress bar, it also yields the current state of that unfinished line, at most twice a
    second. Such a text ends with ``\\r``, which no line does: ``print(line, end="" if line.endswith("\\r") else
    "\\n")`` shows the bar as it moves, and a caller that wants only lines skips those texts. The whole line follows
    when it ends.

    Ctrl-C that the caller catches only ends the iteration, and prints when the run ends. Bytes that are not UTF-8
    become U+FFFD; a line longer than 1 MiB arrives in pieces. A lost connection is resumed at the byte where it
    broke. Raises ``JobNotFound`` at once, and ``SvcError`` when no control plane answers for a minute.
    """
    now = driven(job_id)
    return _Lines(job_id, shows_states=not now.done)


class _Lines(LogStream):
    def __init__(self, job_id: str, shows_states: bool) -> None:
        self._job_id = job_id
        self._offset = 0
        self._partial = bytearray()
        self._shows_states = shows_states
        # When the state of an unfinished line may be returned; None if there is none, or it was returned.
        self._state_due_at: float | None = None
        self._ready: deque[str] = deque()
        self._source: _http.ByteStream | None = None
        self._lost_at: float | None = None
        self._closed = False
        self._over = False
        self._ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_source", None) is not None:
            self.close()

    def close(self) -> None:
        """End the iteration; safe from another thread."""
        self._closed = True
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def __next__(self) -> str:
        while not self._ready:
            if self._closed or self._ended:
                raise StopIteration
            left = None if self._state_due_at is None else self._state_due_at - time.monotonic()
            if left is not None and left <= 0:
                self._hand_out_state()
                continue
            with _TellingOnInterrupt(self._job_id):
                try:
                    self._fill(left)
                except KeyboardInterrupt:
                    # Bytes that were read but not returned are requested again if the caller continues.
                    self._drop_source()
                    raise
        return self._ready.popleft()

    def _hand_out_state(self) -> None:
        self._state_due_at = None
        state = _state_of(self._partial)
        if state:
            self._ready.append(state + "\r")

    def _fill(self, seconds: float | None) -> None:
        """Reads once, waiting for at most ``seconds``; at the end of the job returns the rest."""
        try:
            if self._source is None:
                self._source = self._open(follow=not self._over)
            self._source.patience(STREAM_IDLE_SECONDS if seconds is None else seconds)
            chunk = self._source.read()
        except _http.Unreachable as lost:
            self._drop_source()
            if not self._closed:
                self._wait_for_return(lost)
            return
        if chunk:
            self._take(chunk)
            return
        if chunk is None:
            self._lost_at = None
            self._drop_source()
            return
        # The answer ended: either the job or its control plane has ended.
        self._drop_source()
        if not self._over:
            if self._closed or not driven(self._job_id).done:
                time.sleep(_POLL_SECONDS[0])
                return
            # Bytes that were stored between the last read and the end of the job arrive with one more answer.
            self._over = True
            return
        if self._partial:
            self._ready.append(_text(self._partial))
            self._partial = bytearray()
        self._ended = True

    def _open(self, follow: bool) -> _http.ByteStream:
        port = PLANES.port()
        query = f"offset={self._offset}" + ("&follow=1" if follow else "")
        try:
            return _http.ByteStream(port, f"/jobs/{quoted(self._job_id)}/logs?{query}", STREAM_IDLE_SECONDS)
        except _http.Unreachable:
            PLANES.forget(port)
            raise

    def _take(self, chunk: bytes) -> None:
        self._lost_at = None
        self._offset += len(chunk)
        self._partial += chunk
        if b"\n" in chunk:
            *whole, rest = bytes(self._partial).split(b"\n")
            self._ready.extend(_text(line) for line in whole)
            self._partial = bytearray(rest)
            self._state_due_at = None
        while len(self._partial) > LINE_BYTES_MAX:
            self._ready.append(_text(self._partial[:LINE_BYTES_MAX]))
            del self._partial[:LINE_BYTES_MAX]
        if self._shows_states and self._state_due_at is None and _state_of(self._partial):
            self._state_due_at = time.monotonic() + STATE_SECONDS

    def _drop_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _wait_for_return(self, lost: SvcError) -> None:
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        if now - self._lost_at > LOST_SECONDS_MAX:
            raise lost
        time.sleep(_POLL_SECONDS[0])


class _TellingOnInterrupt:
    """Ctrl-C during the iteration ends only the iteration: prints what ends the run."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return
        _tell_interrupted(f"stopped watching run {self._job_id}, which", f"svc kill {self._job_id}")


def _tell_interrupted(what: str, command: str) -> None:
    if PLANES.keeps_one():
        when = "ends when the last program that uses its control plane ends, such as this one"
    else:
        when = "continues, and its machine may cost money"
    if sys.stderr is not None:
        print(f"svc: {what} {when}; `{command}` ends it now", file=sys.stderr, flush=True)


def _wait_for(job_id: str, timeout: float | None) -> Job:
    deadline = deadline_of(timeout)
    pause, pause_max = _POLL_SECONDS
    progress = progress_of(lambda name: call("GET", f"/jobs/{quoted(name)}/timeline"))
    with _TellingOnInterrupt(job_id), contextlib.closing(progress):
        while True:
            now = driven(job_id)
            progress.saw(now)
            if now.done:
                return now
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise wait_timeout(now, timeout)
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, pause_max)


def deadline_of(timeout: float | None) -> float | None:
    """The end of a wait on the monotonic clock; None to wait without limit."""
    if timeout is None:
        return None
    try:
        seconds = math.nan if isinstance(timeout, str) else float(timeout)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        raise _bad_field("timeout", "must be a number of seconds, or None to wait without limit")
    return time.monotonic() + seconds


def wait_timeout(last: Job, timeout: float | None) -> WaitTimeout:
    """The error for a job that did not end in time."""
    return WaitTimeout(
        "wait_timeout",
        f"Job {last.id} is still {last.status} after {timeout:g} s.",
        "The job continues; wait again, or end it with svc.kill.",
    )


def call(
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = _http.CALL_SECONDS_MAX,
) -> Any:
    """One call, whose answer may take ``seconds``; retried (C2) while the control plane does not answer, for at most a minute."""
    deadline = time.monotonic() + LOST_SECONDS_MAX
    while True:
        port = PLANES.port()
        try:
            _REGISTRY.tell(port)
            return _http.call(port, method, path, body, headers, seconds)
        except _http.Unreachable:
            PLANES.forget(port)
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_SECONDS[0])


def _task_fields(task: Task | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(task, Task):
        return {"entrypoint": task.entrypoint, "args": _list(task.args)}
    if isinstance(task, Mapping):
        unknown = sorted(set(map(str, task)) - {"entrypoint", "args"})
        if unknown:
            raise _bad_field(f"task.{unknown[0]}", "is not known; a task has entrypoint and args")
        if "entrypoint" not in task:
            raise _bad_field("task.entrypoint", "is required")
        return {"entrypoint": task["entrypoint"], "args": _list(task.get("args", []))}
    raise _bad_field("task", f"must be a svc.Task or a dict, not {type(task).__name__}")


def _list(args: Any) -> Any:
    return list(args) if isinstance(args, (list, tuple)) else args


def _check_json(spec: Mapping[str, Any]) -> None:
    for name, value in spec.items():

        def refuse(part: object, name: str = name) -> None:
            raise _bad_field(name, f"must consist of text, numbers, lists and dicts, but contains a {type(part).__name__}")

        try:
            json.dumps(value, allow_nan=False, default=refuse)
        except (TypeError, ValueError, RecursionError) as error:
            why = "must be finite: NaN and infinities cannot be sent" if "Out of range float" in str(error) else f"cannot be sent: {error}"
            raise _bad_field(name, why) from error


def _bad_field(field: str, message: str) -> ConfigError:
    return ConfigError("invalid_request", f"{field} {message}.", "Nothing was started or changed.", [(field, message)])


def quoted(job_id: str) -> str:
    """The id for a path of the API."""
    return quote(_checked_id(job_id), safe="")


def _checked_id(job_id: str) -> str:
    if isinstance(job_id, Job):
        raise _bad_field("job_id", f'must be the id of a job, not the Job: "{job_id.id}", as job.id is')
    if not isinstance(job_id, str) or not job_id:
        raise _bad_field("job_id", "must be the id of a job, as job.id is")
    return job_id


def _text(line: bytes | bytearray) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def _state_of(partial: bytearray) -> str:
    """The current state of an unfinished line that is being overwritten; empty for other lines."""
    tail = partial[-STATE_BYTES_MAX:]
    if b"\r" not in tail and b"\b" not in tail:
        return ""
    parts = re.split(r"[\r\b]+", tail.decode("utf-8", "replace"))
    return next((part for part in reversed(parts) if part), "")
