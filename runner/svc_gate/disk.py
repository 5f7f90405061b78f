"""Measures the free space and the speed of the disk that the run writes to, and the size of /dev/shm."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE = 1 << 20
PIECES = 64
WRITE_SECONDS = 2.0
# With less free space, the test itself would fill the disk.
ROOM_MIN = 4 * PIECES * PIECE


def room(folder: str) -> tuple[int, int]:
    s = os.statvfs(folder)
    return s.f_bavail * s.f_frsize, s.f_blocks * s.f_frsize


def shared_memory(ask: dict[str, Any]) -> dict[str, Any]:
    free, size = room("/dev/shm")
    return {"bytes": size, "free_bytes": free}


def disk(ask: dict[str, Any]) -> dict[str, Any]:
    os.makedirs(ask["folder"], 0o700, exist_ok=True)
    free, size = room(ask["folder"])
    rate = write_rate(ask["folder"]) if free >= ROOM_MIN else None
    return {"free_bytes": free, "bytes": size, "write_bytes_per_second": rate}


def write_rate(folder: str) -> int:
    """Returns the bytes per second of new data that reached the disk. The file is unlinked right after it is
    opened (H3)."""
    path = "%s/.gate-%d" % (folder, os.getpid())
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.unlink(path)
        data, done = os.urandom(PIECE), 0
        begin = time.monotonic()
        while done < PIECES and time.monotonic() - begin < WRITE_SECONDS:
            os.write(fd, data)
            if done % 16 == 15:
                os.fdatasync(fd)
            done += 1
        os.fsync(fd)
        return int(done * PIECE / max(0.001, time.monotonic() - begin))
    finally:
        os.close(fd)
