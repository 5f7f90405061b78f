"""The launcher's checks before it starts anything."""

import os
import socket
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = str(ROOT / "python" / "svc" / "_launch.py")
sys.path.insert(0, str(ROOT / "python" / "svc"))

import _launch
import _launch_ray

sys.path.pop(0)


class RayEnd(unittest.TestCase):
    def test_foreign_connections_do_not_count_as_nodes(self):
        self.addCleanup(os.environ.pop, "RAY_AUTH_TOKEN", None)
        os.environ["RAY_AUTH_TOKEN"] = "right"
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            door.listen(8)
            wires = []
            for said in (b"wrong", b"", b"right", b"right"):
                wire = socket.create_connection(door.getsockname())
                self.addCleanup(wire.close)
                wire.settimeout(10)
                wire.sendall(said) if said else wire.shutdown(socket.SHUT_WR)
                wires.append(wire)
            _launch_ray.tell_the_end(door, 2)
            self.assertEqual([wire.recv(16) for wire in wires], [b"", b"", b"end", b"end"])
            # No other node connects, so the wait is short.
            _launch_ray.tell_the_end(door, 2)


class Preflight(unittest.TestCase):
    def test_the_message_says_whether_the_machine_of_rank_0_answers(self):
        for name, value in (("PROBE_PORT", 0), ("PROBE_SECONDS", 1)):
            self.addCleanup(setattr, _launch, name, getattr(_launch, name))
            setattr(_launch, name, value)
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            _launch.PROBE_PORT = door.getsockname()[1]
            # Bound, but without a listener: the machine refuses the connection.
            self.assertEqual(_launch.reached("127.0.0.1"), ", which answers")
            door.listen(0)
            waiting = [socket.socket() for _ in range(4)]
            for each in waiting:
                self.addCleanup(each.close)
                each.setblocking(False)
                each.connect_ex(door.getsockname())
            # Its queue is full, so no answer comes, as from a machine without a connection.
            self.assertIn(", which DOES NOT ANSWER (timed out): without a network between the nodes", _launch.reached("127.0.0.1"))

    def test_it_is_printed_before_the_script_starts(self):
        env = {**os.environ, "SVC_GPUS_PER_NODE": "2", "PATH": "/nowhere"}
        command = [sys.executable, "-u", LAUNCH, "plain", "--", sys.executable, "-c", "import os; print('threads', os.environ['OMP_NUM_THREADS'])"]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)
        lines = ran.stdout.splitlines()
        self.assertRegex(lines[0], r"^svc: python 3\.\d+\.\d+\S*, torch .+, \d+ cores$")
        self.assertEqual(lines[1], "svc: GPUs: 2 wanted; nvidia-smi does not answer")
        self.assertRegex(lines[2], r"^svc: free: [\d.]+ GiB on disk, \S+( GiB)? of /dev/shm; open files: \d+")
        self.assertRegex(lines[3], r"^svc: starting: ")
        self.assertRegex(lines[4], r"^threads \d+$")

    def test_the_error_names_a_program_that_cannot_be_started(self):
        ran = subprocess.run([sys.executable, LAUNCH, "plain", "--", "/nowhere/x"], capture_output=True, text=True, timeout=120)
        self.assertEqual((ran.returncode, ran.stdout.splitlines()[-1]), (127, "svc: /nowhere/x cannot be run: No such file or directory"))


if __name__ == "__main__":
    unittest.main()
