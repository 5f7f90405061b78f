"""Finds files that the script has saved in the project's folder: they look like results, and nothing downloads them."""

from __future__ import annotations

import heapq
import itertools
import json
import os
import time

from .run_folder import read_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

NAMED_MAX = 3
# The walk shares the machine with the script.
ENTRIES_MAX = 50000
# A folder with more names holds data.
FOLDER_MAX = 10000
WALK_SECONDS = 5


def op_beside(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """How many files with one of `endings`, or with one of `parts` in their name, were written since the script began; and
    the largest ones, as [path, bytes]."""
    status = read_status(ask["dir"])
    began = (status or {}).get("started_at_ms")
    found: list[tuple[int, str]] = []
    if isinstance(began, int):
        endings, parts = tuple(ask["endings"]), ask["parts"]
        top = os.path.join(os.path.dirname(ask["dir"]), "project")
        for path, entry in walk(top):
            if not entry.name.endswith(endings) and not any(part in entry.name for part in parts):
                continue
            try:
                s = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if s.st_size > 0 and s.st_mtime_ns // 1000000 >= began:
                found.append((s.st_size, path))
    found.sort(reverse=True)
    largest = [[path, size] for size, path in found[:NAMED_MAX]]
    return {"files": len(found), "bytes": sum(size for size, _ in found)}, json.dumps(largest).encode()


def walk(top: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Plain files below a folder, without hidden folders, caches and environments. Follows no symlinks, and ends early in a
    large tree. Folders with many neighbours come last: the classes of a data set must not keep it from a folder of results."""
    waiting, seen, end = [(0, "")], 0, time.monotonic() + WALK_SECONDS
    while waiting:
        neighbours, below = heapq.heappop(waiting)
        try:
            with os.scandir(os.path.join(top, below)) as entries:
                listed = list(itertools.islice(entries, FOLDER_MAX + 1 if below else ENTRIES_MAX))
        except OSError:
            continue
        seen += len(listed)
        if seen > ENTRIES_MAX or time.monotonic() > end:
            return
        if (below and len(listed) > FOLDER_MAX) or any(entry.name == "pyvenv.cfg" for entry in listed):
            continue
        folders = []
        for entry in listed:
            path = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in ("__pycache__", "node_modules", "wandb"):
                    folders.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path, entry
        for path in folders:
            heapq.heappush(waiting, (max(neighbours, len(folders)), path))
