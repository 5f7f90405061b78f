"""Extends the deadline of a guarded machine while the run works (docs/internals/guard.md)."""

from __future__ import annotations

import os
import time

from .files import read_file
from .system import LINUX, complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def move_keep(path: str, until: int) -> None:
    """Moves the deadline (a second of uptime) forward, never back.

    Written in place: that needs no space on a full disk and no write access to the folder, and so few bytes are
    replaced atomically.
    """
    text = b"%d\n" % until
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    try:
        old = os.pread(fd, 64, 0).strip()
        if not (old.isdigit() and len(old) <= 9 and int(old) >= until):
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
    finally:
        os.close(fd)


class Keeper:
    """Keeps a guarded machine for as long as the run works; its failures do not affect the run."""

    def __init__(self, order: dict[str, Any], sample_seconds: float) -> None:
        self.path, self.grace = order["file"], float(order["grace_seconds"])
        self.idle = float(order["idle_seconds"])
        self.every = min(10.0, self.grace / 3)
        self.gap = max(60.0, 3 * sample_seconds)
        self.due = 0.0
        self.worked_at = self.sampled_at = time.monotonic()
        self.log_end = 0
        self.complained = False

    def note(self, sample: dict[str, Any]) -> None:
        """A sample without CPU and GPU values proves nothing, and counts as work."""
        self.sampled_at = time.monotonic()
        cpu = sample["cpu_cores"]
        use = [g["util_percent"] for g in sample["gpus"] or () if g["util_percent"] is not None]
        if (
            (cpu is None and not use)
            or (cpu or 0) >= 0.05
            or max(use, default=0) >= 5
            or (sample["disk_bytes_per_s"] or 0) >= 1e6
            or (sample["net_bytes_per_s"] or 0) >= 1e5
        ):
            self.worked_at = self.sampled_at
        if sample["terminal_idle_seconds"] is not None:
            self.worked_at = max(self.worked_at, self.sampled_at - sample["terminal_idle_seconds"])

    def look(self, now: float, log_end: int) -> None:
        if log_end != self.log_end:
            self.log_end, self.worked_at = log_end, now
        if now < self.due:
            return
        if self.idle > 0 and now - self.worked_at > self.idle and now - self.sampled_at <= self.gap:
            return
        self.due = now + self.every
        try:
            move_keep(self.path, int(float((read_file("/proc/uptime") or b"").split()[0]) + self.grace))
        except (OSError, ValueError, IndexError) as e:
            if not self.complained:
                self.complained = True
                complain("keeping the machine: %s" % e)


def keeper_of(spec: dict[str, Any]) -> Keeper | None:
    try:
        return Keeper(spec["keep"], float(spec["sample_seconds"])) if spec.get("keep") and LINUX else None
    except (KeyError, TypeError, ValueError) as e:
        complain("keeping the machine: %r" % e)
        return None
