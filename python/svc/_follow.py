"""Following a run: waiting for its end, and reading its log as it arrives.

C3. ``stream`` counts the bytes it has read and resumes from there after a lost connection: no line lost, none twice.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from svc import _http
from svc._call import LOST_SECONDS_MAX, POLL_SECONDS, bad_field, call, quoted
from svc._control_plane import PLANES
from svc._errors import SvcError, WaitTimeout, short_traceback
from svc._progress import progress_of, tell_warnings
from svc._providers import THIS_COMPUTER
from svc._records import Job, LogStream

__all__ = ["stream", "wait"]

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

STREAM_IDLE_SECONDS = 60.0
LINE_BYTES_MAX = 1024 * 1024
# Minimum time between two states of an unfinished line, and the maximum length of such a line.
STATE_SECONDS = 0.5
STATE_BYTES_MAX = 4096


@short_traceback
def wait(job_id: str, timeout: float | None = None) -> Job:
    """Block until the job has ended and its machines are confirmed gone, and return its last record.

    :param timeout: seconds; after that ``WaitTimeout`` (also a ``TimeoutError``) is raised and the job continues.

    Raises ``JobNotFound``, and ``SvcError`` when no control plane answers for a minute. Ctrl-C that the caller
    catches only ends the waiting, and prints when the run ends.
    """
    return wait_for(job_id, timeout)


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
    return _Lines(job_id, shows_states=not now.done, is_free=_is_free(now))


def _is_free(run: Job) -> bool:
    """Whether it runs on this computer itself."""
    return run.provider == THIS_COMPUTER


def driven(job_id: str) -> Job:
    """Like ``job``, for a job that a caller waits for: a control plane must be running, so that it makes progress."""
    return Job.from_record(call("GET", f"/jobs/{quoted(job_id)}"))


def timeline_of(job_id: str) -> Any:
    return call("GET", f"/jobs/{quoted(job_id)}/timeline")


def wait_for(job_id: str, timeout: float | None) -> Job:
    deadline = deadline_of(timeout)
    pause, pause_max = POLL_SECONDS
    progress = progress_of(timeline_of)
    with _TellingOnInterrupt(job_id) as telling, contextlib.closing(progress):
        while True:
            now = driven(job_id)
            telling.is_free = _is_free(now)
            progress.saw(now)
            if now.done:
                tell_warnings(job_id, timeline_of)
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
        raise bad_field("timeout", "must be a number of seconds, or None to wait without limit")
    return time.monotonic() + seconds


def wait_timeout(last: Job, timeout: float | None) -> WaitTimeout:
    """The error for a job that did not end in time."""
    return WaitTimeout(
        "wait_timeout",
        f"Run {last.id} is still {last.status} after {timeout:g} s.",
        f"The run continues{_money(_is_free(last))}: wait again, or end it with svc.kill.",
    )


class _TellingOnInterrupt:
    """Ctrl-C during the iteration ends only the iteration: prints what ends the run. Where the script does not catch it, these words
    stand in the place of a traceback, and the program ends as by SIGINT, which a shell shows as 130."""

    def __init__(self, job_id: str, is_free: bool = False) -> None:
        self._job_id = job_id
        self.is_free = is_free

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if not isinstance(error, KeyboardInterrupt):
            return
        tell_interrupted(f"stopped watching run {self._job_id}, which", f"svc kill {self._job_id}", self.is_free)
        setattr(error, _TOLD, True)
        if sys.excepthook is sys.__excepthook__ and os.environ.get("SVC_DEBUG") != "1":
            sys.excepthook = _without_told


# Marks an interrupt about which the user was told.
_TOLD = "_svc_told"


def _without_told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not hasattr(error, _TOLD):
        sys.__excepthook__(kind, error, trace)


def _money(is_free: bool) -> str:
    return " on this computer and costs nothing" if is_free else ", and its machine may cost money"


def tell_interrupted(what: str, command: str, is_free: bool = False) -> None:
    if PLANES.keeps_one():
        when = "ends when the last program that uses its control plane ends, such as this one"
    else:
        when = f"continues{_money(is_free)}"
    if sys.stderr is not None:
        print(f"svc: {what} {when}; `{command}` ends it now", file=sys.stderr, flush=True)


class _Lines(LogStream):
    def __init__(self, job_id: str, shows_states: bool, is_free: bool) -> None:
        self._job_id = job_id
        self._is_free = is_free
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
            with _TellingOnInterrupt(self._job_id, self._is_free):
                try:
                    self._fill(left)
                except KeyboardInterrupt as interrupt:
                    # Bytes that were read but not returned are requested again if the caller continues.
                    self._drop_source()
                    raise interrupt.with_traceback(None) from None
        return self._ready.popleft()

    def _hand_out_state(self) -> None:
        self._state_due_at = None
        state = _state_of(self._partial)
        if state:
            self._ready.append(state + "\r")

    def _fill(self, seconds: float | None) -> None:
        """Reads once, waiting for at most ``seconds``; at the end of the job returns the rest."""
        try:
            source = self._source  # which another thread may close, and take away, at any time
            if source is None:
                source = self._source = self._open(follow=not self._over)
                if self._closed:  # by another thread, which did not see this connection
                    self._drop_source()
                    return
            source.patience(STREAM_IDLE_SECONDS if seconds is None else seconds)
            chunk = source.read()
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
                time.sleep(POLL_SECONDS[0])
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
        time.sleep(POLL_SECONDS[0])


def _text(line: bytes | bytearray) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def _state_of(partial: bytearray) -> str:
    """The current state of an unfinished line that is being overwritten; empty for other lines."""
    tail = partial[-STATE_BYTES_MAX:]
    if b"\r" not in tail and b"\b" not in tail:
        return ""
    parts = re.split(r"[\r\b]+", tail.decode("utf-8", "replace"))
    return next((part for part in reversed(parts) if part), "")
