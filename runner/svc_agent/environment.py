"""The environment that a run inherits on this machine."""

from __future__ import annotations

import os

from .files import first_line, read_bytes

# Variables of rental services and of svc: a script does not need them. The owner's own variables arrive with the
# run's specification.
DROPPED = ("SVC_", "PET_", "SSH_", "SUDO_")
PROVIDERS = ("RUNPOD", "VAST", "VASTAI", "PODHOST", "MARKET", "CONTAINER", "POD", "CLOUDVM", "NOTEBOOK")
PATHS = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH")
INIT = ("systemd", "init", "launchd", "runit", "openrc-init")


def is_dropped(name: str) -> bool:
    return name.startswith(DROPPED) or (name.endswith("_API_KEY") and name[:-8] in PROVIDERS)


def first_process_variables() -> dict[str, str]:
    try:
        rows = (read_bytes("/proc/1/environ") or b"").split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(row).split("=", 1) for row in rows if row.find(b"=") > 0)


def first_process_environment() -> dict[str, str]:
    """The environment of the container's first process, which SSH sessions do not see. Empty on a machine with its
    own init."""
    return {} if first_line("/proc/1/comm") in INIT else first_process_variables()


def base_environment() -> dict[str, str]:
    """The environment that a run inherits: the session's and the container image's; search paths are joined."""
    session, first = dict(os.environ), first_process_environment()
    env = dict(first, **session)
    for name in PATHS:
        parts = [p for source in (first, session) for p in source.get(name, "").split(":") if p]
        if parts:
            env[name] = ":".join(dict.fromkeys(parts))
    keys = {value for name, value in env.items() if value and name.endswith("_API_KEY") and is_dropped(name)}
    return {name: value for name, value in env.items() if not is_dropped(name) and value not in keys}
