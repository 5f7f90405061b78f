"""Reads the command line and runs its command in the run directory."""

from __future__ import annotations

import os
import sys

from .commands import close_inherited, command_start, command_status, command_stop, command_sweep, fail


def main(argv: list[str]) -> None:
    usage = "usage: svc_runner.py start|stop|status|sweep RUN_DIR [--grace SECONDS]"
    if len(argv) not in (3, 5) or argv[1] not in ("start", "stop", "status", "sweep") or sys.version_info < (3, 8):
        fail(usage if sys.version_info >= (3, 8) else "Python 3.8 or newer is needed", 2)
    grace = None
    if len(argv) == 5:
        try:
            grace = max(0.0, float(argv[4]))
        except ValueError:
            fail(usage, 2)
        if argv[3] != "--grace" or grace != grace:
            fail(usage, 2)
    close_inherited()
    try:
        os.chdir(argv[2])
        if argv[1] == "start":
            command_start()
        elif argv[1] == "stop":
            command_stop(grace)
        elif argv[1] == "status":
            command_status()
        else:
            command_sweep(grace or 0.0)
    except OSError as e:
        fail("%s: %s" % (argv[2], e))


if __name__ == "__main__":
    main(sys.argv)
