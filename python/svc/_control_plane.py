"""Finds the control plane of this home, or starts one that runs as long as a caller holds it.

P1. A control plane is ours when ``control-plane.json`` of a home owned by this user names it, that very process is
    alive, and its health answer contains the same installation id. Anything else on that port is left alone, and
    never receives the token.
P2. Each process that uses it holds it (``_hold.py``), and a control plane that this process started also reads from
    a pipe of this process. When this process ends, for any reason, both are closed. Without holders, the control
    plane shuts down gracefully: it releases its machines.
P3. It has its own session, so a Ctrl-C in the terminal reaches only this process, which shuts it down gracefully.
P4. A forked child of this process neither holds nor ends the control plane, unless it makes a call itself.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from svc import _http, _launcher
from svc._errors import ConfigError, SvcError, make_error
from svc._hold import Hold
from svc._http import home
from svc._providers import RENTED, THIS_COMPUTER
from svc._records import TERMINAL_STATUSES

START_SECONDS_MAX = 60.0
WINNER_SECONDS_MAX = 20.0
START_AGAIN_SECONDS = 2.0
END_SECONDS_MAX = 120.0
# From the last output of the control plane to the end of its process.
LAST_SECONDS_MAX = 20.0
HEALTH_SECONDS_MAX = 10.0

# The jobs that this process started: at the end it prints what happens to them.
STARTED: set[str] = set()


class _Owned:
    """A control plane that this process started."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log


class ControlPlanes:
    """Knows one control plane per home. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ports: dict[Path, int] = {}
        self._owned: dict[Path, _Owned] = {}
        self._holds: dict[Path, Hold] = {}
        self._leaving = False

    def port(self) -> int:
        """The port of this home's control plane; starts one if none runs."""
        at = home()
        if self._leaving:
            raise SvcError("shutting_down", "This program is shutting down.", "Nothing was started.")
        with self._lock:
            known = self._ports.get(at)
            hold = self._holds.get(at)
            if known is not None and not (hold is not None and hold.is_over()):
                return known
            self._ports[at] = self._held(at)
            return self._ports[at]

    def is_there(self) -> bool:
        """Whether this home has a control plane now, ours or another's."""
        at = home()
        _refuse_home_of_others(at)
        with self._lock:
            known = at in self._ports or at in self._holds
        return known or find(at) is not None

    def forget(self, port: int) -> None:
        """The control plane at ``port`` does not answer: search again next time. The hold stays until then, because
        a slow control plane would end without it."""
        with self._lock:
            for at in [at for at, known in self._ports.items() if known == port]:
                del self._ports[at]

    def keeps_one(self) -> bool:
        """Whether the control plane of the current home ends without holders, and this process holds it."""
        with self._lock:
            hold = self._holds.get(home())
            return hold is not None and hold.ends_with_holders

    def _held(self, at: Path) -> int:
        """The port of a control plane that this process now holds. Waits for an ending control plane, and then
        replaces it."""
        _refuse_home_of_others(at)
        before = self._holds.get(at)
        deadline = time.monotonic() + END_SECONDS_MAX
        while True:
            port = find(at)
            if port is None:
                port = self._start(at)
            try:
                self._holds[at] = Hold(port)
                if before is not None:
                    before.close()
                return port
            except SvcError as error:
                if error.code not in ("shutting_down", "unreachable") or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _start(self, at: Path, deadline: float | None = None) -> int:
        deadline = deadline or time.monotonic() + WINNER_SECONDS_MAX
        old = self._owned.pop(at, None)
        if old is not None:
            _close_pipe(old.process)
            _reap(old.process)
        program = find_cli()
        command = [*program, "serve", "--port", "0", "--until-eof", "--json"]
        log = _make_log(at)
        with open(log, "ab") as errors:
            said_from = errors.tell()
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=at,
                    env={**_launcher.extras_for(program), **os.environ, "SVC_HOME": str(at)},
                    start_new_session=True,
                )
            except OSError as error:
                raise _start_failed(f"{command[0]}: {error.strerror}") from error
        # Known before its first line: a child that another thread forks meanwhile must not hold the pipe (P4).
        self._owned[at] = _Owned(process, log)
        try:
            first = _first_line(process, START_SECONDS_MAX)
        except BaseException:
            self._owned.pop(at, None)
            _close_pipe(process)
            raise
        said = as_object(first)
        port = _http.port_of(said.get("url"))
        if port is not None:
            return port
        self._owned.pop(at, None)
        _close_pipe(process)
        _reap(process)
        failure = said.get("error") or error_in(_read_from(log, said_from))
        return self._instead(at, failure, log, deadline)

    def _instead(self, at: Path, failure: Any, log: Path, deadline: float) -> int:
        """Our control plane did not start. If another one was faster, use that one; if one was just ending, start
        ours again."""
        code = failure.get("code") if isinstance(failure, dict) else None
        if code == "home_locked":
            again = time.monotonic() + START_AGAIN_SECONDS
            while time.monotonic() < deadline:
                found = find(at)
                if found is not None:
                    return found
                if time.monotonic() > again:
                    return self._start(at, deadline)
                time.sleep(0.05)
        if isinstance(failure, dict) and code:
            raise make_error(str(code), str(failure.get("message", "")), str(failure.get("hint", "")))
        raise _start_failed(str(failure) if failure else f"it exited without a message; see {log}")

    def end(self, announce: bool = True) -> None:
        """Releases every control plane that this process uses. If that ends one, waits for it (bounded)."""
        with self._lock:
            holds, owned = dict(self._holds), dict(self._owned)
            self._holds.clear()
            self._owned.clear()
            self._ports.clear()
        for at in {**owned, **holds}:
            _let_go(holds.get(at), owned.get(at), announce)

    def leave(self) -> None:
        """Like ``end``, in a process that then ends: a thread that still makes a call must not start another
        control plane."""
        self._leaving = True
        self.end()

    def after_fork(self) -> None:
        """In a forked child: drop the parent's holds (P4)."""
        owned, self._owned = self._owned, {}
        holds, self._holds = self._holds, {}
        self._ports = {}
        self._lock = threading.RLock()
        for hold in holds.values():
            hold.abandon()
        for entry in owned.values():
            if entry.process.stdin is not None:
                try:
                    os.close(entry.process.stdin.fileno())
                except (OSError, ValueError):  # closed already
                    pass


