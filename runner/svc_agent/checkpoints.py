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
# In each folder so many names that cannot be downloaded are listed by themselves; one row stands for the others.
REFUSED_MAX = 10
REFUSED_ROWS_MAX = 100000
REFUSED_BYTES_MAX = 8 << 20
# The walk ends after so many names that cannot be downloaded: each costs a look.
NAMES_MAX = 500000
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


def led_to(tops: tuple[str, str], fd: int, prefix: str, name: str) -> str | None:
    """The path below the folder of these names to which a symlink points, by its text; None if it leaves the folder."""
    target = os.readlink(name, dir_fd=fd)
    if os.path.isabs(target):
        # The script may use another name of the folder.
        below = (os.path.relpath(target, t) for t in tops)
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


def linked(tops: tuple[str, str], fd: int, prefix: str, name: str) -> str | tuple[int, float, int, str, int]:
    """The numbers and the path of the plain file to which a symlink points; or why it does not count as one."""
    path = led_to(tops, fd, prefix, name)
    if path is None:
        return "it is a symlink that leaves the checkpoint directory"
    try:
        s = stat_below(tops[0], path)
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


class Full(Exception):
    """The bounds are reached."""


class Refused:
    """The names of one folder that cannot be downloaded. `other` stands for `more` further ones without a row."""

    def __init__(self) -> None:
        self.rows = 0
        self.other: list[Any] = []
        self.more = 0


