"""Learns that the provider is about to take the machine back (docs/internals/runner.md)."""

from __future__ import annotations

import time

from .system import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOTICE_EVERY = 1.0
# After a failure: an address without a server may hold the loop up for the timeout.
NOTICE_AGAIN = 10.0
NOTICE_TIMEOUT = 0.2
NOTICE_BYTES_MAX = 16 << 10


class Notice:
    """Polls one address of the machine's own network; a failure there never disturbs the run."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.address = (str(order["host"]), int(order["port"]))
        self.says = str(order["says"]).encode()
        self.grace = float(order["grace_seconds"])
        lines = ["GET %s HTTP/1.1" % order["path"], "Host: %s:%d" % self.address, "Connection: close"]
        lines += ["%s: %s" % header for header in order["headers"].items()]
        self.request = "\r\n".join([*lines, "", ""]).encode()
        self.due = 0.0
        self.complained = False

    def look(self, now: float) -> bool:
        """Whether the provider announces the end of the machine."""
        if now < self.due:
            return False
        self.due = now + NOTICE_EVERY
        try:
            answer = self.ask()
        except OSError as e:
            self.due = time.monotonic() + NOTICE_AGAIN
            if not self.complained:
                self.complained = True
                complain("checking for a preemption notice: %s" % e)
            return False
        head, _, body = answer.partition(b"\r\n\r\n")
        # As a word: a body in chunks has their lengths around it.
        return head.split(b" ", 2)[1:2] == [b"200"] and self.says in body.split()

    def ask(self) -> bytes:
        import socket  # most runs never need it

        answer = b""
        with socket.create_connection(self.address, NOTICE_TIMEOUT) as connection:
            connection.sendall(self.request)
            while len(answer) < NOTICE_BYTES_MAX:
                part = connection.recv(4096)
                if not part:
                    break
                answer += part
        return answer


def notice_of(spec: dict[str, Any]) -> Notice | None:
    try:
        return Notice(spec["notice"]) if spec.get("notice") else None
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        complain("checking for a preemption notice: %r" % e)
        return None
