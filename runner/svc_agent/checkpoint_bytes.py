"""Reads and hashes files of the checkpoint directory: exactly the listed version, or a refusal (A4)."""

from __future__ import annotations

import errno
import os
import stat

from .checkpoints import INODE_MASK, LINKED, checkpoint_dir, folder_below, mtime_ms, numbers_of
from .log import PIECE_MAX
from .refusal import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar

    T = TypeVar("T")

PIECES_MAX = 1000
RANGES_MAX = 10000
# Errors of a single file, which do not affect the others.
UNREADABLE = (errno.EACCES, errno.EPERM, errno.EIO)


def open_below(top: str | None, path: str) -> int:
    """A file below the checkpoint directory, opened without following any symlink (A3). The caller closes it."""
    names = path.split("/")
    if top is None or "\0" in path or any(n in ("", ".", "..") for n in names):
        raise Refusal("missing", path)
    fd = None
    try:
        fd = folder_below(top, names[:-1])
        # NONBLOCK: opening a pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd, above = os.open(names[-1], flags, dir_fd=fd), fd
        os.close(above)
        return fd
    except OSError as e:
        if fd is not None:
            os.close(fd)
        if e.errno in (errno.ENOENT, errno.ENXIO, *LINKED):
            raise Refusal("missing", path) from e
        raise


def open_checkpoint(ask: dict[str, Any]) -> int:
    """Opens the listed version of a file. The caller closes it."""
    fd = open_below(checkpoint_dir(ask["dir"]), ask["path"])
    try:
        check_unchanged(fd, ask)
        return fd
    except Refusal:
        os.close(fd)
        raise


def check_unchanged(fd: int, ask: dict[str, Any]) -> None:
    s = os.fstat(fd)
    if not stat.S_ISREG(s.st_mode) or numbers_of(s) != (ask["size"], ask["mtime"], ask["inode"]):
        raise Refusal("changed", "%s as it was listed" % ask["path"])


def reading(ask: dict[str, Any], read: Callable[[int], T]) -> T:
    """The result of `read` on the listed file, if the file is the same before and after."""
    try:
        fd = open_checkpoint(ask)
        try:
            answer = read(fd)
            check_unchanged(fd, ask)
            return answer
        finally:
            os.close(fd)
    except OSError as e:
        if e.errno in UNREADABLE:
            raise Refusal("unreadable", os.strerror(e.errno or 0)) from e
        raise


def op_read_file(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """One piece. Zeros are counted and not sent."""
    import hashlib

    data = reading(ask, lambda fd: os.pread(fd, min(int(ask["max"]), PIECE_MAX), int(ask["offset"])))
    zeros = len(data) if data[:1] == b"\0" and data.count(0) == len(data) else 0
    return {"sha256": hashlib.sha256(data).hexdigest(), "zeros": zeros}, b"" if zeros else data


def data_ranges(fd: int, size: int) -> list[list[int]]:
    """[start, end] of each data range, at most RANGES_MAX; the last one then ends with the file."""
    ranges: list[list[int]] = []
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            end = min(size, os.lseek(fd, start, os.SEEK_HOLE))
        except OSError as e:
            if e.errno == errno.ENXIO:  # only a hole from here on
                break
            start, end = at, size  # the file system does not report holes
        if start >= size:
            break
        if len(ranges) + 1 >= RANGES_MAX:
            end = size
        ranges.append([start, end])
        at = end
    return ranges


def op_data_ranges(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    return {"ranges": reading(ask, lambda fd: data_ranges(fd, int(ask["size"])))}, b""


def hash_of(fd: int, start: int, end: int) -> str:
    import hashlib

    digest = hashlib.sha256()
    while start < end:
        data = os.pread(fd, min(1 << 20, end - start), start)
        if not data:
            break
        digest.update(data)
        start += len(data)
    return digest.hexdigest()


def op_hash_file(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    return {"sha256": reading(ask, lambda fd: hash_of(fd, 0, int(ask["size"])))}, b""


def read_piece(top: str | None, piece: dict[str, Any], room: int) -> tuple[dict[str, Any], bytes]:
    """
    The bytes after `offset` of a file that may be growing, and the file's length. `checks` are ranges that must
    still have the same hashes as the caller's copy: a rewritten file is "changed", even with the same name and
    length. With `whole` the file must not change while it is read.
    """
    import hashlib

    fd = open_below(top, piece["path"])
    try:
        before, offset = os.fstat(fd), int(piece["offset"])
        if not stat.S_ISREG(before.st_mode) or before.st_ino & INODE_MASK != piece["inode"] or before.st_size < offset:
            return {"why": "changed"}, b""
        for start, end, digest in piece["checks"]:
            if hash_of(fd, int(start), int(end)) != digest:
                return {"why": "changed"}, b""
        data = os.pread(fd, max(0, min(int(piece["max"]), room, before.st_size - offset)), offset)
        after = os.fstat(fd)
        if after.st_size < offset + len(data) or (piece["whole"] and numbers_of(before) != numbers_of(after)):
            return {"why": "changed"}, b""
        found = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "size": before.st_size, "mtime": mtime_ms(before)}
        return found, data
    finally:
        os.close(fd)


def op_read_pieces(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Pieces of many files in one answer: one line for each, in the order of the request."""
    top, found, bodies, room = checkpoint_dir(ask["dir"]), [], [], PIECE_MAX
    for piece in ask["pieces"][:PIECES_MAX]:
        try:
            head, body = read_piece(top, piece, room)
        except Refusal as e:
            head, body = {"why": e.kind}, b""
        except OSError as e:
            head, body = {"why": os.strerror(e.errno or 0)}, b""
        room -= len(body)
        found.append(head)
        bodies.append(body)
    return {"pieces": found}, b"".join(bodies)