class Listing:
    """The same as src/providers/local/checkpoint-files.ts lists on the user's computer."""

    def __init__(self, top: str) -> None:
        self.top = top
        self.tops = (top, os.path.realpath(top))
        self.rows: list[bytes] = []
        self.files = self.bytes = self.names = self.refused_rows = self.refused_bytes = 0
        # Announced names that are listed.
        self.listed: set[str] = set()

    def add(self, *row: object) -> int:
        data = json.dumps(row).encode() + b"\n"
        self.rows.append(data)
        return len(data)

    def end(self, path: str, why: str) -> None:
        self.add(path, "it and what follows it " + why, "limit")
        raise Full

    def refuse(self, path: str, why: str, is_link: bool, refused: Refused) -> None:
        if self.names >= NAMES_MAX or self.refused_rows >= REFUSED_ROWS_MAX or self.refused_bytes >= REFUSED_BYTES_MAX:
            self.end(path, "come after %d names that cannot be downloaded" % self.names)
        self.names += 1
        if refused.other:
            refused.more += 1
            if not is_link:
                refused.other[2] = ""
            return
        self.refused_rows += 1
        refused.rows += 1
        if refused.rows <= REFUSED_MAX:
            self.refused_bytes += self.add(path, why, *(["link"] if is_link else []))
        else:
            refused.other = [path, why, "link" if is_link else "", 0]

    def finish(self, refused: Refused) -> None:
        if refused.more > 0:
            names = "name" if refused.more == 1 else "names"
            refused.other[1] += "; %d more %s of its folder cannot be downloaded either" % (refused.more, names)
            refused.other[3] = refused.more
        if refused.other:
            self.refused_bytes += self.add(*refused.other)

    def add_file(self, fd: int, prefix: str, name: str, refused: Refused) -> None:
        path = prefix + name
        is_link = False
        try:
            s = os.stat(name, dir_fd=fd, follow_symlinks=False)
            is_link = stat.S_ISLNK(s.st_mode)
            if is_link:
                found = linked(self.tops, fd, prefix, name)
                if isinstance(found, str):
                    self.refuse(path, found, True, refused)
                    return
                row: tuple[object, ...] = found
            elif not stat.S_ISREG(s.st_mode):
                return
            elif os.geteuid() != 0 and not os.access(name, os.R_OK, dir_fd=fd):
                self.refuse(path, "it cannot be read: permission denied", False, refused)
                return
            else:
                row = numbers_of(s) + ((None, stored_bytes(s)) if stored_bytes(s) < s.st_size else ())
        except OSError as e:
            self.failed(path, e, is_link, refused)
            return
        if self.files >= FILES_MAX or self.bytes >= LISTING_MAX:
            self.end(path, "are beyond the first %d files" % self.files)
        self.files += 1
        self.bytes += self.add(path, *row)

    def failed(self, path: str, e: OSError, is_link: bool, refused: Refused) -> None:
        why = why_unreadable(e)
        if why is not None:
            self.refuse(path, why, is_link, refused)
        elif e.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise e  # a file that was rotated away meanwhile is not a failure; other errors are

    def walk(self, fd: int, prefix: str, depth: int) -> None:
        """The files of a folder come before its subfolders: what lies deep must not take the places of what lies higher."""
        with os.scandir(fd) as listed:
            entries = sorted(listed, key=lambda e: os.fsencode(e.name))
        refused = Refused()
        folders = []
        try:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif prefix + entry.name not in self.listed:
                    self.add_file(fd, prefix, entry.name, refused)
            for name in folders:
                path = prefix + name
                if path in self.listed:
                    continue
                if depth >= DEPTH_MAX:
                    self.refuse(path, "it is more than %d folders deep" % DEPTH_MAX, False, refused)
                    continue
                try:
                    inner = os.open(name, FOLDER, dir_fd=fd)
                    try:
                        self.walk(inner, path + "/", depth + 1)
                    finally:
                        os.close(inner)
                except OSError as e:
                    self.failed(path, e, False, refused)
        finally:
            self.finish(refused)

    def is_listed(self, path: str) -> bool:
        names = path.split("/")
        return any("/".join(names[: i + 1]) in self.listed for i in range(len(names)))

    def add_named(self, announced: list[object]) -> None:
        """Announced names: the files first, each of which needs one place."""
        folders = []
        for path in announced:
            names = path.split("/") if isinstance(path, str) else [""]
            if not isinstance(path, str) or any(n in ("", ".", "..") or "\0" in n for n in names):
                continue
            if len(names) > DEPTH_MAX or self.is_listed(path):
                continue
            try:
                fd = folder_below(self.top, names[:-1])
            except (OSError, UnicodeError):
                continue
            try:
                if stat.S_ISDIR(os.stat(names[-1], dir_fd=fd, follow_symlinks=False).st_mode):
                    folders.append(path)
                    continue
                self.add_file(fd, path[: -len(names[-1])], names[-1], Refused())
                self.listed.add(path)
            except (OSError, UnicodeError):
                continue
            finally:
                os.close(fd)
        for path in folders:
            if self.is_listed(path):
                continue
            try:
                fd = folder_below(self.top, path.split("/"))
            except OSError:
                continue
            try:
                self.walk(fd, path + "/", path.count("/") + 1)
                self.listed.add(path)
            finally:
                os.close(fd)


def op_list(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """
    Every plain file below the checkpoint directory, one JSON array per line: path, size, time, inode, the path of the file that a symlink
    points to (or null), and the bytes that the disk holds of it; or path, refusal, a mark ("link": a symlink; "limit": the listing ends
    here) and for how many further names it stands. `names` in the request are listed first. Bytes of a name that are not UTF-8 appear as
    surrogates (PEP 383), in which form the other requests take them back.
    """
    top = checkpoint_dir(ask["dir"])
    if top is None:
        return {"files": 0, "full": False}, b""
    listing, full = Listing(top), False
    try:
        fd = os.open(top, FOLDER)
        try:
            listing.add_named(ask.get("names") or [])
            listing.walk(fd, "", 0)
        except Full:
            full = True
        finally:
            os.close(fd)
    except OSError as e:
        if os.path.islink(top):
            listing.add("(all)", "the checkpoint directory was replaced by a link")
        elif e.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
    return {"files": len(listing.rows), "full": full}, b"".join(listing.rows)
