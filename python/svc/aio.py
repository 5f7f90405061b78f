"""The functions of ``svc`` for asyncio: same names, same arguments, same errors.

Blocking calls run in a thread; ``wait``, ``run(wait=True)`` and ``stream`` end at once when their task is
cancelled. A cancelled call does not cancel the job: ``svc.aio.kill`` does. The same holds for a Ctrl-C that is
caught around ``asyncio.run``.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar

from svc import _client, _follow, _gpus, _money, _progress, _registry, _retention, _run
from svc import hub as _hub
from svc._costs import CostReport, Limits, Receipt
from svc._gpus import Gpu
from svc._records import CheckpointsRemoved, Job, Placement, ReconcileReport, Task
from svc._retention import Retention

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "archive", "configure", "costs", "job", "jobs", "kill", "limits", "list_gpus", "placements", "plan", "receipt", "reconcile", "remove",
    "remove_checkpoints", "retention", "run", "set_limits", "set_retention", "stream", "unarchive", "update", "vram_for", "wait",
]  # fmt: skip

_END: Any = object()


class RunParameters(TypedDict, total=False):
    """The named arguments of ``run``, except ``wait``: see ``svc.run``."""

    provider: _run.ProviderName
    gpus: str
    label: str | None
    tags: Sequence[str] | None
    min_vram_gb: int | None
    disk_gb: int | None
    region: str | None
    price_cap: float | None
    project_dir: str | os.PathLike[str] | None
    nodes: int | None
    terminate_on_exit: bool | None
    idle_timeout_minutes: float | None
    max_runtime_minutes: float | None
    budget_usd: float | None
    rate_usd_per_hour: float | None
    orphan_grace_minutes: float | None
    stop_grace_seconds: int | None
    keep_checkpoints: Mapping[str, Any] | None
    env: Mapping[str, str] | None
    install: str | None
    python: str | os.PathLike[str] | None
    launcher: _run.Launcher | None
    image: str | None
    data: Sequence[str] | None
    resume_from: str | None
    resume_checkpoint: str | None
    sinks: Sequence[Mapping[str, Any]] | None
    candidates: Sequence[Mapping[str, Any]] | None
    choose: _run.Choose | None
    wait_for_capacity_minutes: int | None
    retry: Mapping[str, Any] | None
    spot: _run.Spot | None
    max_preemptions: int | None
    health: _run.Health | None
    notify: Sequence[str] | None
    idempotency_key: str | None


async def _in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.to_thread(function, *args, **kwargs)


async def configure(registry: Mapping[str, Any] | None = None, use: Sequence[str] | None = None) -> None:
    """See ``svc.configure``."""
    _registry.configure(registry, use)


async def run(task: Task | Mapping[str, Any], *, wait: bool = False, **parameters: Unpack[RunParameters]) -> Job:
    """See ``svc.run``; it accepts the same named arguments."""
    started = await _in_thread(_run.run, task, **parameters)
    return await _wait_for(started.id, None) if wait else started


async def plan(task: Task | Mapping[str, Any], **parameters: Unpack[RunParameters]) -> dict[str, Any]:
    """See ``svc.plan``."""
    return await _in_thread(_run.plan, task, **parameters)


async def placements(job_id: str) -> list[Placement]:
    """See ``svc.placements``."""
    return await _in_thread(_client.placements, job_id)


async def wait(job_id: str, timeout: float | None = None) -> Job:
    """See ``svc.wait``."""
    return await _wait_for(job_id, timeout)


async def _wait_for(job_id: str, timeout: float | None) -> Job:
    deadline = _follow.deadline_of(timeout)
    pause = 0.05
    while True:
        now = await _in_thread(_follow.driven, job_id)
        if now.done:
            await _in_thread(_progress.tell_warnings, job_id, _follow.timeline_of)
            return now
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise _follow.wait_timeout(now, timeout)
        await asyncio.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, 0.5)


async def stream(job_id: str) -> AsyncGenerator[str, None]:
    """See ``svc.stream``: ``async for line in svc.aio.stream(id)``."""
    lines = await _in_thread(_follow.stream, job_id)
    try:
        while True:
            line = await asyncio.to_thread(next, lines, _END)
            if line is _END:
                return
            yield line
    finally:
        lines.close()


async def job(job_id: str) -> Job:
    """See ``svc.job``."""
    return await _in_thread(_client.job, job_id)


async def jobs(
    *,
    status: str | None = None,
    provider: _run.ProviderName | None = None,
    label: str | None = None,
    tags: Sequence[str] | None = None,
    archived: bool = False,
    limit: int = 50,
) -> list[Job]:
    """See ``svc.jobs``."""
    return await _in_thread(_client.jobs, status=status, provider=provider, label=label, tags=tags, archived=archived, limit=limit)


async def update(job_id: str, **change: Unpack[_client.JobChange]) -> Job:
    """See ``svc.update``."""
    return await _in_thread(_client.update, job_id, **change)


async def costs(*, by: _money.CostDimension = "day", since: _money.Day | None = None, until: _money.Day | None = None) -> CostReport:
    """See ``svc.costs``."""
    return await _in_thread(_money.costs, by=by, since=since, until=until)


async def receipt(job_id: str) -> Receipt:
    """See ``svc.receipt``."""
    return await _in_thread(_money.receipt, job_id)


async def limits() -> Limits:
    """See ``svc.limits``."""
    return await _in_thread(_money.limits)


async def set_limits(**change: Unpack[_money.LimitsChange]) -> Limits:
    """See ``svc.set_limits``."""
    return await _in_thread(_money.set_limits, **change)


async def archive(job_id: str) -> Job:
    """See ``svc.archive``."""
    return await _in_thread(_retention.archive, job_id)


async def unarchive(job_id: str) -> Job:
    """See ``svc.unarchive``."""
    return await _in_thread(_retention.unarchive, job_id)


async def retention() -> Retention:
    """See ``svc.retention``."""
    return await _in_thread(_retention.retention)


async def set_retention(older_than: str | None, *, keep_best: str | None = None, keep_newest: int | None = None) -> Retention:
    """See ``svc.set_retention``."""
    return await _in_thread(_retention.set_retention, older_than, keep_best=keep_best, keep_newest=keep_newest)


async def kill(job_id: str) -> Job:
    """See ``svc.kill``."""
    return await _in_thread(_client.kill, job_id)


async def remove(job_id: str) -> int:
    """See ``svc.remove``."""
    return await _in_thread(_client.remove, job_id)


async def remove_checkpoints(job_id: str, names: Sequence[str], dry_run: bool = False) -> CheckpointsRemoved:
    """See ``svc.remove_checkpoints``."""
    return await _in_thread(_client.remove_checkpoints, job_id, names, dry_run)


async def reconcile(dry_run: bool = False, gone: str | None = None) -> ReconcileReport:
    """See ``svc.reconcile``."""
    return await _in_thread(_client.reconcile, dry_run, gone)


async def list_gpus(provider: str | None = None) -> list[Gpu]:
    """See ``svc.list_gpus``."""
    return _gpus.list_gpus(provider)


async def vram_for(model: str) -> int:
    """See ``svc.vram_for``."""
    return _gpus.vram_for(model)


class hub:  # noqa: N801  stands for the module of that name
    """The functions of ``svc.hub``: ``await svc.aio.hub.pull(...)``. A cancelled call does not cancel the pull."""

    @staticmethod
    async def pull(
        model_id: str,
        *,
        revision: str | None = None,
        local_dir: str | os.PathLike[str] | None = None,
        allow_patterns: Sequence[str] | str | None = None,
        token: str | None = None,
    ) -> str:
        """See ``svc.hub.pull``."""
        return await _in_thread(_hub.pull, model_id, revision=revision, local_dir=local_dir, allow_patterns=allow_patterns, token=token)

    @staticmethod
    async def from_local(path: str | os.PathLike[str]) -> str:
        """See ``svc.hub.from_local``."""
        return await _in_thread(_hub.from_local, path)

    @staticmethod
    async def models() -> list[_hub.Model]:
        """See ``svc.hub.models``."""
        return await _in_thread(_hub.models)

    @staticmethod
    async def remove(model_id: str) -> list[str]:
        """See ``svc.hub.remove``."""
        return await _in_thread(_hub.remove, model_id)
