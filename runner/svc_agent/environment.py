"""The environment that a run inherits on this machine."""

from __future__ import annotations

import os

from .files import first_line, read_bytes

# What rents machines or names one: a script has no use for it. The owner's own come by the run's specification.
DROPPED = ("SVC_", "PET_", "SSH_", "SUDO_")
PROVIDERS = ("RUNPOD", "VAST", "VASTAI", "PODHOST", "MARKET", "CONTAINER", "POD", "CLOUDVM", "NOTEBOOK")
PATHS = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH")
INIT = ("systemd", "init", "launchd", "runit", "openrc-init")


def is_dropped(name):
    return name.startswith(DROPPED) or (name.endswith("_API_KEY") and name[:-8] in PROVIDERS)


def first_process_variables():
    try:
        rows = (read_bytes("/proc/1/environ") or b"").split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(row).split("=", 1) for row in rows if row.find(b"=") > 0)


def first_process_environment():
    """What the container was started with: SSH sessions do not see it. Empty on a machine with an init of its own."""
    return {} if first_line("/proc/1/comm") in INIT else first_process_variables()


def base_environment():
    """What a run inherits: the session's, with what the container's image set; search paths of both."""
    session, first = dict(os.environ), first_process_environment()
    env = dict(first, **session)
    for name in PATHS:
        parts = [p for source in (first, session) for p in source.get(name, "").split(":") if p]
        if parts:
            env[name] = ":".join(dict.fromkeys(parts))
    keys = {value for name, value in env.items() if value and name.endswith("_API_KEY") and is_dropped(name)}
    return {name: value for name, value in env.items() if not is_dropped(name) and value not in keys}
