"""Reads a run directory: its status, the segments of its log, and when bytes were written."""

from __future__ import annotations

import errno
import os
import struct

from .files import now_ms, open_plain, read_bytes, read_object
from .refusal import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORD = 16
RECORDS_MAX = 1 << 18


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat of a living process; zombies count as dead. A lack of descriptors or memory says
    nothing about a process, and raises."""
    data = read_proc("/proc/%d/stat" % pid)
    try:
        fields = data[data.rindex(b")") + 2 :].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (ValueError, IndexError):
        return None


def read_proc(path: str) -> bytes:
    """A file of /proc; empty if its process is gone or belongs to another user."""
    try:
        return read_bytes(path, 4096) or b""
    except PermissionError:
        return b""


def boot_id() -> str:
    return read_proc("/proc/sys/kernel/random/boot_id").decode("utf-8", "replace").strip()


def runner_lives(status: dict[str, Any]) -> bool:
    return (
        status.get("boot_id") == boot_id()
        and isinstance(status.get("runner_pid"), int)
        and start_time(status["runner_pid"]) == status.get("runner_start")
    )


def read_status(run: str) -> dict[str, Any] | None:
    path = run + "/status.json"
    status, damaged = read_object(path)
    if damaged:
        raise Refusal("damaged", "%s is damaged" % path)
    return status


def status_of(run: str) -> dict[str, Any] | None:
    """The content of status.json; a run whose runner died without a report is lost."""
    status = read_status(run)
    if status is None or status.get("phase") != "running" or runner_lives(status):
        return status
    status = read_status(run)  # it may have written its last status and exited between the two checks
    if status is None or status.get("phase") != "running":
        return status
    restarted = status.get("boot_id") not in ("", boot_id())
    why = (
        "the machine was restarted while the script ran"
        if restarted
        else "the runner that supervised the script was killed, and the output and metrics that it had not read yet are lost"
    )
    return dict(status, phase="failed", error=why, log_bytes=spool_end(run), ended_at_ms=now_ms())


def segments(run: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(run + "/spool") if name.isdigit())
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise


def segment_path(run: str, start: int) -> str:
    return "%s/spool/%012d" % (run, start)


def spool_end(run: str) -> int:
    for start in reversed(segments(run)):
        try:
            return start + os.stat(segment_path(run, start)).st_size
        except OSError:
            continue
    return 0


def read_at(path: str, offset: int, most: int) -> bytes:
    """Bytes of a growing file; empty when it ends before `offset` or is gone."""
    try:
        fd = open_plain(path)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR):
            return b""
        raise
    try:
        return os.pread(fd, most, offset) if most > 0 else b""
    finally:
        os.close(fd)


def read_log(run: str, offset: int, most: int) -> tuple[int, bytes]:
    """Where the bytes begin, and the bytes: from `offset`, or from the first byte that is still there."""
    starts = segments(run)
    if starts:
        offset = max(offset, starts[0])
    parts, at = [], offset
    index = max((i for i, s in enumerate(starts) if s <= at), default=len(starts))
    for i in range(index, len(starts)):
        if at - offset >= most or starts[i] > at:
            break  # a predecessor that is shorter than its name promised: do not skip bytes
        data = read_at(segment_path(run, starts[i]), at - starts[i], most - (at - offset))
        if not data and (i + 1 >= len(starts) or starts[i + 1] != at):
            break
        parts.append(data)
        at += len(data)
    return offset, b"".join(parts)


def read_times(run: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Index records for the bytes in [begin, end), the first one covering `begin`; at most RECORDS_MAX."""
    try:
        fd = open_plain(run + "/spool.idx")
    except OSError:
        return [(begin, now_ms())]
    try:

        def record(i: int) -> tuple[int, int]:
            return struct.unpack("<QQ", os.pread(fd, RECORD, i * RECORD))

        count = os.fstat(fd).st_size // RECORD
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            if record(middle)[0] <= begin:
                low = middle
            else:
                high = middle
        times: list[tuple[int, int]] = []
        while low < count and len(times) <= RECORDS_MAX:
            block = os.pread(fd, 4096 * RECORD, low * RECORD)
            got = len(block) // RECORD
            if got == 0:
                break
            for offset, ms in struct.iter_unpack("<QQ", block[: got * RECORD]):
                if offset >= end:
                    return times or [(begin, now_ms())]
                times.append((max(offset, begin), ms))
            low += got
        return times or [(begin, now_ms())]
    finally:
        os.close(fd)
