"""Finds and ends the remaining processes of a run whose runner died."""

from __future__ import annotations

import os
import time

from .files import read_file, read_json
from .processes import Process, all_processes, below, boot_id, send
from .system import LINUX, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# How long a process may survive KILL here.
SWEEP_SECONDS = 10.0


def marked(nonces: set[str]) -> list[Process]:
    """Living processes of a run whose runner is gone: by nonce, by recorded identity, and all their descendants."""
    table = [p for p in all_processes() if p.state not in (b"Z", b"X") and p.pid != os.getpid()]
    if not LINUX:
        status = read_json("status.json") or {}
        return [p for p in table if status.get("pid") and p.group == status["pid"]]
    marks = [b"SVC_RUN_NONCE=" + n.encode() for n in nonces if n]
    known = set()
    members = read_json("members.json") or {}
    if members.get("nonce") in nonces and members.get("boot_id") == boot_id():
        known = {(m[0], m[1]) for m in members.get("processes", [])}
    found = {}
    for p in table:
        hit = (p.pid, p.start) in known
        if not hit:
            try:
                names = (read_file("/proc/%d/environ" % p.pid) or b"").split(b"\0")
            except OSError:
                continue
            hit = any(m in names for m in marks)
        if hit:
            found[p.pid] = p
    for p in below(list(found), table):
        found[p.pid] = p
    return list(found.values())


def kill_marked(nonces: set[str], grace: float, known: list[dict[str, Any]]) -> list[Process]:
    """TERM, grace, KILL for the processes of a dead runner; returns the survivors. Those in `known` survived KILL
    before, and are not waited for."""
    unendable = {(p["pid"], p["start"]) for p in known}

    def living() -> list[Process]:
        return [p for p in marked(nonces) if (p.pid, p.start) not in unendable]

    left = living()
    if left and grace > 0:
        for p in left:
            send(p, signal.SIGTERM)
            if p.state in (b"T", b"t"):
                send(p, signal.SIGCONT)
        end = time.monotonic() + grace
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = living()
    end = time.monotonic() + SWEEP_SECONDS
    while left and time.monotonic() < end:
        for p in left:
            send(p, signal.SIGKILL)
        time.sleep(0.01)
        left = living()
    return left
