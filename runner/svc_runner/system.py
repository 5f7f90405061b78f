"""Differences between operating systems, the runner's complaints, and signals. Every other module here builds on
it."""

from __future__ import annotations

import errno
import os
import sys
import time


try:
    import _signal as signal
except ImportError:  # a Python other than CPython
    import signal


LINUX = sys.platform.startswith("linux") and not os.environ.get("SVC_RUNNER_PORTABLE")
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


def complain(words):
    try:
        os.write(2, ("%s %s\n" % (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), words)).encode("utf-8", "replace"))
    except OSError:
        pass


def directory_gone():
    """Whether the run directory was removed: then no process will read its files or send orders."""
    try:
        os.getcwd()
        return False
    except OSError as e:
        return e.errno == errno.ENOENT


def now_ms():
    return time.time_ns() // 1000000


def prctl(option, value):
    """Linux only. `_ctypes` alone loads in a tenth of the time of `ctypes`."""
    try:
        import _ctypes

        return _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"), (option, value, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        try:
            import ctypes

            return ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
        except (ImportError, AttributeError, OSError):
            return -1


def signal_name(number):
    for name in dir(signal):
        if name.startswith("SIG") and name[3] != "_" and name not in ("SIGCLD", "SIGIOT", "SIGPOLL"):
            if getattr(signal, name) == number:
                return name
    return "SIG%d" % number


def default_signals():
    for number in range(1, getattr(signal, "NSIG", 65)):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError, RuntimeError):
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
