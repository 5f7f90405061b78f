"""Differences between operating systems, the runner's complaints, and signals. Every other module here builds on
it."""

from __future__ import annotations

import errno
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    try:
        import _signal as signal
    except ImportError:  # a Python other than CPython
        import signal

LINUX = sys.platform.startswith("linux") and not os.environ.get("SVC_RUNNER_PORTABLE")
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


def complain(words: str) -> None:
    try:
        os.write(2, ("%s %s\n" % (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), words)).encode("utf-8", "replace"))
    except OSError:
        pass


def directory_gone() -> bool:
    """Whether the run directory was removed: then no process will read its files or send orders."""
    try:
        os.getcwd()
        return False
    except OSError as e:
        return e.errno == errno.ENOENT


def now_ms() -> int:
    return time.time_ns() // 1000000


def prctl(option: int, value: int) -> int:
    """Linux only. `_ctypes` alone loads in a tenth of the time of `ctypes`."""
    try:
        import _ctypes

        own: Any = None  # this process itself
        return int(_ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(own, 0), "prctl"), (option, value, 0, 0, 0)))
    except (ImportError, AttributeError, OSError):
        try:
            import ctypes

            return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0))
        except (ImportError, AttributeError, OSError):
            return -1


def show_name() -> None:
    """The machine's guard finds the runner by this name: unlike a command line, it can be read while a process's memory is locked."""
    try:
        with open("/proc/self/comm", "w") as f:
            f.write("svc_runner")
    except OSError:
        pass  # the guard also looks at every Python


def signal_name(number: int) -> str:
    for name in dir(signal):
        usual = name.startswith("SIG") and name[3] != "_" and name not in ("SIGCLD", "SIGIOT", "SIGPOLL")
        if usual and getattr(signal, name) == number:
            return name
    return "SIG%d" % number


def default_signals() -> None:
    for number in range(1, getattr(signal, "NSIG", 65)):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError, RuntimeError):
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
