"""Measures the run's usage: processor, memory, disk, network and GPUs."""

from __future__ import annotations

import errno
import os
import time

from .files import read_file, write_file
from .json_text import to_json
from .processes import all_processes, below
from .system import LINUX, default_signals, now_ms, signal


def terminal_idle():
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

    def __init__(self, seconds, nonce, boot):
        self.seconds = max(0.1, seconds)
        self.nonce, self.boot = nonce, boot
        self.tick = os.sysconf("SC_CLK_TCK")
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.at = time.monotonic()
        self.due = self.at + min(1.0, self.seconds)
        self.cpu = 0.0
        self.reaped_cpu = 0.0
        self.disk = 0
        self.net = self.net_bytes()
        self.members = None
        self.keeper = None
        self.fd = None
        self.sample = None
        self.smi_pid = self.smi_fd = self.smi_end = None
        self.smi_out = b""
        self.smi_path = None
        usual = ["/usr/bin", "/opt/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"]
        for folder in os.environ.get("PATH", "").split(":") + usual:
            if folder and os.access(folder + "/nvidia-smi", os.X_OK):
                self.smi_path = folder + "/nvidia-smi"
                break

    def net_bytes(self):
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

    def begin(self):
        now = time.monotonic()
        self.due = now + self.seconds
        s = {"at_ms": now_ms(), "cpu_cores": None, "memory_bytes": None, "disk_bytes_per_s": None,
             "net_bytes_per_s": None, "processes": None, "terminal_idle_seconds": terminal_idle(), "gpus": None}
        seconds = max(0.001, now - self.at)
        if LINUX:
            tree = [p for p in below([os.getpid()], all_processes()) if p.pid != self.smi_pid and p.state != b"Z"]
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
        if self.smi_path and self.smi_pid is None:
            self.sample = s
            self.ask_gpus()
        else:
            self.write(s)

    def remember(self, tree):
        """Identities of the run's processes, for a sweep without this runner and their environment."""
        members = sorted((p.pid, p.start) for p in tree)
        if members != self.members:
            self.members = members
            record = {"nonce": self.nonce, "boot_id": self.boot, "processes": [list(m) for m in members]}
            try:
                write_file("members.json", to_json(record).encode(), False)
            except OSError:
                self.members = None

    def memory(self, tree):
        total, seen = 0, False
        for p in tree:
            try:
                f = (read_file("/proc/%d/statm" % p.pid) or b"").split()
            except OSError:
                continue
            if len(f) > 1:
                total, seen = total + int(f[1]) * self.page, True
        return total if seen else None

    def disk_bytes(self, tree):
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

    def ask_gpus(self):
        r, w = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(r)
            os.close(w)
            return self.finish_gpus(None)
        if pid == 0:
            try:
                os.setsid()
                os.dup2(w, 1)
                null = os.open("/dev/null", os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 2)
                default_signals()
                os.execv(self.smi_path, [self.smi_path, "--format=csv,noheader,nounits", "--query-gpu=index,"
                         "utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu"])
            finally:
                os._exit(127)
        os.close(w)
        os.set_blocking(r, False)
        self.smi_pid, self.smi_fd, self.smi_out, self.smi_end = pid, r, b"", time.monotonic() + 10

    def read_gpus(self):
        try:
            data = os.read(self.smi_fd, 65536)
        except OSError as e:
            if e.errno == errno.EAGAIN:
                return
            data = b""
        self.smi_out += data
        if not data or len(self.smi_out) > 1 << 20:
            self.finish_gpus(self.parse_gpus())

    def parse_gpus(self):
        def number(text):
            try:
                value = float(text)
                return value if abs(value) < 1e12 else None
            except ValueError:
                return None

        gpus = []
        for row in self.smi_out.decode("utf-8", "replace").split("\n"):
            f = [x.strip() for x in row.split(",")]
            if len(f) == 6 and f[0].isdigit():
                v = [number(x) for x in f[1:]]
                gpus.append({"index": int(f[0]), "util_percent": v[0], "memory_used_mib": v[1],
                             "memory_total_mib": v[2], "power_watts": v[3], "temperature_c": v[4]})
        return gpus or None

    def finish_gpus(self, gpus):
        if self.smi_fd is not None:
            os.close(self.smi_fd)
            self.smi_fd = self.smi_end = None
        if self.sample is not None:
            self.sample["gpus"] = gpus
            self.write(self.sample)
            self.sample = None

    def kill_gpus(self):
        """On timeout, or when the run ends: the reading is unknown. The process is ours until it is reaped."""
        if self.smi_pid is not None:
            try:
                os.kill(self.smi_pid, signal.SIGKILL)
            except OSError:
                pass
        self.finish_gpus(None)

    def write(self, sample):
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
