"""Runs each probe of `PROBES` in main.py in a process, and ends all of them in time (H1, H2)."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Mapping, Sequence, Tuple

    # Probe name → the function that measures, and its timeout in seconds.
    Probes = Mapping[str, Tuple[Callable[[Dict[str, Any]], Dict[str, Any]], int]]

LINE_MAX = 32768
# Reads the program from stdin, as the agent starts it.
LOAD = "import sys; t = sys.stdin.buffer.read(); exec(compile(t, 'svc_gate', 'exec')); main(t)"


class Probe:
    def __init__(self, name: str, pid: int, out: int, deadline: float) -> None:
        self.name = name
        self.pid = pid
        self.out = out
        self.deadline = deadline
        self.said = b""


class Conductor:
    """Starts the probes and prints their results. `probes` maps each name to its function and its timeout in
    seconds."""

    def __init__(
        self,
        text: bytes,
        ask: dict[str, Any],
        probes: Probes,
        in_image: Sequence[str],
        late: str,
        ready: Callable[[dict[str, Any]], bool | None],
    ) -> None:
        self.text = text
        self.ask = ask
        self.probes = probes
        self.in_image = in_image
        self.late = late
        self.ready = ready
        self.end = time.monotonic() + float(ask["seconds"])
        self.results: dict[str, Any] = {}
        self.selector = selectors.DefaultSelector()

    def run(self) -> None:
        signal.alarm(int(float(self.ask["seconds"])) + 3)  # ends this process even if a child cannot be killed
        names = [name for name in self.probes if name in self.ask["probes"]]
        for name in names:
            if name != self.late:
                self.start(name)
        waiting = self.late in names
        while waiting or self.selector.get_map():
            if waiting:
                ready = self.ready(self.results)
                # Stops waiting once the answer is known, or once no running probe could still give it.
                waiting = ready is None and bool(self.selector.get_map())
                if ready:
                    self.start(self.late)
            if self.selector.get_map():
                self.step()
        self.say({"over": True})

    def start(self, name: str) -> None:
        out, into = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(into, 1)
                self.measure(name)
            finally:
                os._exit(0)
        os.close(into)
        probe = Probe(name, pid, out, min(self.end, time.monotonic() + self.probes[name][1]))
        self.selector.register(out, selectors.EVENT_READ, probe)

    def measure(self, name: str) -> None:
        """Runs in the probe's own process."""
        if name in self.in_image:
            # Only the image's own Python finds the image's packages, so the probe becomes a process of that Python.
            # It reads this program over stdin.
            source, into = os.pipe()
            if os.fork() == 0:
                try:
                    os.close(source)
                    view = memoryview(self.text)
                    while view:
                        view = view[os.write(into, view) :]
                finally:
                    os._exit(0)
            os.close(into)
            os.dup2(source, 0)
            python = self.ask["python"]
            os.execv(python, [python, "-B", "-c", LOAD, json.dumps(self.ask), name])
        one(self.probes, name, self.ask)

    def step(self) -> None:
        probes = [key.data for key in self.selector.get_map().values()]
        wait = max(0.0, min(probe.deadline for probe in probes) - time.monotonic())
        for key, _ in self.selector.select(wait):
            probe = key.data
            data = os.read(key.fd, LINE_MAX)
            probe.said += data
            if not data or len(probe.said) > LINE_MAX:
                self.over(probe, self.answer_of(probe))
        now = time.monotonic()
        for probe in probes:
            if probe.deadline <= now and probe.name not in self.results:
                self.over(probe, {"late": True})

    def answer_of(self, probe: Probe) -> dict[str, Any]:
        try:
            answer = json.loads(probe.said)
            if isinstance(answer, dict):
                return answer
        except ValueError:
            pass
        return {"error": "its process ended without an answer"}

    def over(self, probe: Probe, answer: dict[str, Any]) -> None:
        self.selector.unregister(probe.out)
        os.close(probe.out)
        try:
            os.kill(probe.pid, signal.SIGKILL)  # a process that hangs in a driver stays until the driver lets it go
            os.waitpid(probe.pid, os.WNOHANG)
        except OSError:
            pass
        self.results[probe.name] = answer
        self.say(dict(answer, probe=probe.name))

    def say(self, line: dict[str, Any]) -> None:
        try:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
        except OSError:
            os.killpg(0, signal.SIGKILL)  # no process reads this output any more


def one(probes: Probes, name: str, ask: dict[str, Any]) -> None:
    answer: dict[str, Any]
    try:
        answer = {"ok": probes[name][0](ask)}
    except Exception as e:  # a driver or an image may raise anything: the message is the finding
        answer = {"error": " ".join(("%s: %s" % (type(e).__name__, e)).split())[:400]}
    data = memoryview((json.dumps(answer) + "\n").encode())
    while data:
        data = data[os.write(1, data) :]