PLANES = ControlPlanes()
atexit.register(PLANES.leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PLANES.after_fork)


def find(at: Path) -> int | None:
    """The port of the control plane that runs for the home ``at``, or None (P1)."""
    try:
        entry = as_object(_own_bytes(at / "control-plane.json"))
    except OSError:
        return None
    port, pid, installation = _http.port_of(entry.get("url")), entry.get("pid"), entry.get("installation_id")
    if port is None or not isinstance(pid, int) or not _alive(pid, entry.get("pid_start")) or not installation:
        return None
    try:
        health = _http.call(port, "GET", "/v1/health", seconds=HEALTH_SECONDS_MAX)
    except SvcError:
        return None
    return port if isinstance(health, dict) and health.get("installation_id") == installation else None


def _own_bytes(file: Path) -> bytes:
    """The content of a file that this user wrote. Raises ``OSError`` for a link, or a file of another user."""
    fd = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(fd, "rb") as opened:
        if hasattr(os, "geteuid") and os.fstat(fd).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", str(file))
        return opened.read()


def find_cli() -> list[str]:
    """The command that starts ``svc``: ``SVC_BIN``, else the one next to this package, else the one on the PATH."""
    named = os.environ.get("SVC_BIN")
    if named:
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise _start_failed(f"SVC_BIN is set to {path}, which is not a file")
        return [str(path)]
    try:
        beside = _launcher.command()
    except _launcher.CannotStart as error:
        raise SvcError("start_failed", f"The control plane could not start: {error.problem}", error.remedy) from error
    if beside is not None:
        return beside
    on_path = shutil.which("svc")
    if on_path:
        return [os.path.abspath(on_path)]
    raise _start_failed("the command `svc` was not found next to the package or on the PATH (set SVC_BIN to its path)")


def _start_failed(why: str) -> SvcError:
    return SvcError(
        "start_failed",
        f"The control plane could not start: {why}.",
        "Run `svc doctor`: it lists what is missing on this computer.",
    )


def _unusable(at: Path, why: object) -> ConfigError:
    return ConfigError(
        "home_unusable",
        f"The home {at} cannot be used: {why}.",
        "Nothing was changed. Machines of this home may still cost money. If the home is yours, mend what the message names: remove a "
        "file of another user or take it over with `chown`, and close the home to others (`chmod 700`). Otherwise set SVC_HOME to a "
        "folder that you own and can write to.",
    )


def _refuse_home_of_others(at: Path) -> None:
    """Raises ``ConfigError`` if another user could have put files there that svc would trust or write through."""
    try:
        found = at.stat()
    except OSError:  # it will be created, or reported when it is opened
        return
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise _unusable(at, "it belongs to another user")
    if os.name == "posix" and found.st_mode & 0o002:
        raise _unusable(at, "every user of this computer can write to it")


def _make_log(at: Path) -> Path:
    log = at / "control-plane.log"
    try:
        at.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_home_of_others(at)
        os.close(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600))
        os.chmod(log, 0o600)
    except OSError as error:
        raise _unusable(at, error.strerror) from error
    return log


