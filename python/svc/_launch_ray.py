"""Ray on all nodes of a run, and the script on the first. Called by ``_launch.py``, see there.

Y1. The head listens on the address that the nodes have for each other, and accepts only clients with the token (Ray
    2.52 and newer).
Y2. The other nodes end when the head reports the end of the script, with any result: only the head reports how it
    ended.
Y3. A node whose Ray ends before that, or that loses the head, fails.
"""

from __future__ import annotations

import hmac
import os
import select
import signal
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

PORT = 6379
# The port at which the head announces the end to the other nodes.
END_PORT = 6378
ALIVE_SECONDS = 300
STOP_SECONDS = 10
# Total time for announcing the end.
END_SECONDS = 60
LOOK_SECONDS = 0.2
WAIT_FOR_NODES = """
import sys, time, ray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
end = time.monotonic() + float(sys.argv[3])
while True:
    alive = sum(1 for node in ray.nodes() if node["Alive"])
    if alive >= int(sys.argv[2]) or time.monotonic() > end:
        break
    time.sleep(0.5)
ray.shutdown()
sys.exit(0 if alive >= int(sys.argv[2]) else 3)
"""


class Failed(Exception):
    pass


def main(command: list[str], say: Callable[[str], None], missing: int) -> int:
    from importlib import util

    if util.find_spec("ray") is None:
        say("launcher_missing: ray: ray is not installed for %s" % sys.executable)
        return missing
    nodes, node = int(os.environ.get("SVC_NUM_NODES", "1")), int(os.environ.get("SVC_NODE_RANK", "0"))
    head = os.environ.get("SVC_MASTER_ADDR") or "127.0.0.1"
    ray = Ray(head, os.environ.get("SVC_GPUS_PER_NODE", "0"))
    try:
        return on_head(ray, command, nodes, say) if node == 0 else on_other(ray, say)
    except Failed as failed:
        say("Ray: %s" % failed)
        return 1
    finally:
        ray.stop()


def on_head(ray: Ray, command: list[str], nodes: int, say: Callable[[str], None]) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as door:
        if nodes > 1:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind((ray.head, END_PORT))
            door.listen(nodes)
        ray.start(["--head", "--node-ip-address=%s" % ray.head, "--port=%d" % PORT, "--include-dashboard=false", "--disable-usage-stats"])
        wait_for(ray.head, PORT, ray).close()
        code = watched([sys.executable, "-c", WAIT_FOR_NODES, ray.address, str(nodes), str(ALIVE_SECONDS)], ray)
        if code != 0:
            raise Failed("not all of %d nodes joined within %d s" % (nodes, ALIVE_SECONDS))
        say("Ray: %d of %d nodes are alive" % (nodes, nodes))
        code = watched(command, ray)
        if nodes > 1:
            tell_the_end(door, nodes - 1)
    if code < 0:
        say("the script was ended by %s" % signal.Signals(-code).name)
        return 128 - code
    return code


def on_other(ray: Ray, say: Callable[[str], None]) -> int:
    wait_for(ray.head, PORT, ray).close()
    ray.start(["--address=%s" % ray.address])
    with wait_for(ray.head, END_PORT, ray) as wire:
        wire.sendall(token())
        while True:
            if select.select([wire], [], [], LOOK_SECONDS)[0]:
                said = wire.recv(16)
                if said.startswith(b"end"):
                    say("Ray: the script on the first node has ended")
                    return 0
                raise Failed("the first node is gone")
            ray.check()


def tell_the_end(door: socket.socket, others: int) -> None:
    """Tell every other node that shows the token; they connected long ago, and wait in the listen queue. A connection
    without the token does not use up a node's turn."""
    door.settimeout(2)
    end = time.monotonic() + END_SECONDS
    while others > 0 and time.monotonic() < end:
        try:
            wire, _address = door.accept()
        except OSError:  # no client is waiting: one of them is gone, or slow
            others -= 1
            continue
        try:
            with wire:
                wire.settimeout(2)
                if hmac.compare_digest(wire.recv(256), token()):
                    others -= 1
                    wire.sendall(b"end")
        except OSError:
            continue


def token() -> bytes:
    return (os.environ.get("RAY_AUTH_TOKEN") or "-").encode()[:256]


def watched(command: list[str], ray: Ray) -> int:
    """The exit code of the command; fails if Ray ends earlier."""
    process = subprocess.Popen(command, env=dict(os.environ, RAY_ADDRESS=ray.address))
    while True:
        try:
            return process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            try:
                ray.check()
            except Failed:
                process.kill()
                raise


def wait_for(host: str, port: int, ray: Ray) -> socket.socket:
    """Returns a connection to the port, as soon as the port is open."""
    end = time.monotonic() + ALIVE_SECONDS
    while True:
        try:
            return socket.create_connection((host, port), 5)
        except OSError as error:
            if time.monotonic() > end:
                raise Failed("no process answers at %s:%d: %s" % (host, port, error)) from error
        ray.check()
        time.sleep(LOOK_SECONDS)


class Ray:
    def __init__(self, head: str, gpus: str) -> None:
        self.head = head
        self.address = "%s:%d" % (head, PORT)
        self._gpus = gpus
        self._process: subprocess.Popen[bytes] | None = None
        self._log = os.path.join(os.environ.get("SVC_RUN_DIR") or ".", "ray-start.log")

    def start(self, options: list[str]) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-gpus=%s" % self._gpus, *options]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def check(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        with open(self._log, "rb") as log:
            os.write(2, log.read()[-4000:])
        raise Failed("ray start ended with code %d" % self._process.returncode)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
