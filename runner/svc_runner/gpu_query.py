"""Asks nvidia-smi for the state of the GPUs without blocking the main loop: nvidia-smi may take seconds, or hang in
its driver."""

from __future__ import annotations

import errno
import os
import time

from .system import default_signals, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SMI_SECONDS = 10
SMI_BYTES_MAX = 1 << 20
SMI_FOLDERS = ("/usr/bin", "/opt/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib")
SMI_ARGUMENTS = (
    "--format=csv,noheader,nounits",
    "--query-gpu=index,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu",
)


def smi_path() -> str | None:
    for folder in (*os.environ.get("PATH", "").split(":"), *SMI_FOLDERS):
        if folder and os.access(folder + "/nvidia-smi", os.X_OK):
            return folder + "/nvidia-smi"
    return None


class GpuQuery:
    """Runs at most one query at a time. `fd` is readable when output has arrived; `end` is the query's deadline."""

    def __init__(self) -> None:
        self.path = smi_path()
        # The process stays a child of this one until it is reaped, even if its answer is no longer needed.
        self.pid: int | None = None
        self.fd: int | None = None
        self.end: float | None = None
        self.out = b""

    @property
    def possible(self) -> bool:
        return self.path is not None and self.pid is None

    def ask(self) -> bool:
        """Starts a query. Returns False if no process can be created."""
        path = self.path
        if path is None:
            return False
        r, w = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(r)
            os.close(w)
            return False
        if pid == 0:
            try:
                os.setsid()
                os.dup2(w, 1)
                null = os.open("/dev/null", os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 2)
                default_signals()
                os.execv(path, [path, *SMI_ARGUMENTS])
            finally:
                os._exit(127)
        os.close(w)
        os.set_blocking(r, False)
        self.pid, self.fd, self.out, self.end = pid, r, b"", time.monotonic() + SMI_SECONDS
        return True

    def read(self) -> bool:
        """Reads the output that has arrived. Returns True once the answer is complete."""
        if self.fd is None:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError as e:
            if e.errno == errno.EAGAIN:
                return False
            data = b""
        self.out += data
        return not data or len(self.out) > SMI_BYTES_MAX

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = self.end = None

    def kill(self) -> None:
        if self.pid is not None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except OSError:
                pass

    def answer(self) -> list[dict[str, Any]] | None:
        gpus = []
        for row in self.out.decode("utf-8", "replace").split("\n"):
            f = [x.strip() for x in row.split(",")]
            if len(f) == 6 and f[0].isdigit():
                v = [smi_number(x) for x in f[1:]]
                gpus.append(
                    {
                        "index": int(f[0]),
                        "util_percent": v[0],
                        "memory_used_mib": v[1],
                        "memory_total_mib": v[2],
                        "power_watts": v[3],
                        "temperature_c": v[4],
                    }
                )
        return gpus or None


def smi_number(text: str) -> float | None:
    """Parses one value; None if it is a word, as nvidia-smi writes for an unknown value (R5)."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e12 else None
