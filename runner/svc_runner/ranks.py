"""Joins the output of several ranks into the log by whole lines."""

from __future__ import annotations

import fcntl
import os
import time

from .files import unlink
from .records import RECORD_BYTES_MAX
from .spool import CHUNK, read_pipe
from .system import complain


class Rank:
    """Output of one rank that is not in the log yet: less than a line."""

    __slots__ = ("fd", "held", "number", "prefix", "since")

    def __init__(self, number: int, fd: int) -> None:
        self.number, self.fd, self.held, self.since = number, fd, b"", 0.0
        self.prefix = b"[rank%d] " % number


class Ranks:
    """A pipe for each rank of this node: the launcher gives it to the rank as stdout and stderr.

    Whole lines go into the log, each prefixed with its rank, so no line has bytes of two processes. A state of a
    progress bar (the text after a carriage return) is written when the next one arrives, or after a moment. Text
    without a line end waits longer, up to 64 KiB. No byte of a rank is lost.
    """

    BAR_SECONDS, TEXT_SECONDS = 0.3, 5.0

    def __init__(self, first: int, count: int) -> None:
        self.by_fd = {}
        self.writers = []
        self.ready = b""
        # The owner of the unfinished line at the end of the log: None if it ends with a whole line, -1 for stdout.
        self.owner: int | None = None
        try:
            if count > 0 and not os.path.isdir("ranks"):
                os.mkdir("ranks", 0o700)
            for number in range(first, first + count):
                path = "ranks/%d" % number
                unlink(path)
                os.mkfifo(path, 0o600)
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    fcntl.fcntl(fd, 1031, 1 << 20)  # F_SETPIPE_SZ
                except OSError:
                    pass
                self.by_fd[fd] = Rank(number, fd)
                self.writers.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as e:
            complain("making the pipes of the ranks: %s; those without one use stdout" % e)

    def read(self, fd: int) -> bool:
        rank = self.by_fd[fd]
        try:
            data = read_pipe(fd, RECORD_BYTES_MAX)
        except OSError:
            return False
        if not rank.held:
            rank.since = time.monotonic()
        rank.held += data
        self.cut(rank)
        return bool(data)

    def cut(self, rank: Rank) -> None:
        """Moves whole lines and states into `ready`."""
        while True:
            end = rank.held.find(b"\n") + 1
            record = rank.held.find(b"\x1esvc1:", 0, end or len(rank.held))
            if record >= 0:
                # A record from a process without the pipe for records: it is written separately, and the text
                # around it is joined.
                if not end and len(rank.held) - record <= RECORD_BYTES_MAX:
                    return
                end = end or len(rank.held)
                self.ready += rank.held[record:end]
                rank.held = rank.held[:record] + rank.held[end:]
                continue
            bar = rank.held.find(b"\r", 1, (end or len(rank.held)) - (2 if end else 1))
            if bar > 0:
                self.put(rank, rank.held[:bar])
                rank.held = rank.held[bar:]
            elif end or len(rank.held) > RECORD_BYTES_MAX:
                end = end or RECORD_BYTES_MAX
                self.put(rank, rank.held[:end])
                rank.held = rank.held[end:]
            else:
                return
            rank.since = time.monotonic()

    def put(self, rank: Rank, text: bytes) -> None:
        if self.owner not in (None, rank.number):
            self.ready += b"\n"
            self.owner = None
        bare = text.lstrip(b"\r")
        starts = self.owner is None or len(bare) < len(text)
        # torch itself prefixes the lines of a traceback with the rank.
        if starts and bare and not bare.startswith(rank.prefix.rstrip()):
            text = text[: len(text) - len(bare)] + rank.prefix + bare
        self.ready += text
        self.owner = None if text.endswith(b"\n") else rank.number

    def due(self, now: float, final: bool = False) -> float:
        """Moves text that has waited long enough; returns how long the next may wait."""
        wait = 1.0
        for rank in self.by_fd.values():
            if not rank.held or (rank.held.find(b"\x1esvc1:") >= 0 and not final):
                continue
            left = rank.since + (self.BAR_SECONDS if rank.held[:1] == b"\r" else self.TEXT_SECONDS) - now
            if left <= 0 or final:
                self.put(rank, rank.held)
                rank.held = b""
            else:
                wait = min(wait, left)
        return wait

    def beside(self, data: bytes, inside_record: bool) -> bytes:
        """Prepares stdout's bytes for the log: they must not enter the unfinished line of a rank."""
        if inside_record:
            return data
        if self.owner is not None and self.owner >= 0:
            data = b"\n" + data
        self.owner = None if data.endswith(b"\n") else -1
        return data

    def drain(self) -> bool:
        for fd in list(self.by_fd):
            while len(self.ready) < CHUNK and self.read(fd):
                pass
        if not self.ready:
            self.due(time.monotonic(), True)
        return bool(self.ready)
