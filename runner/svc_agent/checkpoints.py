"""Lists the files of the checkpoint directory without following symlinks (A3)."""

from __future__ import annotations

import errno
import json
import os
import stat

from .files import read_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILES_MAX = 100000
DEPTH_MAX = 32
LISTING_MAX = 32 << 20
INODE_MASK = (1 << 53) - 1
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LINKED = (errno.ELOOP, errno.ENOTDIR)


def mtime_ms(s: os.stat_result) -> float:
    return s.st_mtime_ns / 1e6


def checkpoint_dir(run: str) -> str | None:
    spec, _ = read_object(run + "/spec.json")
    folder = (spec or {}).get("checkpoint_dir")
    if isinstance(folder, str) and folder.startswith("/"):
        return folder
    # A script may have removed the run directory, but not its checkpoints, which are next to it.
    beside = os.path.join(os.path.dirname(run), "checkpoints")
    return beside if os.path.isdir(beside) else None


def why_unreadable(e: OSError) -> str | None:
    if e.errno in (errno.EACCES, errno.EPERM):
        return "it cannot be read: permission denied"
    if e.errno == errno.ENAMETOOLONG:
        return "its path is too long"
    return "its path goes through a symlink" if e.errno == errno.ELOOP else None


def led_to(top: str, fd: int, prefix: str, name: str) -> str | None:
    """The path below `top` to which a symlink points, by its text; None if it leaves the folder."""
    target = os.readlink(name, dir_fd=fd)
    if os.path.isabs(target):
        # The script may use another name of the folder.
        below = (os.path.relpath(target, t) for t in (top, os.path.realpath(top)))
        path = next((p for p in below if not out_of(p)), "..")
    else:
        path = os.path.normpath(os.path.join(prefix, target))
    return None if out_of(path) else path


def out_of(path: str) -> bool:
    return path == ".." or path.startswith("../")


def folder_below(top: str, names: list[str]) -> int:
    """The folder at the end of `names`, opened without following any symlink (A3). The caller closes it."""
    fd = os.open(top, FOLDER)
    try:
        for name in names:
            fd, above = os.open(name, FOLDER, dir_fd=fd), fd
            os.close(above)
        return fd
    except OSError:
        os.close(fd)
        raise


def stat_below(top: str, path: str) -> os.stat_result:
    names = path.split("/")
    fd = folder_below(top, names[:-1])
    try:
        return os.stat(names[-1], dir_fd=fd, follow_symlinks=False)
    finally:
        os.close(fd)


def linked(top: str, fd: int, prefix: str, name: str) -> str | tuple[int, float, int, str, int]:
    """The numbers and the path of the plain file to which a symlink points; or why it does not count as one."""
    path = led_to(top, fd, prefix, name)
    if path is None:
        return "it is a symlink that leaves the checkpoint directory"
    try:
        s = stat_below(top, path)
    except OSError as e:
        if e.errno == errno.ENOENT:
            return "it is a broken symlink"
        if e.errno in LINKED:
            return "it is a link that leads through another link"
        raise
    if stat.S_ISDIR(s.st_mode):
        return "it is a symlink to a folder; the folder's files are listed under their own names"
    if stat.S_ISLNK(s.st_mode):
        return "it is a link that leads through another link"
    if not stat.S_ISREG(s.st_mode):
        return "it is a link to something other than a plain file"
    return (*numbers_of(s), path, stored_bytes(s))


def numbers_of(s: os.stat_result) -> tuple[int, float, int]:
    return s.st_size, mtime_ms(s), s.st_ino & INODE_MASK


def stored_bytes(s: os.stat_result) -> int:
    """The number of bytes on disk: less than the file's size if it has holes."""
    return min(s.st_size, s.st_blocks * 512)


def op_list(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """
    Every plain file below the checkpoint directory, one JSON array per line: path, size, time, inode, the path of the file that a symlink
    points to (or null), and the bytes that the disk holds of it; or path and refusal. Bytes of a name that are not UTF-8 appear as
    surrogates (PEP 383), in which form the other requests take them back.
    """
    top = checkpoint_dir(ask["dir"])
    rows, count = [], [0, 0]

    def add(*row: object) -> None:
        data = json.dumps(row).encode() + b"\n"
        rows.append(data)
        count[0] += 1
        count[1] += len(data)

    def walk(top: str, fd: int, prefix: str, depth: int) -> bool:
        """False once the bounds are reached."""
        with os.scandir(fd) as listed:
            entries = sorted(listed, key=lambda e: e.name)
        for entry in entries:
            path = prefix + entry.name
            try:
                s = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISDIR(s.st_mode):
                    if depth >= DEPTH_MAX:
                        add(path, "it is more than %d folders deep" % DEPTH_MAX)
                        continue
                    inner = os.open(entry.name, FOLDER, dir_fd=fd)
                    try:
                        if not walk(top, inner, path + "/", depth + 1):
                            return False
                    finally:
                        os.close(inner)
                    continue
                is_link = stat.S_ISLNK(s.st_mode)
                if not stat.S_ISREG(s.st_mode) and not is_link:
                    continue
                if count[0] >= FILES_MAX or count[1] >= LISTING_MAX:
                    add(path, "it and what follows it are beyond the first %d files" % count[0])
                    return False
                if is_link:
                    led = linked(top, fd, prefix, entry.name)
                    add(path, *((led, "link") if isinstance(led, str) else led))
                elif os.geteuid() != 0 and not os.access(entry.name, os.R_OK, dir_fd=fd):
                    add(path, "it cannot be read: permission denied")
                else:
                    add(path, *(numbers_of(s) + ((None, stored_bytes(s)) if stored_bytes(s) < s.st_size else ())))
            except OSError as e:
                why = why_unreadable(e)
                if why is not None:
                    add(path, why)
                elif e.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise  # a file that was rotated away meanwhile is not a failure; other errors are
        return True

    if top is not None:
        try:
            fd = os.open(top, FOLDER)
            try:
                walk(top, fd, "", 0)
            finally:
                os.close(fd)
        except OSError as e:
            if os.path.islink(top):
                add("(all)", "the checkpoint directory was replaced by a link")
            elif e.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
    return {"files": len(rows)}, b"".join(rows)
