"""Measures the run's usage: processor, memory, disk, network and GPUs."""

from __future__ import annotations

import errno
import os
import time

from .files import read_file, write_file
from .gpu_query import GpuQuery
from .json_text import to_json
from .keeper import Keeper
from .processes import Process, all_processes, below
from .system import LINUX, now_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def terminal_idle() -> float | None:
    """Seconds since a key was pressed at the most recently used terminal; None without a terminal.

    By the time of the last read, as in `w`: the output of a forgotten `watch` does not count as presence.
    """
    least = None
    try:
        for name in os.listdir("/dev/pts") if LINUX else []:
            if name.isdigit():
                idle = max(0.0, time.time() - os.stat("/dev/pts/" + name).st_atime)
                least = idle if least is None else min(least, idle)
    except OSError:  # closed meanwhile, or not visible to us
        pass
    return least if least is None else round(least, 1)


class Sampler:
    """Samples the run's usage. The first sample follows after a second, then one every `seconds`."""

    def __init__(self, seconds: float, nonce: str, boot: str) -> None:
        self.seconds = max(0.1, seconds)
        self.nonce, self.boot = nonce, boot
        self.tick = os.sysconf("SC_CLK_TCK")
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.at = time.monotonic()
        self.due = self.at + min(1.0, self.seconds)
        self.cpu = 0.0
        self.reaped_cpu = 0.0
        self.disk: int | None = 0
        self.net = self.net_bytes()
        self.members: list[tuple[int, int]] | None = None
        self.keeper: Keeper | None = None
        self.fd: int | None = None
        # The sample that still waits for its GPU readings.
        self.sample: dict[str, Any] | None = None
        self.gpus = GpuQuery()

    def net_bytes(self) -> int | None:
        try:
            rows = (read_file("/proc/net/dev") or b"").split(b"\n")[2:] if LINUX else []
            total, seen = 0, False
            for row in rows:
                name, colon, rest = row.partition(b":")
                if colon and name.strip() != b"lo":
                    f = rest.split()
                    total, seen = total + int(f[0]) + int(f[8]), True
            return total if seen else None
        except (OSError, ValueError, IndexError):
            return None

    def begin(self) -> None:
        now = time.monotonic()
        self.due = now + self.seconds
        s: dict[str, Any] = {
            "at_ms": now_ms(),
            "cpu_cores": None,
            "memory_bytes": None,
            "disk_bytes_per_s": None,
            "net_bytes_per_s": None,
            "processes": None,
            "terminal_idle_seconds": terminal_idle(),
            "gpus": None,
        }
        seconds = max(0.001, now - self.at)
        if LINUX:
            tree = [p for p in below([os.getpid()], all_processes()) if p.pid != self.gpus.pid and p.state != b"Z"]
            s["processes"] = len(tree)
            self.remember(tree)
            cpu = sum(p.cpu for p in tree) / self.tick + self.reaped_cpu
            if cpu >= self.cpu:
                s["cpu_cores"] = round((cpu - self.cpu) / seconds, 4)
            self.cpu = cpu
            s["memory_bytes"] = self.memory(tree)
            disk = self.disk_bytes(tree)
            if disk is not None and self.disk is not None and disk >= self.disk:
                s["disk_bytes_per_s"] = round((disk - self.disk) / seconds, 1)
            self.disk = disk
            net = self.net_bytes()
            if net is not None and self.net is not None and net >= self.net:
                s["net_bytes_per_s"] = round((net - self.net) / seconds, 1)
            self.net = net
        self.at = now
        if self.gpus.possible:
            self.sample = s
            if not self.gpus.ask():
                self.finish_gpus(None)
        else:
            self.write(s)

    def remember(self, tree: list[Process]) -> None:
        """Identities of the run's processes, for a sweep without this runner and their environment."""
        members = sorted((p.pid, p.start) for p in tree)
        if members != self.members:
            self.members = members
            record = {"nonce": self.nonce, "boot_id": self.boot, "processes": [list(m) for m in members]}
            try:
                write_file("members.json", to_json(record).encode(), False)
            except OSError:
                self.members = None

    def memory(self, tree: list[Process]) -> int | None:
        total, seen = 0, False
        for p in tree:
            try:
                f = (read_file("/proc/%d/statm" % p.pid) or b"").split()
            except OSError:
                continue
            if len(f) > 1:
                total, seen = total + int(f[1]) * self.page, True
        return total if seen else None

    def disk_bytes(self, tree: list[Process]) -> int | None:
        total, seen = 0, False
        for p in tree:
            try:
                rows = (read_file("/proc/%d/io" % p.pid) or b"").split(b"\n")
            except OSError as e:
                if e.errno == errno.ESRCH:
                    continue
                return None
            for row in rows:
                if row.startswith((b"read_bytes:", b"write_bytes:")):
                    total, seen = total + int(row.split()[1]), True
        return total if seen else None

    def read_gpus(self) -> None:
        if self.gpus.read():
            self.finish_gpus(self.gpus.answer())

    def finish_gpus(self, gpus: list[dict[str, Any]] | None) -> None:
        self.gpus.close()
        if self.sample is not None:
            self.sample["gpus"] = gpus
            self.write(self.sample)
            self.sample = None

    def kill_gpus(self) -> None:
        """Ends a query on timeout, or at the end of the run: the readings are then unknown."""
        self.gpus.kill()
        self.finish_gpus(None)

    def write(self, sample: dict[str, Any]) -> None:
        if self.keeper is not None:
            self.keeper.note(sample)
        data = to_json(sample).encode() + b"\n"
        try:
            if self.fd is None:
                self.fd = os.open("samples.jsonl", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            end = os.fstat(self.fd).st_size
            try:
                whole = os.pwrite(self.fd, data, end) == len(data)
            except OSError:
                whole = False
            if not whole:
                os.ftruncate(self.fd, end)
        except OSError:
            pass  # a full disk costs a sample, not the run
