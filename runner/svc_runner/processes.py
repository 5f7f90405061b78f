"""Looks at processes and signals them, each by number and start time (R4)."""

from __future__ import annotations

import errno
import os

from .files import read_file
from .system import LINUX, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Process:
    __slots__ = ("cpu", "group", "pid", "ppid", "start", "state")

    def __init__(self, pid: int, ppid: int, group: int, state: bytes, start: int, cpu: int) -> None:
        self.pid, self.ppid, self.group, self.state, self.start, self.cpu = pid, ppid, group, state, start, cpu


def process(pid: int) -> Process | None:
    """One process, or None. `cpu` is in clock ticks and includes children that it has waited for."""
    try:
        data = read_file("/proc/%d/stat" % pid)
    except OSError:
        return None
    if not data:
        return None
    f = data[data.rindex(b")") + 2 :].split()
    # Only the first thread of a process with further ones has ended: it lives.
    state = b"S" if f[0] == b"Z" and int(f[17]) > 1 else f[0]
    return Process(pid, int(f[1]), int(f[2]), state, int(f[19]), int(f[11]) + int(f[12]) + int(f[13]) + int(f[14]))


def all_processes() -> list[Process]:
    if LINUX:
        found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())
        return [p for p in found if p]
    rows = []
    looker, output = run_and_read(["ps", "-A", "-o", "pid=,ppid=,pgid=,state="])
    for row in output.split(b"\n"):
        f = row.split()
        if len(f) >= 4 and int(f[0]) != looker:
            rows.append(Process(int(f[0]), int(f[1]), int(f[2]), f[3][:1], 0, 0))
    return rows


def run_and_read(argv: list[str]) -> tuple[int, bytes]:
    """Number and output of a short command; for systems without /proc only."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(w, 1)
            os.execvp(argv[0], argv)
        finally:
            os._exit(127)
    os.close(w)
    parts = []
    while True:
        part = os.read(r, 65536)
        if not part:
            break
        parts.append(part)
    os.close(r)
    try:
        os.waitpid(pid, 0)
    except OSError:
        pass
    return pid, b"".join(parts)


def name_of(pid: int) -> str:
    """The name of a process, which every user may read; empty once it is gone."""
    try:
        data = read_file("/proc/%d/comm" % pid) if LINUX else run_and_read(["ps", "-p", str(pid), "-o", "comm="])[1]
    except OSError:
        return ""
    return (data or b"").decode("utf-8", "replace").strip()


def unended(processes: list[Process]) -> list[dict[str, Any]]:
    """For status.json: processes that KILL did not end."""
    return [{"pid": p.pid, "start": p.start, "name": name_of(p.pid)} for p in processes]


def remaining(status: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Of the processes that a run here left, by its status.json, those that are still there."""
    try:
        if not LINUX or not status or not status.get("left") or status.get("boot_id") != boot_id():
            return []
        known: list[dict[str, Any]] = [{"pid": int(p["pid"]), "start": int(p["start"]), "name": str(p["name"])} for p in status["left"]]
        return [p for p in known if start_time(p["pid"]) == p["start"]]
    except (KeyError, TypeError, ValueError):
        return []  # the script wrote it


def named(left: list[dict[str, Any]]) -> str:
    return ", ".join("%d (%s)" % (p["pid"], p["name"]) for p in left)


def start_time(pid: int) -> int:
    p = process(pid) if LINUX else None
    return p.start if p else 0


def boot_id() -> str:
    try:
        return (read_file("/proc/sys/kernel/random/boot_id") or b"").decode().strip() if LINUX else ""
    except OSError:
        return ""


def below(roots: list[int], table: list[Process]) -> list[Process]:
    """Processes of `table` that descend from one of `roots` (which are not included)."""
    children: dict[int, list[Process]] = {}
    for p in table:
        children.setdefault(p.ppid, []).append(p)
    found, todo, seen = [], list(roots), set(roots)
    while todo:
        for p in children.get(todo.pop(), ()):
            if p.pid not in seen:
                seen.add(p.pid)
                found.append(p)
                todo.append(p.pid)
    return found


def send(p: Process, sig: int) -> bool:
    """Signals exactly this process (R4): its number may be reused between the check and the signal. False if this
    user may not."""
    fd = None
    try:
        if LINUX and hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            try:
                fd = os.pidfd_open(p.pid)
            except OSError as e:
                if e.errno == errno.ESRCH:
                    return True
        if LINUX and start_time(p.pid) != p.start:
            return True
        if fd is None:
            os.kill(p.pid, sig)
        else:
            signal.pidfd_send_signal(fd, sig)
        return True
    except OSError as e:
        # EACCES is the answer of a security module such as AppArmor.
        if e.errno not in (errno.ESRCH, errno.EPERM, errno.EACCES):
            raise
        return e.errno == errno.ESRCH
    finally:
        if fd is not None:
            os.close(fd)


def oom_kills() -> int | None:
    """How many processes the kernel's out-of-memory killer has ended here, or None."""
    try:
        for row in (read_file("/proc/self/cgroup") or b"").decode().split("\n"):
            number, _, rest = row.partition(":")
            controllers, _, path = rest.partition(":")
            if number == "0" and not controllers:
                place, field = "/sys/fs/cgroup%s/memory.events" % path, b"oom_kill "
            elif "memory" in controllers.split(","):
                place, field = "/sys/fs/cgroup/memory%s/memory.oom_control" % path, b"oom_kill "
            else:
                continue
            for line in (read_file(place) or b"").split(b"\n"):
                if line.startswith(field):
                    return int(line.split()[1])
        for line in (read_file("/proc/vmstat") or b"").split(b"\n"):
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None
