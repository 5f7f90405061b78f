"""Answers for the status, the log and the samples of a run, and waits for new data."""

from __future__ import annotations

import errno
import os
import struct
import time

from .files import disk_fault, disk_free, open_plain, quiet
from .run_folder import RECORDS_MAX, read_at, read_log, read_status, read_times, runner_lives, spool_end, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAMPLES_MAX = 1 << 20
PIECE_MAX = 16 << 20


def op_status(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    run = ask["dir"]
    status = status_of(run)
    running = status is not None and status.get("phase") == "running"
    return {"status": status, "disk_free": quiet(disk_free, run), "disk_fault": disk_fault(run) if running else None}, b""


def op_read_log(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    run = ask["dir"]
    offset, data = read_log(run, int(ask["offset"]), min(int(ask["max"]), PIECE_MAX))
    times = read_times(run, offset, offset + len(data)) if data else []
    if len(times) > RECORDS_MAX:
        data = data[: times[RECORDS_MAX][0] - offset]
        times = times[:RECORDS_MAX]
    packed = b"".join(struct.pack("<QQ", o, t) for o, t in times)
    return {"begin": offset, "log_bytes": len(data), "times": len(times), "now_ms": wall_ms()}, data + packed


def op_read_samples(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Whole lines only."""
    data = read_at(ask["dir"] + "/samples.jsonl", int(ask["offset"]), SAMPLES_MAX)
    return {"now_ms": wall_ms()}, data[: data.rfind(b"\n") + 1]


def wall_ms() -> int:
    """By this machine's clock, which stamps logs, samples and metrics and may be wrong."""
    return time.time_ns() // 1000000


def op_ack(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The runner made the file; overwriting it needs no disk space. Writing the number twice lets a reader detect a
    half-written one."""
    number = "%020d" % int(ask["offset"])
    try:
        fd = open_plain(ask["dir"] + "/acked", os.O_WRONLY)
    except OSError as e:
        if e.errno == errno.EROFS:
            return {}, b""  # nothing can be freed on such a disk
        raise
    try:
        os.pwrite(fd, ("%s %s\n" % (number, number)).encode(), 0)
    finally:
        os.close(fd)
    return {}, b""


def op_follow(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Waits for new data, then returns all of it in one answer. The status is read first: when it is final, every
    byte that it counts exists."""
    wait_for_news(ask["dir"], int(ask["seen"]), min(float(ask["wait_ms"]) / 1000, 600))
    look, _ = op_status(ask)
    log, body = op_read_log(ask)
    return dict(look, **log), body


def wait_for_news(run: str, seen: int, seconds: float) -> None:
    """Returns once the log is longer than the known length, the run has ended, or the time is up."""
    begin = time.monotonic()
    end = begin + seconds
    known, look_at = None, 0.0
    while True:
        if spool_end(run) > seen:
            return
        now = time.monotonic()
        try:
            s = os.stat(run + "/status.json")
            mark = (s.st_mtime_ns, s.st_ino)
        except OSError:
            mark = None
        if mark is not None and (mark != known or now >= look_at):
            known, look_at = mark, now + 1
            status = read_status(run)
            if status is not None and (status.get("phase") != "running" or not runner_lives(status)):
                return
        if now >= end:
            return
        # Polls less often while little happens: one poll costs about 50 microseconds of a busy machine.
        time.sleep(min(max(0.0, end - now), max(0.005, min(0.05, (now - begin) / 10))))
