"""Finds and runs short commands of the machine."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence


def which(name: str, path: str, more: Sequence[str] = ()) -> str | None:
    for folder in [f for f in path.split(":") if f.startswith("/")] + list(more):
        candidate = "%s/%s" % (folder, name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def outcome_of(argv: list[str], seconds: float) -> tuple[int | None, str, str]:
    """Exit code, standard output and standard error of a short command; the exit code is None if it does not end in
    time."""
    import subprocess

    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()  # a query that hangs in its driver cannot be killed; the agent does not wait for it
        return None, "", ""
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def output_of(argv: list[str], seconds: float) -> str | None:
    """The output of a short command; None if it fails or takes too long."""
    try:
        code, out, _ = outcome_of(argv, seconds)
    except OSError:
        return None
    return out if code == 0 else None
