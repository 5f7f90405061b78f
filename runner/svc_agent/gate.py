"""Runs the gate (runner/svc_gate): starts it, returns its results so far, and ends it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from .environment import base_environment
from .log import wall_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any

LINES_MAX = 64
LINE_BYTES_MAX = 65536
WAIT_SECONDS_MAX = 30.0
# The agent passes the program over stdin, and the program passes itself to its children in the same way, so no file
# of it is on the machine.
LOAD_GATE = "import sys; t = sys.stdin.buffer.read(); exec(compile(t, 'svc_gate', 'exec')); main(t)"


class Gate:
    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.results: dict[str, Any] = {}
        self.told: set[str] = set()
        self.over = True
        self.changed = threading.Condition()
        self.began = 0.0

    def start(self, ask: dict[str, Any], text: bytes) -> None:
        import subprocess

        with self.changed:
            if self.child is not None:
                return
            argv = [sys.executable, "-I", "-S", "-B", "-c", LOAD_GATE, json.dumps(ask)]
            self.child = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=base_environment(),
                start_new_session=True,
            )
            self.over = False
            self.began = time.monotonic()
        threading.Thread(target=self.read, daemon=True).start()
        if self.child.stdin is not None:
            self.child.stdin.write(text)
            self.child.stdin.close()

    def read(self) -> None:
        assert self.child is not None and self.child.stdout is not None
        for _ in range(LINES_MAX):
            row = self.child.stdout.readline(LINE_BYTES_MAX)
            if not row.endswith(b"\n"):
                break
            try:
                line = json.loads(row)
            except ValueError:
                break
            with self.changed:
                if isinstance(line.get("probe"), str):
                    self.results[line["probe"]] = line
                self.changed.notify_all()
            if line.get("over"):
                break
        self.end()

    def end(self) -> None:
        """Kills all processes of the gate. One that hangs in a driver ends when the driver lets it."""
        import signal

        with self.changed:
            if self.child is not None and not self.over:
                try:
                    os.killpg(self.child.pid, signal.SIGKILL)
                except OSError:
                    pass
                self.child.poll()
            self.over = True
            self.changed.notify_all()

    def look(self, need: list[str], seconds: float) -> dict[str, Any]:
        """Waits until all probes of `need` have answered, the gate has ended, or `seconds` have passed."""
        end = time.monotonic() + min(seconds, WAIT_SECONDS_MAX)
        with self.changed:
            while not self.over and any(name not in self.results for name in need) and time.monotonic() < end:
                self.changed.wait(max(0.0, end - time.monotonic()))
            age = time.monotonic() - self.began if self.child is not None else None
            told, self.told = sorted(self.told), set(self.results)
            return {
                "started": self.child is not None,
                "over": self.over,
                "results": list(self.results.values()),
                "told": told,
                "age_ms": None if age is None else int(age * 1000),
                "now_ms": wall_ms(),
            }


GATE = Gate()


def op_gate(ask: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    GATE.start(ask["ask"], body)
    return {}, b""


def op_gate_look(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    found = GATE.look(ask["need"], float(ask["wait_ms"]) / 1000)
    if ask["end"]:
        GATE.end()
    return found, b""
