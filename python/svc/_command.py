"""Calls that start no control plane.

Q1. Reading starts no control plane. A control plane that is started for a call resumes every run that a dead one
    has left, and ends them when it ends: with this process.
Q2. For one kill or one reconcile, the command does the work and waits for it; it resumes nothing else.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

from svc import _launcher
from svc._control_plane import as_object, error_in, find_cli
from svc._errors import SvcError, make_error
from svc._http import home


def asked(command: str, *rest: str) -> Any:
    """The answer of ``svc COMMAND --json …``. Raises the error that the command prints."""
    program = find_cli()
    done = subprocess.run(
        [*program, command, "--json", *rest],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**_launcher.extras_for(program), **os.environ, "SVC_HOME": str(home())},
        check=False,
    )
    answer = as_object(done.stdout)
    if answer:
        return answer
    told = error_in(done.stderr)
    if isinstance(told, dict) and told.get("code"):
        fields = [(str(f.get("field")), str(f.get("message"))) for f in told.get("errors") or [] if isinstance(f, dict)]
        raise make_error(str(told["code"]), str(told.get("message", "")), str(told.get("hint", "")), fields)
    why = told or f"it ended with {done.returncode}"
    raise SvcError("start_failed", f"`svc {command}` failed: {why}.", "Run `svc doctor`: it lists what is missing on this computer.")
