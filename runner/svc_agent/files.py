"""Reads and replaces small files; reads system files."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar

    T = TypeVar("T")


def open_plain(path: str, access: int = os.O_RDONLY) -> int:
    """Opens a plain file. A pipe that the script put in its place does not block: anything but a plain file counts
    as missing."""
    try:
        fd = os.open(path, access | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno == errno.ENXIO:
            raise OSError(errno.ENOENT, "not a plain file", path) from e
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.ENOENT, "not a plain file", path)


def read_bytes(path: str, limit: int = 16 << 20) -> bytes | None:
    """The file's bytes, or None if it does not exist."""
    try:
        with os.fdopen(open_plain(path), "rb") as f:
            return f.read(limit)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
            return None
        raise


def read_object(path: str) -> tuple[dict[str, Any] | None, bool]:
    """(object, damaged)."""
    data = read_bytes(path)
    if data is None:
        return None, False
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None, True
    return (value, False) if isinstance(value, dict) else (None, True)


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replaces a small file atomically; it gets `mode` even if it existed with another one."""
    temporary = "%s.%d.%d.tmp" % (path, os.getpid(), threading.get_ident())
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        unlink(temporary)
        raise


def unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def now_ms() -> int:
    return time.time_ns() // 1000000


def first_line(path: str) -> str:
    try:
        return (read_bytes(path, 4096) or b"").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def uptime() -> float:
    return float(first_line("/proc/uptime").split()[0])


def quiet(look: Callable[..., T], *args: Any) -> T | None:
    """Unknown values are None."""
    try:
        return look(*args)
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def disk_free(home: str) -> int:
    s = os.statvfs(home)
    return s.f_bavail * s.f_frsize


# A disk can refuse bytes although its size says that it has room: a quota, no inode left, read-only after an error, a
# limit on the size of files.
REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)
TRY_SECONDS = 15
TRY_BYTES = b"." * 4096
_tried: dict[str, tuple[float, str | None]] = {}


def disk_fault(folder: str) -> str | None:
    """The name of the error with which the folder refuses a small new file; None if it takes it. Tried at most every
    TRY_SECONDS."""
    before = _tried.get(folder)
    now = time.monotonic()
    if before is not None and now - before[0] < TRY_SECONDS:
        return before[1]
    fault = None
    path = "%s/.room.%d.%d" % (folder, os.getpid(), threading.get_ident())
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, TRY_BYTES)
        finally:
            os.close(fd)
    except OSError as e:
        fault = errno.errorcode[e.errno] if e.errno in REFUSED else None
    unlink(path)
    _tried[folder] = (now, fault)
    return fault
