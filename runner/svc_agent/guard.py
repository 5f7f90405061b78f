"""Starts the machine's guard and extends its deadline."""

from __future__ import annotations

import os
import time

from .files import first_line, read_bytes, uptime
from .refusal import Refusal
from .run_folder import start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def move_keep(path: str, until: int) -> bool:
    """Moves the deadline (a second of uptime) forward, never back; as the runner does it."""
    text = b"%d\n" % until
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        try:
            old = os.pread(fd, 64, 0).strip()
            if not (old.isdigit() and len(old) <= 9 and int(old) >= until):
                os.pwrite(fd, text, 0)
                os.ftruncate(fd, len(text))
        finally:
            os.close(fd)
        return True
    except OSError:
        return False


def set_limit(path: str, limit: list[float] | None) -> None:
    """Writes the budget's deadlines, in seconds from now; None removes them. In place, as `move_keep`."""
    now = uptime()
    text = b"%d %d\n" % tuple(int(now + max(0.0, float(seconds))) for seconds in limit) if limit else b"- -\n"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        try:
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
        finally:
            os.close(fd)
    except OSError:
        pass  # a guard of an older version has no such file; the deadline before this one stays


def guard_lives(folder: str) -> bool:
    """Whether its shell is running. The pid file is only a hint: on a full disk it is empty."""
    script = (folder + "/guard.sh").encode()

    def is_guard(pid: str) -> bool:
        try:
            words = (read_bytes("/proc/%s/cmdline" % pid) or b"").split(b"\0")
            return script in words[1:3] and start_time(int(pid)) is not None
        except OSError:
            return False

    pid = first_line(folder + "/pid")
    if pid.isdigit() and is_guard(pid):
        return True
    return any(is_guard(name) for name in os.listdir("/proc") if name.isdigit())


def holds(folder: str, ask: dict[str, Any]) -> bool:
    """Whether a running guard supports the request: guards of version 0.1 read no deadlines of a budget."""
    return guard_lives(folder) and (not ask.get("limit") or b'/limit"' in (read_bytes(folder + "/guard.sh") or b""))


def op_keep(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    folder = ask["folder"]
    if "limit" in ask:
        set_limit(folder + "/limit", ask["limit"])
    # The deadline first: a machine that lacks descriptors or memory for the look at its processes must not end for that.
    moved = move_keep(folder + "/keep", int(uptime() + float(ask["grace"])))
    return {"lives": holds(folder, ask), "moved": moved}, b""


def op_guard(ask: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Starts the guard unless a running one supports the request. As root, or by sudo if that needs no password."""
    import subprocess

    folder = ask["folder"]
    if not holds(folder, ask):
        # An older guard ends by itself once the pid file names another one.
        older = first_line(folder + "/pid") if guard_lives(folder) else ""
        argv = ["sh"] if os.geteuid() == 0 else ["sudo", "-n", "sh"]
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", start_new_session=True
            )
            _, err = child.communicate(body, timeout=20)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise Refusal("guard", "`%s` failed: %s" % (" ".join(argv), e)) from e
        end = time.monotonic() + 5
        while not guard_lives(folder) or (older and first_line(folder + "/pid") == older):
            if time.monotonic() > end:
                rows = err.decode("utf-8", "replace").strip().split("\n")
                raise Refusal("guard", rows[-1][-500:] or "it did not start")
            time.sleep(0.01)
    return op_keep(ask)
