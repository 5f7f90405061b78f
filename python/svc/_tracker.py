"""The training script's end of the connection to the tracker. The other end is ``_tracker_child``, a separate
process.

T1. Training comes first: nothing here raises, waits or uses unbounded memory. Records that do not fit into the pipe
    at once are missing at the tracker (never in svc), counted, and reported once.
T2. One process of a run forwards: rank 0 of node 0, and none of its descendants.
T3. If a script has its own run at the tracker, svc does not write to it: two writers with separate counters would
    lose data.
T4. At its end the process waits for records in transit, but only for a limited time
    (``SVC_TRACKER_FINISH_SECONDS``, 20).
T5. The run at the tracker ends with the script's exit code. The interpreter keeps an exception that ended the script, but
    no code, so from the first record on ``sys.exit``, ``exit`` and ``quit`` note theirs. ``raise SystemExit(3)`` leaves no
    trace, and counts as 0.

Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import os
import subprocess
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which older versions of fcntl do not name
_FINISH_SECONDS = 20.0
_TAKEN = "SVC_TRACKER_FORWARDER"


def wanted() -> bool:
    """Whether this process forwards, and a tracker is configured."""
    env = os.environ
    mode = env.get("WANDB_MODE", "").strip().lower()
    if mode in ("disabled", "dryrun") or env.get(_TAKEN):
        return False
    if env.get("SVC_NODE_RANK", "0").strip() not in ("", "0"):
        return False
    return bool(env.get("TRACKER_API_KEY", "").strip()) or mode == "offline"


def start(say: Callable[[str], None]) -> Callable[[bytes], None] | None:
    """Start the forwarding; the returned function takes one record's line. None if forwarding is not wanted."""
    if not wanted():
        return None
    if _own_run():
        say("svc.log: this script has its own run at the tracker, so svc.log does not forward to it")
        return None
    try:
        return _Forwarder(say).put
    except Exception as error:  # T1
        say(f"svc.log: metrics do not go to the tracker: its process cannot be started ({error})")
        return None


def _own_run() -> bool:
    tracker = sys.modules.get("wandb")
    return tracker is not None and getattr(tracker, "run", None) is not None


class _Forwarder:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._pid = os.getpid()
        self._dropped = 0
        self._exit_code = 0
        child = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_tracker_child.py")
        # Set before the start, so that the child has it too: its own children must not forward either.
        os.environ[_TAKEN] = str(self._pid)
        self._child = subprocess.Popen([sys.executable or "python3", "-u", child], stdin=subprocess.PIPE)
        assert self._child.stdin is not None
        self._fd = self._child.stdin.fileno()
        os.set_blocking(self._fd, False)
        try:
            import fcntl

            fcntl.fcntl(self._fd, _SET_PIPE_SIZE, _PIPE_BYTES)
        except (ImportError, OSError):  # smaller, then
            pass
        for holder, name in ((sys, "exit"), (builtins, "exit"), (builtins, "quit")):
            plain = getattr(holder, name, None)
            if plain is not None:  # without the module `site` there are two fewer
                setattr(holder, name, self._noting(plain))
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        """In a forked child, such as a worker of a data loader: with its copy of the pipe, the pipe would not end with the script."""
        self._fd = -1
        try:
            if self._child.stdin is not None:
                self._child.stdin.close()
        except OSError:
            pass

    def _noting(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """T5. The same function, which also notes the exit code. In another thread it only ends that thread."""

        @functools.wraps(plain)
        def exit_noted(*given: Any, **named: Any) -> Any:
            try:
                return plain(*given, **named)
            except SystemExit as error:
                if threading.current_thread() is threading.main_thread():
                    self._exit_code = _as_exit_code(error.code)
                raise

        return exit_noted

    def _forget_caught_exit(self) -> None:
        """A script that logs after its exit has caught it, unless it logs on the way out: in a ``finally`` or by ``atexit``."""
        main = threading.main_thread()
        if main.is_alive() and threading.current_thread() is main and sys.exc_info()[1] is None:
            self._exit_code = 0

    def put(self, line: bytes) -> None:
        """One record, of at most PIPE_BUF bytes: a pipe accepts all of it or nothing."""
        if self._fd < 0:
            return
        if self._exit_code:
            self._forget_caught_exit()
        if _own_run():
            self._say("svc.log: the script started its own run at the tracker, so svc.log no longer forwards to it")
            self._close(b'{"k":"end","code":0}\n')
            return
        try:
            os.write(self._fd, line)
        except BlockingIOError:
            self._dropped += 1
            if self._dropped == 1:
                self._say("svc.log: the tracker is too slow and misses some records; svc keeps them all")
        except OSError:  # it has ended, and reported why
            self._fd = -1

    def end(self) -> None:
        """Called at the end of the process."""
        if self._fd < 0 or os.getpid() != self._pid:
            return
        code = 1 if getattr(sys, "last_type", None) is not None else self._exit_code
        if self._dropped:
            self._say(f"svc.log: {self._dropped} record(s) did not go to the tracker; svc keeps them")
        self._close(f'{{"k":"end","code":{code}}}\n'.encode())
        seconds = _seconds()
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self._say(f"svc.log: the tracker did not accept everything within {seconds:g} s; svc has all of it")

    def _close(self, last: bytes) -> None:
        """Sends the end record, waiting a moment for room; the end of the pipe means the same, less exactly."""
        fd, self._fd = self._fd, -1
        deadline = time.monotonic() + 1.0
        while True:
            try:
                os.write(fd, last)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
            except OSError:  # it has ended
                pass
            break
        try:
            if self._child.stdin is not None:
                self._child.stdin.close()
        except OSError:
            pass


def _as_exit_code(code: Any) -> int:
    """What the system sees: text is printed and means 1."""
    return code & 0xFF if isinstance(code, int) else 0 if code is None else 1


def _seconds() -> float:
    try:
        return min(3600.0, max(0.0, float(os.environ.get("SVC_TRACKER_FINISH_SECONDS", _FINISH_SECONDS))))
    except ValueError:
        return _FINISH_SECONDS
