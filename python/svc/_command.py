"""Calls that start no control plane.

Q1. Reading starts no control plane. A control plane that is started for a call resumes every run that a dead one
    has left, and ends them when it ends: with this process.
Q2. For one kill or one reconcile, the command does the work and waits for it; it resumes nothing else.
Q3. A refusal names the caller's arguments, not the flags of the command.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

from svc import _launcher
from svc._control_plane import as_object, error_in, find_cli
from svc._errors import ConfigError, SvcError, make_error
from svc._http import home

# Arguments that have another name than the command's flag.
_ARGUMENTS = {"from": "since", "to": "until", "tag": "tags", "max-runtime": "max_runtime_minutes", "checkpoint": "names"}


def asked(command: str, *rest: str) -> Any:
    """The answer of ``svc COMMAND --json …``. Raises the error that the command prints."""
    program = find_cli()
    try:
        done = subprocess.run(
            [*program, command, "--json", *rest],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**_launcher.extras_for(program), **os.environ, "SVC_HOME": str(home())},
            check=False,
        )
    except ValueError as error:  # a NUL character, or text that is not Unicode
        raise ConfigError("invalid_request", f"An argument cannot be used: {error}.", "Nothing was changed.") from error
    answer = as_object(done.stdout)
    if answer:
        return answer
    told = error_in(done.stderr)
    if isinstance(told, dict) and told.get("code"):
        fields = [(str(f.get("field")), str(f.get("message"))) for f in told.get("errors") or [] if isinstance(f, dict)]
        message, hint = (str(told.get(part, "")) for part in ("message", "hint"))
        if told["code"] == "usage":
            message, hint = _as_arguments(message), _as_arguments(hint)
        raise make_error(str(told["code"]), message, hint, fields)
    why = told or f"it ended with {done.returncode}"
    raise SvcError("start_failed", f"`svc {command}` failed: {why}.", "Run `svc doctor`: it lists what is missing on this computer.")


def _as_arguments(words: str) -> str:
    """Q3. Commands that the text quotes stay as they are."""
    return re.sub(
        r"`svc [^`]*`|--([a-z][a-z-]*)",
        lambda found: _ARGUMENTS.get(found[1], found[1].replace("-", "_")) if found[1] else found[0],
        words,
    )
