"""Works for the control plane on a machine: one process per SSH connection, which reads requests from stdin and
ends when that closes.

docs/internals/agent.md describes the protocol; the rules below are cited by code and tests.

A1. It owns nothing: runs belong to their runner, the machine's end to its guard. Killing it at any moment loses nothing.
A2. It reads and answers; the runner starts and stops. docs/internals/runner.md describes the run directory that
    both use.
A3. Files of the script are opened by descriptor and without following symlinks, below the checkpoint directory
    only. A symlink to a plain file there is listed with the path of that file, which is read instead.
A4. Bytes are addressed by offset, files by size, time and inode: a request that is repeated after a lost link gets
    the same answer or a refusal.

Python 3.8 or newer and its standard library. It is not a file on the machine: its source arrives before the first
request.
"""
