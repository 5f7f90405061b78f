"""Shows progress while a call waits for a run: a line per step on a terminal, a small table in a notebook, nothing
elsewhere.

G1. A pipe or a file gets nothing but warnings of what is lost, and ``SVC_PROGRESS=0`` nothing at all: the output
    belongs to the script.
G2. Text from a machine loses their control characters first: a log must not steer the terminal.
G3. Showing never fails a run: output that fails is skipped.
"""

from __future__ import annotations

import html
import importlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

from svc._errors import SvcError, plain
from svc._records import Job, cost_beside, dollars

# How often a line is redrawn, and how often the steps are requested.
_DRAW_SECONDS = 0.2
_ASK_SECONDS = 2.0
_CLEAR = "\r\x1b[K"


_WARNING_MAX = 2000


class Progress(Protocol):
    """Receives each record that a waiting call reads. ``close`` leaves the terminal in a clean state, however the
    wait ended."""

    def saw(self, job: Job) -> None: ...
    def close(self) -> None: ...


def progress_of(timeline: Callable[[str], Any]) -> Progress:
    """The kind of progress that fits the output.

    :param timeline: returns the steps of a job; called only if progress is shown.
    """
    if _is_off():
        return _Quiet()
    display = notebook_display()
    if display is not None:
        return _Notebook(display, _Steps(timeline))
    if sys.stderr is not None and sys.stderr.isatty():
        return _Terminal(sys.stderr, _Steps(timeline))
    return _Quiet()


def tell_warnings(job_id: str, timeline: Callable[[str], Any]) -> None:
    """Prints the warnings about files that are lost with the machines of a run on stderr."""
    if _is_off() or sys.stderr is None:
        return
    try:
        for words in _warnings_in(timeline(job_id)["steps"]):
            print(f"svc: {job_id}: {plain(words)[:_WARNING_MAX]}", file=sys.stderr, flush=True)
    except (SvcError, TypeError, KeyError, AttributeError, OSError, ValueError):  # G3
        pass


def _warnings_in(steps: list[Mapping[str, Any]]) -> list[str]:
    several = any(step["node"] > 0 for step in steps)
    told: dict[str, None] = {}
    for step in steps:
        if step["step"] == "collect":
            for words in (step["detail"] or {}).get("warnings") or ():
                told[f"Node {step['node']}: {words}" if several else str(words)] = None
    return list(told)


def _is_off() -> bool:
    return os.environ.get("SVC_PROGRESS", "").lower() in ("0", "off", "no", "false")


class _Quiet:
    def saw(self, job: Job) -> None:
        pass

    def close(self) -> None:
        pass


class _Steps:
    """The activity that the running step reports, requested now and then."""

    def __init__(self, timeline: Callable[[str], Any]) -> None:
        self._timeline = timeline
        self._words = ""
        self._status = ""
        self._next = 0.0

    def words(self, job: Job) -> str:
        now = time.monotonic()
        if job.status != self._status or now >= self._next:
            self._status, self._next = job.status, now + _ASK_SECONDS
            try:
                self._words = _plain(job.note.message if job.note else _doing(self._timeline(job.id)))
            except (SvcError, TypeError, KeyError, AttributeError):
                self._words = ""
        return self._words


def _doing(timeline: Any) -> str:
    """The activity of the newest attempt that has not ended, or why it is being retried."""
    steps = [step for step in timeline["steps"] if step["status"] in ("running", "retrying")]
    if not steps:
        return ""
    step: Mapping[str, Any] = steps[-1]
    if step["status"] == "retrying" and step["error"]:
        return f"retrying: {step['error']['message']}"
    detail = step["detail"] or {}
    words = str(detail.get("doing", ""))
    if detail.get("files_total"):
        words += f": {detail.get('files', 0)} of {detail['files_total']} files"
    elif detail.get("bytes_total"):
        words += f": {detail.get('bytes', 0) / 1e6:.1f} of {detail['bytes_total'] / 1e6:.1f} MB"
    return words if step["attempt"] == 1 or not words else f"{words} (attempt {step['attempt']})"


class _Terminal:
    """One line for each status; the last one is redrawn while it lasts."""

    def __init__(self, out: TextIO, steps: _Steps) -> None:
        self._out = out
        self._steps = steps
        self._moving = os.environ.get("TERM", "") not in ("", "dumb")
        self._status = ""
        self._since = self._began = time.monotonic()
        self._drawn_at = 0.0
        self._open = False

    def saw(self, job: Job) -> None:
        now = time.monotonic()
        if job.status != self._status:
            self.close()
            self._status, self._since, self._drawn_at = job.status, now, 0.0
            if job.done:
                self._write(_summary(job, now - self._began) + "\n")
                return
            if not self._moving:
                self._write(f"svc: {job.id} {job.status}\n")
        if job.done or not self._moving or now - self._drawn_at < _DRAW_SECONDS:
            return
        self._drawn_at = now
        line = f"svc: {job.id} {job.status:<13} {_span(now - self._since):>9}"
        line += "".join(f"  {part}" for part in (_rate(job), self._steps.words(job)) if part)
        width = max(20, shutil.get_terminal_size().columns - 1)
        self._open = True
        self._write(_CLEAR + line[:width])

    def close(self) -> None:
        if self._open:
            self._open = False
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):  # closed, or gone
            self._moving = False


class _Notebook:
    """One display that is updated in place."""

    def __init__(self, display: Callable[..., Any], steps: _Steps) -> None:
        self._display = display
        self._steps = steps
        self._handle: Any = None
        self._shown = ""
        self._began = time.monotonic()
        self._drawn_at = 0.0

    def saw(self, job: Job) -> None:
        now = time.monotonic()
        if not job.done and now - self._drawn_at < 1.0:
            return
        self._drawn_at = now
        if job.done:
            text = _summary(job, now - self._began)
        else:
            parts = (f"svc: {job.id}", job.status, _span(now - self._began), _rate(job), self._steps.words(job))
            text = " · ".join(part for part in parts if part)
        self._show(text)

    def close(self) -> None:
        pass

    def _show(self, text: str) -> None:
        if text == self._shown:
            return
        self._shown = text
        data = {"text/plain": text, "text/html": f"<code>{html.escape(text)}</code>"}
        try:
            if self._handle is None:
                self._handle = self._display(data, raw=True, display_id=True)
            else:
                self._handle.update(data, raw=True)
        except Exception:  # G3: any failure of a front end
            pass


def notebook_display() -> Callable[..., Any] | None:
    """IPython's ``display`` if this code runs in a notebook kernel; IPython is never imported for that."""
    if "ipykernel" not in sys.modules:
        return None
    try:
        shell = sys.modules["IPython"].get_ipython()
        if not hasattr(shell, "kernel"):
            return None
        found: Callable[..., Any] = importlib.import_module("IPython.display").display
        return found
    except (ImportError, KeyError, AttributeError):
        return None


def _summary(job: Job, seconds: float) -> str:
    words = f"svc: {job.id} {job.status} after {_span(seconds)}"
    if job.exit_code is not None:
        words += f", exit code {job.exit_code}"
    cost = cost_beside(job)
    if cost:
        words += f", {cost}"
    return words + (f": {_plain(job.error.message)}" if job.error else "")


def _rate(job: Job) -> str:
    return f"{dollars(job.price_per_hour_usd)}/h" if job.price_per_hour_usd else ""


def _span(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def _plain(words: str) -> str:
    return plain(words)[:500]
