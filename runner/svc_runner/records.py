"""Receives metrics and announcements through a named pipe of the run directory (ADR 0022)."""

from __future__ import annotations

import errno
import fcntl
import os
import sys

from .files import unlink
from .spool import CHUNK, read_pipe
from .system import LINUX, complain, directory_gone

# The name of the pipe for records (docs/internals/adr/0022), and how many pipes that a script has removed are still read.
RECORDS = "records"
RECORD_BYTES_MAX = 64 << 10
REMOVED_MAX = 32


def bytes_in(fd: int) -> int:
    """The number of bytes in a pipe."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, 0x541B if LINUX else 0x4004667F, b"\0\0\0\0"), sys.byteorder)  # FIONREAD
    except OSError:
        return 0


class Records:
    """A named pipe for metrics and announcements of any process of the run, wherever its stdout goes.

    A record is one line, written at once. The runner copies whole lines from here into the spool, between reads
    from stdout, so the control plane needs only one stream.
    """

    def __init__(self) -> None:
        self.held: dict[int, bytes] = {}  # by descriptor: bytes of a line whose end has not arrived
        self.ready = b""
        self.writer: int | None = None
        self.identity: tuple[int, int] | None = None
        self.looked_at = 0.0
        self.given_up = False
        self.make()

    def make(self) -> None:
        """Creates the pipe again. Without one (on a file system without pipes) records use stdout."""
        try:
            if not os.path.isdir(RECORDS):
                unlink(RECORDS)
            os.mkfifo(RECORDS, 0o600)
            reader = os.open(RECORDS, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # The runner keeps a writing end open, so that the pipe has no end of file.
            self.writer = os.open(RECORDS, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as e:
            complain("making the pipe for records: %s; metrics use stdout" % e)
            self.given_up = True
            return
        try:
            fcntl.fcntl(reader, 1031, 1 << 20)  # F_SETPIPE_SZ
        except OSError:
            pass
        found = os.fstat(reader)
        self.identity = (found.st_dev, found.st_ino)
        self.held[reader] = b""

    @property
    def usable(self) -> bool:
        return self.writer is not None

    def look(self, now: float) -> None:
        """Once a second: creates a pipe again that the script removed or replaced; processes with the old one open
        are still read."""
        if self.given_up or now < self.looked_at + 1.0:
            return
        self.looked_at = now
        try:
            found = os.lstat(RECORDS)
            if (found.st_dev, found.st_ino) == self.identity:
                return
        except OSError:
            if directory_gone():
                return
        complain("the pipe for records (%s/%s) was removed or replaced; it is made again" % (os.getcwd(), RECORDS))
        if self.writer is not None:
            os.close(self.writer)
        self.writer = None
        if len(self.held) >= REMOVED_MAX:
            self.given_up = True
            return
        self.make()

    def read(self, fd: int) -> bool:
        """Reads the available bytes; True if there were any."""
        try:
            data = read_pipe(fd, RECORD_BYTES_MAX)
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EINTR):
                return False
            data = b""
        line = self.held[fd] + data
        end = line.rfind(b"\n") + 1
        if not data or len(line) - end > RECORD_BYTES_MAX:
            end = len(line)
        self.ready += line[:end]
        self.held[fd] = line[end:]
        if not data:  # removed, and the last process that had it open has ended
            del self.held[fd]
            os.close(fd)
        return bool(data)

    def drain(self) -> bool:
        """No process of the run is alive: reads the rest, including a partial line."""
        for fd in list(self.held):
            while len(self.ready) < CHUNK and self.read(fd):
                pass
        if not self.ready:
            self.ready = b"".join(self.held.values())
            self.held = dict.fromkeys(self.held, b"")
        return bool(self.ready)
