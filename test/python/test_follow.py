"""Waiting for runs and reading their logs, against a small real HTTP server on loopback."""

import asyncio
import contextlib
import io
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from client_case import ROOT, WithControlPlane, until

import svc
import svc.aio
from svc import _http


class Following(WithControlPlane):
    def test_wait(self):
        self.server.put("a")
        with self.assertRaises(svc.WaitTimeout) as caught:
            svc.wait("a", timeout=0.1)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.server.put("a", "failed", exit_code=7, error={"code": "script_failed", "message": "m", "hint": "See `svc logs a`.", "new": 1})
        self.server.jobs["a"]["note"] = {"kind": "sink_copying", "message": "Uploading", "new": 1}
        job = svc.wait("a", timeout=30)
        self.assertEqual((job.done, job.exit_code, job.error), (True, 7, svc.JobError("script_failed", "m", "See `svc logs a`.")))
        self.assertEqual(job.note, svc.Note("sink_copying", "Uploading"))

    def shown(self, **env):
        """The terminal's output during a wait for a run that passes through its steps."""
        self.server.put("a", "installing", price_per_hour_usd=2.5)
        step = {"step": "install", "attempt": 1, "status": "running", "error": None, "detail": {"doing": "Collecting \x1b[2Jnumpy"}}
        self.server.answers["GET", "/jobs/a/timeline"] = (200, {"steps": [step], "transitions": []})
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        child = subprocess.Popen(
            [sys.executable, "-c", "import svc; svc.wait('a')"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "TERM": "xterm", **env}, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        seen = b""

        def read():
            nonlocal seen
            try:
                while part := os.read(ours, 4096):
                    seen += part
            except OSError:  # the other side has closed the connection
                pass

        reader = threading.Thread(target=read)
        reader.start()
        until(lambda: any(path == "/jobs/a" for _, path, _, _ in self.server.requests) and (b"numpy" in seen or env))
        self.server.put("a", "failed", exit_code=7, cost_usd=0.25, error={"code": "c", "message": "It went wrong.", "hint": "h"})
        self.assertEqual(child.wait(60), 0)
        reader.join(60)
        return seen.decode()

    def test_a_terminal_shows_the_steps_of_a_run_during_a_wait(self):
        seen = self.shown()
        self.assertRegex(seen, r"\r\x1b\[Ksvc: a installing +\d+ s  \$2\.50/h  Collecting  ?\[2Jnumpy")
        self.assertNotIn("\x1b[2J", seen)
        self.assertRegex(seen, r"\nsvc: a failed after \d+ s, exit code 7, \$0\.25: It went wrong\.\r\n$")

    def test_the_warnings_of_a_run_appear_on_stderr_at_its_end_without_a_terminal_too(self):
        self.server.put("a", "succeeded")
        lost = [{"step": "collect", "node": node, "detail": {"warnings": ["m.pt is \x1b[2Jlost."]}} for node in (0, 1)]
        self.server.answers["GET", "/jobs/a/timeline"] = (200, {"steps": [*lost, {"step": "stream", "node": 0, "detail": None}, lost[1]]})
        for wait in (svc.wait, lambda name: asyncio.run(svc.aio.wait(name))):
            with contextlib.redirect_stderr(io.StringIO()) as told:
                wait("a")
            told = told.getvalue()
            self.assertRegex(told, r"^svc: a: Node 0: m\.pt is .*lost\.\nsvc: a: Node 1: m\.pt is .*lost\.\n$")
            self.assertNotIn("\x1b", told)
        with unittest.mock.patch.dict(os.environ, SVC_PROGRESS="0"), contextlib.redirect_stderr(io.StringIO()) as told:
            svc.wait("a")
        self.assertEqual(told.getvalue(), "")

    def test_svc_prints_no_progress_if_it_is_turned_off(self):
        self.assertEqual(self.shown(SVC_PROGRESS="0"), "")
        self.assertFalse(any("timeline" in path for _, path, _, _ in self.server.requests))

    def test_stream_continues_at_the_byte_where_the_connection_broke(self):
        lines = ["line {} é 损".format(i) for i in range(200)]
        self.server.log = "\n".join(lines).encode() + b"\n\xff\r\nno end"
        self.server.put("a", "succeeded")
        self.server.cuts = [3, 3, 57, 58, 59, 1000]
        self.assertEqual(list(svc.stream("a")), [*lines, "\ufffd", "no end"])
        offsets = [p for _, p, _, _ in self.server.requests if "follow=1" in p]
        self.assertGreaterEqual(len(offsets), 6)

    def test_stream_waits_while_the_job_runs_and_reads_the_last_lines(self):
        self.server.log = b"one\n"
        self.server.put("a")
        lines = svc.stream("a")
        self.assertEqual(next(lines), "one")
        self.server.log += b"two\nthree"
        self.server.put("a", "failed")
        self.assertEqual(list(lines), ["two", "three"])
        self.assertEqual(list(lines), [])

    def test_the_last_lines_are_read_although_their_connection_breaks(self):
        self.server.log = b"one\n"
        self.server.put("a")
        lines = svc.stream("a")
        self.assertEqual(next(lines), "one")
        self.server.put("a", "failed")
        self.server.cuts = [4]
        rest = ["line {}".format(i) for i in range(50)]
        opened, found = lines._open, []

        def late(follow):
            if not follow and not found:
                found.append(True)
                self.server.log += "\n".join(rest).encode()
                self.server.short = [0, 7, 30]
            return opened(follow)

        lines._open = late
        self.assertEqual(list(lines), rest)
        self.assertEqual(self.server.short, [])

    def test_a_progress_bar_is_visible_while_it_moves_and_its_line_arrives_complete(self):
        self.server.log = b"start\n\r 1/3"
        self.server.put("a")
        lines = svc.stream("a")
        self.assertEqual([next(lines), next(lines)], ["start", " 1/3\r"])
        self.server.log += b"\r\x1b[2K 2/3"
        self.assertEqual(next(lines), "\x1b[2K 2/3\r")
        self.server.log += b"\r 3/3\r\nend"
        self.server.put("a", "succeeded")
        rest = [line for line in lines if not line.endswith("\r")]
        self.assertEqual(rest, ["\r 1/3\r\x1b[2K 2/3\r 3/3", "end"])

    def test_the_log_of_an_ended_job_has_no_states_of_unfinished_lines(self):
        self.server.log = b"\r1/2\r2/2\nno end\r3/3"
        self.server.put("a", "succeeded")
        self.assertEqual(list(svc.stream("a")), ["\r1/2\r2/2", "no end\r3/3"])

    def test_an_interrupted_stream_continues_at_its_position(self):
        self.server.log = b"one\ntwo\n"
        self.server.put("a")
        lines = svc.stream("a")
        self.assertEqual([next(lines), next(lines)], ["one", "two"])
        opened = lines._open
        lines._drop_source()

        def interrupted(follow):
            lines._open = opened
            raise KeyboardInterrupt

        lines._open = interrupted
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(KeyboardInterrupt):
            next(lines)
        self.assertIn("stopped watching run a", said.getvalue())
        self.server.log += b"three\n"
        self.server.put("a", "succeeded")
        self.assertEqual(list(lines), ["three"])

    def test_an_uncaught_ctrl_c_in_a_stream_or_a_wait_ends_the_program_with_one_sentence(self):
        # Each says "reading" once it is where the interrupt shall come.
        streams = """
lines = svc.stream("a")
fill = lines._fill
lines._fill = lambda left: (print("reading", flush=True), fill(left))
for line in lines:
    pass
"""
        waits = """
import time
from types import SimpleNamespace
sleep = lambda s: (print("reading", flush=True), time.sleep(s))
svc._follow.time = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
svc.wait("a")
"""
        for call in (streams, waits):
            for provider, words in (("local", "continues on this computer and costs nothing"), ("podhost", "continues, and its machine may cost money")):
                with self.subTest(call=call, provider=provider):
                    self.server.put("a", provider=provider)
                    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
                    program = [sys.executable, "-c", f"import svc, svc._follow\n{call}"]
                    ran = subprocess.Popen(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    self.assertEqual(ran.stdout.readline(), "reading\n")
                    ran.send_signal(signal.SIGINT)
                    said = ran.communicate()[1]
                    self.assertEqual((ran.returncode, said), (-signal.SIGINT, f"svc: stopped watching run a, which {words}; `svc kill a` ends it now\n"))

    def test_stream_of_an_unknown_job_fails_at_once(self):
        with self.assertRaises(svc.JobNotFound):
            svc.stream("nobody")

    def test_a_closed_stream_ends(self):
        self.server.put("a")
        lines = svc.stream("a")
        lines.close()
        self.assertEqual(list(lines), [])

    def test_a_stream_that_is_closed_while_it_connects_does_not_read(self):
        self.server.put("a")
        lines = svc.stream("a")
        source = unittest.mock.Mock()
        source.read.side_effect = AssertionError("it waits for up to a minute")

        def opened(**_):
            lines.close()
            return source

        with unittest.mock.patch.object(lines, "_open", opened):
            self.assertEqual(list(lines), [])
        source.close.assert_called_once()

    def test_a_stream_that_is_closed_before_it_reads_ends_without_an_error(self):
        self.server.put("a")
        lines = svc.stream("a")
        source = unittest.mock.Mock()
        # Another thread closes between the two; a closed connection is cut.
        source.patience.side_effect = lambda _: lines.close()
        source.read.side_effect = _http.unreachable(1, "it is closed")
        with unittest.mock.patch.object(lines, "_open", lambda **_: source):
            self.assertEqual(list(lines), [])
        source.close.assert_called_once()

    def test_a_connection_that_is_closed_before_it_is_read_is_cut(self):
        self.server.put("a", "succeeded")
        source = _http.ByteStream(self.server.server_address[1], "/jobs/a/logs?offset=0", 5.0)
        self.addCleanup(source.close)
        source._socket = socket.socket()
        source._socket.close()  # as `close` in another thread does
        source.patience(1.0)


if __name__ == "__main__":
    unittest.main()
