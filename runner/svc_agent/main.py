"""Greets the control plane and reads its requests."""

from __future__ import annotations

import os
import sys

from .channel import Channel


def main(nonce: str) -> None:
    # Only frames may reach the channel, even if a library prints.
    out = os.dup(1)
    os.dup2(2, 1)
    os.umask(0o077)
    os.write(out, ("SVC-AGENT %s\n" % nonce).encode())
    Channel(out).listen(sys.stdin.buffer)
