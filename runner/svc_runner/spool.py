"""Stores the log in segments that are named by their offset, and drops acknowledged ones."""

from __future__ import annotations

import os
import time

from .files import read_file, sync_directory, unlink, write_file
from .system import FULL_DISK, complain, directory_gone, now_ms

SEGMENT_MAX = 64 << 20
CHUNK = 256 << 10
INDEX_MS = 50
# While the run is being ended its last output may exceed the cap by this much: a blocked script could not save its
# state.
ENDING_ROOM = 64 << 20


def file_limit() -> int:
    """The largest size of a file that this process may write (`ulimit -f`)."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        return SEGMENT_MAX if limit == resource.RLIM_INFINITY else max(1, limit)
    except (ImportError, OSError, ValueError):
        return SEGMENT_MAX


# How many bytes of a pipe are still read, where a process that could not be ended has it open.
REST: dict[int, int] = {}


def read_pipe(fd: int, most: int) -> bytes:
    """As `os.read`; a pipe in `REST` ends after the bytes that it has there."""
    left = REST.get(fd)
    if left is None:
        return os.read(fd, most)
    data = os.read(fd, min(most, left)) if left > 0 else b""
    REST[fd] = left - len(data)
    return data


def segments() -> list[int]:
    """Start offsets of the spool's segments, ascending."""
    try:
        return sorted(int(name) for name in os.listdir("spool") if name.isdigit())
    except OSError:
        return []


def segment_path(start: int) -> str:
    return "spool/%012d" % start


def spool_end() -> int:
    starts = segments()
    if not starts:
        return 0
    try:
        return starts[-1] + os.stat(segment_path(starts[-1])).st_size
    except OSError:
        return starts[-1]


class Spool:
    """Appends bytes by absolute offset. `pwrite` makes it safe to repeat a write that failed half-way (R2)."""

    def __init__(self, cap: int) -> None:
        if not os.path.isdir("spool"):
            os.mkdir("spool", 0o700)
        self.cap = max(1, cap)
        self.segment = min(SEGMENT_MAX, max(65536, self.cap // 4), file_limit())
        self.fd: int | None = None
        self.start = self.end = spool_end()
        self.pending: bytes | memoryview = b""
        self.acked = 0
        self.retry_at = 0.0
        self.retry_delay = 0.0
        self.complained = False
        self.index_fd = os.open("spool.idx", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.index_end = os.fstat(self.index_fd).st_size // 16 * 16
        self.index_ms = 0
        if not os.path.exists("acked"):
            # Created now and overwritten later: on a full disk an acknowledgement must not need space, because it
            # frees space.
            write_file("acked", b"%020d %020d\n" % (0, 0), False)
        self.refresh_ack()

    def refresh_ack(self) -> None:
        """Reads how much of the log was downloaded and drops segments wholly below that."""
        try:
            numbers = [int(word) for word in (read_file("acked") or b"0").split()]
        except (ValueError, OSError):
            return
        acked = numbers[0] if numbers else 0
        if numbers[1:] not in ([], [acked]):
            return  # read while it was being overwritten
        if acked <= self.acked:
            return
        self.acked = min(acked, self.end)
        starts = segments()
        for start, following in zip(starts, starts[1:]):
            if following <= self.acked:
                unlink(segment_path(start))

    def room(self, ending: bool) -> int:
        return self.cap + (ENDING_ROOM if ending else 0) - (self.end + len(self.pending) - self.acked)

    def put(self, data: bytes) -> None:
        self.pending = memoryview(data)
        self.stamp()
        self.flush()

    def flush(self) -> None:
        """Writes pending bytes; on a full or failing disk keeps them and sets the time of the next try."""
        try:
            while self.pending:
                fd = self.fd
                if fd is None or self.end - self.start >= self.segment:
                    fd = self.roll()
                take = self.pending[: self.start + self.segment - self.end]
                n = os.pwrite(fd, take, self.end - self.start)
                self.end += n
                self.pending = self.pending[n:]
            self.retry_delay = 0.0
            if self.complained:
                self.complained = False
                complain("the log can be written again")
        except OSError as e:
            if directory_gone():
                raise RuntimeError("the run directory was removed") from e
            if e.errno not in FULL_DISK:
                complain("writing the log: %s" % e)
            elif not self.complained:
                complain("the log waits for the disk: %s" % os.strerror(e.errno))
            self.complained = True
            self.relieve()
            self.retry_delay = min(0.5, max(0.02, self.retry_delay * 2))
            self.retry_at = time.monotonic() + self.retry_delay

    def roll(self) -> int:
        fd = os.open(segment_path(self.end), os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        if self.fd is not None:
            os.close(self.fd)
            if len(segments()) > 2:
                self.acked, seen = -1, self.acked
                self.refresh_ack()
                self.acked = max(self.acked, seen)
        self.fd, self.start = fd, self.end
        return fd

    def relieve(self) -> None:
        """On a full disk: once everything so far was downloaded, its space can be freed at once."""
        self.refresh_ack()
        if self.fd is not None and self.acked >= self.end > self.start:
            os.close(self.fd)
            self.fd = None
            unlink(segment_path(self.start))
            try:
                # Its name records the end of the log for a reader after this runner's death.
                self.fd = os.open(segment_path(self.end), os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
                self.start = self.end
            except OSError:
                pass

    def stamp(self) -> None:
        ms = now_ms()
        if ms - self.index_ms < INDEX_MS and ms >= self.index_ms:
            return
        record = self.end.to_bytes(8, "little") + ms.to_bytes(8, "little")
        try:
            if os.pwrite(self.index_fd, record, self.index_end) == 16:
                self.index_end += 16
                self.index_ms = ms
        except OSError:
            pass  # times are optional; the bytes are not

    def sync(self) -> None:
        if self.fd is not None:
            os.fsync(self.fd)
        sync_directory("spool")
