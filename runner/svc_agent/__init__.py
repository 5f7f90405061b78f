"""The control plane's hands on a machine: one process per SSH connection, fed over stdin, gone when that closes.

docs/internals/agent.md tells the protocol; the rules below are cited by code and tests.

A1. It owns nothing: runs belong to their runner, the machine's end to its guard. Killing it at any moment loses nothing.
A2. It reads and answers; the runner starts and stops. What both know of a run directory is in docs/internals/runner.md.
A3. Files of the script are opened without following links and by descriptor, below the checkpoint directory only. A link to a plain file
    there is listed with the path of that file, which is read in its place.
A4. Bytes are named by offset, files by size, time and inode: who asks again after a lost link gets the same or a refusal.

Python 3.8 or newer and its standard library. It is not a file on the machine: its text comes in before the first request.
"""
