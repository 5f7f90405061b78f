"""Reads, replaces and locks the files of the run directory, which is the current directory."""

from __future__ import annotations

import errno
import fcntl
import os

from .json_text import parse_json, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Limit for files that are read at once.
FILE_BYTES_MAX = 64 << 20


def read_file(path: str) -> bytes | None:
    """The file's bytes, or None if it does not exist. A pipe that the script put in its place does not block, and
    counts as missing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENXIO):
            return None
        raise
    try:
        if os.fstat(fd).st_mode & 0o170000 != 0o100000:
            return None
        parts, left = [], FILE_BYTES_MAX
        while left > 0:
            part = os.read(fd, min(65536, left))
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def read_json(path: str) -> dict[str, Any] | None:
    data = read_file(path)
    if not data:
        return None
    try:
        value = parse_json(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_file(path: str, data: bytes, durable: bool) -> None:
    """Replaces the file atomically: a reader sees the old or the new one."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    unlink(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        unlink(temporary)
        raise
    if durable:
        sync_directory(".")


def sync_directory(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


def unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def write_status(status: dict[str, Any]) -> None:
    write_file("status.json", to_json(status).encode() + b"\n", True)


class Lock:
    """`runner.lock`: a runner holds it for life, stop and sweep briefly. The kernel releases it with its last
    holder."""

    def __init__(self) -> None:
        try:
            self.fd = os.open("runner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            if e.errno != errno.EROFS:
                raise
            self.fd = os.open("runner.lock", os.O_RDONLY | os.O_CLOEXEC)  # enough to end a run on such a disk

    def take(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise


def first_line(path: str | bytes) -> str:
    try:
        with open(path, "rb") as file:
            return file.readline(256).decode("utf-8", "replace").strip()
    except OSError:
        return "#!"
