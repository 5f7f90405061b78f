"""Reads the kernel's log for Xid messages of NVIDIA's driver. Most containers may not read it."""

from __future__ import annotations

import errno
import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

XID = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
DAY_SECONDS = 86400
RECORD_MAX = 8192
RECORDS_MAX = 200000
FOUND_MAX = 50


def xids(ask: dict[str, Any]) -> dict[str, Any]:
    """Returns the newest messages of the last day, each with its age in seconds."""
    with open("/proc/uptime") as f:
        now = float(f.read().split()[0])
    found = []
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return {"readable": False, "xids": []}
    try:
        for _ in range(RECORDS_MAX):
            try:
                record = os.read(fd, RECORD_MAX)
            except OSError as e:
                if e.errno == errno.EPIPE:
                    continue  # this message was overwritten while it was read; the next one follows
                if e.errno == errno.EAGAIN:
                    break
                return {"readable": False, "xids": []}
            match = XID.search(record)
            if match:
                seconds = now - float(record.split(b",", 3)[2]) / 1e6
                if seconds <= DAY_SECONDS:
                    bus, xid = match.group(1).decode("ascii"), int(match.group(2))
                    found.append({"bus": bus, "xid": xid, "seconds_ago": round(max(0.0, seconds))})
    finally:
        os.close(fd)
    return {"readable": True, "xids": found[-FOUND_MAX:], "at": time.time()}
