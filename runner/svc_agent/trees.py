"""Receives, compares and removes files from the control plane."""

from __future__ import annotations

import errno
import json
import os
import stat

from .files import unlink
from .refusal import Refusal
from .runner_calls import BASE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def below_base(path: str) -> str:
    """Returns `path` if its text is inside a machine's folder below the home."""
    root = os.path.join(os.path.expanduser("~"), BASE) + "/"
    if os.path.normpath(path) != path or not path.startswith(root):
        raise Refusal("refused", "%s is not below %s" % (path, root))
    return path


def compare_file(root: str, row: list[Any], ask: dict[str, Any]) -> str | None:
    """None, or the reason why the file is not the expected one; it is then removed if requested."""
    import hashlib

    path, size, sha256 = row
    names = path.split("/")
    if "\0" in path or any(n in ("", ".", "..") for n in names):
        raise Refusal("refused", "a path leads out of the folder")
    full = "%s/%s" % (root, path)
    why = None
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR):
            return "is missing"
        why = "cannot be read (%s)" % errno.errorcode.get(e.errno or 0, e.errno)
    else:
        try:
            s = os.fstat(fd)
            if not stat.S_ISREG(s.st_mode):
                why = "is not a plain file"
            elif s.st_size != size:
                why = "has %d bytes, not %d" % (s.st_size, size)
            elif ask["digests"]:
                digest = hashlib.sha256()
                while True:
                    data = os.read(fd, 1 << 20)
                    if not data:
                        break
                    digest.update(data)
                if digest.hexdigest() != sha256:
                    why = "has different content"
        finally:
            os.close(fd)
    if why is not None and ask["drop"]:
        unlink(full)
    return why


def op_compare(ask: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """The files below `root` that are missing or not as expected. Hashing releases Python's lock."""
    from concurrent.futures import ThreadPoolExecutor

    root, rows = below_base(ask["root"]), json.loads(body)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda row: compare_file(root, row, ask), rows))
    wrong = [(row[0], why) for row, why in zip(rows, found) if why is not None]
    return {"wrong": len(wrong)}, json.dumps(wrong).encode()


def op_put(ask: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Receives the next piece of a large file, and returns how much of it has arrived; the last piece moves it into
    place."""
    import hashlib

    path, size, ms = below_base(ask["path"]), int(ask["size"]), int(ask["mtime"])
    folder, name = os.path.split(path)
    try:
        s = os.stat(path, follow_symlinks=False)
        # In whole numbers: a float of the nanoseconds may be one millisecond less.
        if stat.S_ISREG(s.st_mode) and s.st_size == size and s.st_mtime_ns // 1000000 == ms:
            return {"have": size, "whole": True}, b""
    except FileNotFoundError:
        os.makedirs(folder, 0o755, exist_ok=True)
    which_file = hashlib.sha256(("%s %d %d" % (name, size, ms)).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    part = "%s/.svc-part-%s" % (folder, which_file)
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        have = os.fstat(fd).st_size
        if body and have == int(ask["offset"]) and have + len(body) <= size:
            view = memoryview(body)
            os.lseek(fd, have, os.SEEK_SET)
            while view:
                view = view[os.write(fd, view) :]
            have += len(body)
    finally:
        os.close(fd)
    if have < size:
        return {"have": have, "whole": False}, b""
    os.utime(part, ns=(ms * 1000000, ms * 1000000))
    os.rename(part, path)
    return {"have": size, "whole": True}, b""


def op_mkdir(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    os.makedirs(below_base(ask["path"]), 0o700, exist_ok=True)
    return {}, b""


def op_remove_tree(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    import shutil

    path = below_base(ask["path"])
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    return {}, b""
