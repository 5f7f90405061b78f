"""Starting a run, and planning one. Both send the same spec: paths are the caller's, and None is the control plane's default."""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from svc._call import bad_field, call, check_json, word_list
from svc._control_plane import STARTED
from svc._errors import SvcError, make_error, short_traceback
from svc._follow import tell_interrupted, wait_for
from svc._providers import THIS_COMPUTER
from svc._records import Job, Task

__all__ = ["plan", "run"]

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from svc.aio import RunParameters

# generated: providers
ProviderName = Literal["local", "podhost", "market", "cloudvm", "notebook"]
# end: providers
Launcher = Literal["auto", "single", "torchrun", "ray"]
Health = Literal["quick", "off"]
Choose = Literal["in_order", "cheapest"]
Spot = Literal["never", "prefer", "only"]

_KEY = re.compile(r"[!-~]{1,200}")


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
    :param price_cap: dollars per hour; svc rents nothing more expensive. Not enforced at a provider that reports no price (``cloudvm``).
    :param project_dir: the directory to send to the machine; by default the current directory.
    :param nodes: the number of separate machines.
    :param terminate_on_exit: end the run and release its machine when the control plane ends gracefully; true by default.
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

    Parameters that are None use the control plane's default. Raises an ``SvcError``, such as
    ``ConfigError``, ``UnsupportedError`` or ``CredentialError``, before anything is rented. A failed run does not raise: see
    ``status`` and ``error``, whose code is ``price_cap_exceeded`` if every offer is above ``price_cap``.
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
        raise bad_field("idempotency_key", "must be 1 to 200 visible ASCII characters without spaces")
    body = {"label": label, **({} if tags is None else {"tags": word_list("tags", tags)}), "spec": spec}
    try:
        record = call("POST", "/jobs", body, {"Idempotency-Key": idempotency_key})
    except KeyboardInterrupt:
        # The caller has no id yet.
        tell_interrupted("stopped during the submission of a run: if it was accepted, it", "svc kill last")
        raise
    started = Job.from_record(record)
    STARTED.add(started.id)
    try:
        return wait_for(started.id, None) if wait else started
    except SvcError as error:
        hint = f"The run {started.id} was started, and may continue and cost money: `svc kill {started.id}` ends it. {error.hint}"
        raise make_error(error.code, error.message, hint, error.errors) from error


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
        raise bad_field("project_dir", "must not be empty; leave it out for the current directory")
    try:
        spec["project_dir"] = os.path.abspath(os.path.expanduser(os.fsdecode(spec.get("project_dir", os.curdir))))
    except (TypeError, OSError) as error:
        raise bad_field("project_dir", f"cannot be used: {error}") from error
    check_json(spec)
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


def _task_fields(task: Task | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(task, Task):
        return {"entrypoint": task.entrypoint, "args": _list(task.args)}
    if isinstance(task, Mapping):
        unknown = sorted(set(map(str, task)) - {"entrypoint", "args"})
        if unknown:
            raise bad_field(f"task.{unknown[0]}", "is not known; a task has entrypoint and args")
        if "entrypoint" not in task:
            raise bad_field("task.entrypoint", "is required")
        return {"entrypoint": task["entrypoint"], "args": _list(task.get("args", []))}
    raise bad_field("task", f"must be a svc.Task or a dict, not {type(task).__name__}")


def _list(args: Any) -> Any:
    return list(args) if isinstance(args, (list, tuple)) else args
