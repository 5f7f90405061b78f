"""The facts of the machine: its Python, processors, memory, disk and name."""

from __future__ import annotations

import os
import sys

from .commands import output_of, which
from .environment import base_environment, first_process_variables
from .files import disk_free, first_line, quiet, read_bytes
from .gpus import driver_pending, gpus
from .runner_calls import BASE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


def best_python(path: str) -> tuple[str, str]:
    """The first Python on the run's own path, which has the image's packages; else the current interpreter."""
    mine = (sys.executable, "%d.%d.%d" % sys.version_info[:3])
    for name in ("python3", "python"):
        found = which(name, path)
        if found is None:
            continue
        if os.path.realpath(found) == os.path.realpath(sys.executable):
            return found, mine[1]
        tail = os.path.basename(os.path.realpath(found))
        minor = tail[9:] if tail.startswith("python3.") else ""
        if minor.isdigit() and int(minor) >= 8:
            return found, "3." + minor
        out = output_of([found, "-I", "-S", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], 10)
        version = (out or "").strip()
        numbers = version.split(".")
        if len(numbers) == 3 and all(n.isdigit() for n in numbers) and (3, 8) <= (int(numbers[0]), int(numbers[1])) < (4,):
            return found, version
    return mine


def cgroup_numbers(name: str) -> Iterator[list[str]]:
    """A limit file of this process's cgroup and those above it (v2), then of v1; as lists of words."""
    path = ""
    for row in (read_bytes("/proc/self/cgroup") or b"").decode("utf-8", "replace").split("\n"):
        if row.startswith("0::"):
            path = row[3:].strip()
    while True:
        words = first_line("/sys/fs/cgroup%s/%s" % (path.rstrip("/"), name)).split()
        if words:
            yield words
        if path in ("", "/"):
            return
        path = os.path.dirname(path)


def cpus() -> float | None:
    try:
        most = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        most = float(os.cpu_count() or 0)
    limits = list(cgroup_numbers("cpu.max"))
    limits.append([first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us")])
    for words in limits:
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            most = min(most, int(words[0]) / int(words[1]))
    return round(most, 2) if most > 0 else None


def memory() -> int | None:
    most = None
    for row in (read_bytes("/proc/meminfo") or b"").split(b"\n"):
        if row.startswith(b"MemTotal:"):
            most = int(row.split()[1]) * 1024
    limits = [*list(cgroup_numbers("memory.max")), [first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes")]]
    for words in limits:
        if words[0].isdigit() and (most is None or int(words[0]) < most):
            most = int(words[0])
    return most


def user_name() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return os.environ.get("USER") or str(os.geteuid())


def beside(folder: str, name: str) -> list[str]:
    """Names of other machines that this host was, or still is."""
    names = (n for n in os.listdir(folder) if n.startswith("svc-") and n != name and n.isascii() and n.isprintable())
    return sorted(names)[:1000]


def op_hello(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    path = base_environment().get("PATH", os.defpath)
    python, version = best_python(path)
    home = os.path.expanduser("~")
    name = first_process_variables().get("SVC_MACHINE")
    cards, driver, fault = quiet(gpus, path) or (None, None, None)
    return {
        "facts": {
            "home": home,
            "user": user_name(),
            "python": python,
            "python_version": version,
            "cpus": quiet(cpus),
            "memory_bytes": quiet(memory),
            "disk_free_bytes": quiet(disk_free, home),
            "gpus": cards,
            "gpu_driver": driver,
            "gpu_fault": fault,
            "driver_pending": cards is None and bool(quiet(driver_pending)),
            "rsync": which("rsync", os.environ.get("PATH", os.defpath)) is not None,
            "boot_id": first_line("/proc/sys/kernel/random/boot_id"),
            "beside": quiet(beside, "%s/%s" % (home, BASE), ask["name"]) or [],
        },
        "machine": name or None,
        "marked": os.path.isdir("/var/lib/svc/%s" % ask["name"]),
    }, b""