def _first_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """The first line of its output, empty when it ended before. The rest is read and dropped, so that the process
    never blocks."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as output:
            lines.put(output.readline())
            while os.read(output.fileno(), 65_536):
                pass

    threading.Thread(target=read, name="svc-control-plane-output", daemon=True).start()
    try:
        return lines.get(timeout=seconds)
    except queue.Empty:
        raise _start_failed(f"it printed nothing for {seconds:g} s") from None


def _let_go(hold: Hold | None, owned: _Owned | None, announce: bool) -> None:
    """Releases one control plane for this process."""
    if owned is not None and owned.process.poll() is not None:
        _close_pipe(owned.process)
        owned = None
    if hold is not None and not hold.ends_with_holders:
        hold.close()
        hold = None
    runs, paid, grace = _live_runs(hold.port) if hold is not None else ([], False, 0.0)
    if not announce:
        runs = []
    released = hold.release(owned is not None) if hold is not None else None
    if owned is not None:
        _close_pipe(owned.process)
    if released is not None and not released.ending:
        kept = [run for run in runs if run in STARTED]
        if kept:
            _tell(
                f"svc: {_counted(kept)} may continue{' and cost money' if paid else ''}: other programs use the control plane, which "
                f"ends with the last of them. `svc kill` ends a run now."
            )
    elif owned is not None or released is not None:
        if runs:
            rented = " and releasing the machines" if paid else ""
            _tell(f"svc: ending {_counted(runs)}{rented}; press Ctrl-C to stop waiting")
        _wait_for_end(hold, owned, bool(runs), paid, END_SECONDS_MAX + grace)
    elif runs:
        _tell(
            f"svc: the control plane no longer answers. {_counted(runs)} may continue{' and cost money' if paid else ''}: `svc serve` "
            f"follows them again, and `svc reconcile` ends what nothing needs."
        )
    if hold is not None:
        hold.close()


def _wait_for_end(hold: Hold | None, owned: _Owned | None, tell: bool, paid: bool, seconds: float) -> None:
    log = owned.log if owned is not None else home() / "control-plane.log"
    try:
        said = hold.farewell(seconds) if hold is not None else {}
        if owned is not None:
            owned.process.wait(seconds if hold is None else LAST_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        said = None
    except KeyboardInterrupt:
        _tell(f"svc: not waiting; the control plane keeps shutting down by itself. `svc jobs` lists the unfinished runs; see {log}")
        raise
    if said is None:
        money = ", and machines may cost money until then" if paid else ""
        _tell(f"svc: the control plane is still shutting down by itself{money}; see {log}")
    elif said.get("unfinished"):
        left = ", ".join(said["unfinished"])
        money = "A machine may still cost money; " if paid else ""
        _tell(f"svc: not ended: {left}. {money}`svc reconcile` finishes the job; see {log}")
    elif tell and "unfinished" in said:
        _tell("svc: everything has ended" + ("; no machine of these runs costs money any more" if paid else ""))


def _live_runs(port: int) -> tuple[list[str], bool, float]:
    """The runs that end with the control plane, whether a machine of theirs was rented, and the longest time that
    one of them has from TERM to KILL; empty if it does not answer."""
    try:
        page = _http.call(port, "GET", "/jobs?limit=500", seconds=5.0)
        live = [
            job for job in page["jobs"] if job["status"] not in TERMINAL_STATUSES and job.get("spec", {}).get("terminate_on_exit", True)
        ]
        grace = max((float(job["spec"].get("stop_grace_seconds") or 0) for job in live), default=0.0)
        return [str(job["id"]) for job in live], any(job.get("provider", THIS_COMPUTER) in RENTED for job in live), grace
    except (SvcError, KeyError, TypeError, ValueError):
        return [], False, 0.0


def _counted(runs: list[str]) -> str:
    more = ", …" if len(runs) > 5 else ""
    return f"run {runs[0]}" if len(runs) == 1 else f"{len(runs)} runs ({', '.join(runs[:5])}{more})"


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:  # it ended first
            pass


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Collects the exit status of a process that is ending, unless that takes long."""
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        pass


def _tell(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def _alive(pid: int, start: object) -> bool:
    """Whether a process of this user has that number, and began at ``start`` (clock ticks since boot) if that is
    known: numbers are reused."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):  # gone, another user's, or no number of a process
        return False
    now = _started(pid)
    return not start or now is None or now == start


def _started(pid: int) -> int | None:
    """Field 22 of ``/proc/PID/stat``; None if it is unreadable."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
        # The name in parentheses may hold blanks.
        return int(stat.rsplit(")", 1)[1].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def as_object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _read_from(path: Path, offset: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(1_000_000)
    except OSError:
        return b""


def error_in(said: bytes) -> Any:
    """The error object among the lines, else the last line as text."""
    lines = [line for line in said.splitlines() if line.strip()]
    for line in reversed(lines):
        error = as_object(line).get("error")
        if isinstance(error, dict):
            return error
    return lines[-1].decode("utf-8", "replace").rstrip(".") if lines else None
