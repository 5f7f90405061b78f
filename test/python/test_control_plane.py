"""Finding, starting and ending the control plane of a home."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from client_case import ROOT, WithHome, asking, until

import svc
from fake_control_plane import FakeControlPlane
from svc import _call, _control_plane


class Discovery(WithHome):
    def setUp(self):
        super().setUp()
        program = self.home.parent / "svc"
        fake = Path(__file__).parent / "fake_control_plane.py"
        program.write_text('#!/bin/sh\nexec "{}" "{}" "$@"\n'.format(sys.executable, fake))
        program.chmod(0o755)
        self.set("SVC_BIN", str(program))

    def starts(self):
        path = self.home / "starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def test_a_started_control_plane_ends_gracefully(self):
        asking()
        asking()
        (start,) = self.starts()
        self.assertEqual(start["argv"], ["serve", "--port", "0", "--until-eof", "--json"])
        self.assertEqual(stat.S_IMODE((self.home / "control-plane.log").stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.home.stat().st_mode), 0o700)
        _control_plane.PLANES.end()
        self.assertEqual((self.home / "ended").read_text(), "in order")

    def test_threads_start_only_one(self):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: asking(), range(16)))
        self.assertEqual(len(self.starts()), 1)

    def child(self, code, **options):
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        return subprocess.Popen([sys.executable, "-c", "import svc, os, sys, time\n" + code], env=env, text=True, **options)

    def test_the_control_plane_ends_with_the_process_and_the_process_prints_the_number_of_runs(self):
        child = self.child('svc.run({"entrypoint": "a.py"})', stderr=subprocess.PIPE)
        _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertRegex(said, r"^svc: ending run py-\w+; .*\nsvc: everything has ended\n$")
        self.assertTrue((self.home / "ended").exists())

    def test_the_control_plane_ends_when_its_process_is_killed(self):
        child = self.child('from svc import _call; _call.call("GET", "/jobs"); print("up", flush=True); time.sleep(600)', stdout=subprocess.PIPE)
        child.stdout.readline()
        child.kill()
        child.communicate()
        until((self.home / "ended").exists)

    def test_the_last_process_that_shares_a_control_plane_ends_it(self):
        start = 'svc.run({"entrypoint": "a.py"}, provider="market"); print("up", flush=True); sys.stdin.read()'
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        children = []
        for _ in range(3):
            children.append(self.child(start, **pipes))
            self.addCleanup(children[-1].kill)
            self.assertEqual(children[-1].stdout.readline(), "up\n")
        first, killed, last = children
        self.assertEqual(len(self.starts()), 1)
        _, said = first.communicate(timeout=60)
        self.assertRegex(said, r"^svc: run py-\w+ may continue and cost money: other programs use the control plane, .*\n$")
        killed.kill()
        killed.communicate()
        self.assertFalse((self.home / "ended").exists())
        # A later process uses the same control plane.
        late = self.child("print(len(svc.jobs()))", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(late.communicate(timeout=60), ("3\n", ""))
        self.assertFalse((self.home / "ended").exists())
        _, said = last.communicate(timeout=60)
        self.assertRegex(said, r"^svc: ending 3 runs \(.*\) and releasing the machines; .*\nsvc: everything has ended; no machine .*\n$")
        self.assertEqual((self.home / "ended").read_text(), "in order")
        self.assertEqual(len(self.starts()), 1)

    def test_a_control_plane_that_no_longer_answers_at_the_end_leaves_runs_that_are_named(self):
        server = FakeControlPlane(self.home)
        self.addCleanup(server.stop)
        server.ends_with_holders = True
        server.announce()
        start = 'svc.run({"entrypoint": "a.py"}, provider="market"); print("up", flush=True); sys.stdin.read()'
        child = self.child(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), "up\n")
        (hold,) = server.holders
        server.answers[("POST", f"/v1/hold/{hold}/release")] = (500, {"code": "internal_error", "detail": "m", "hint": "h"})
        _, said = child.communicate(timeout=60)
        self.assertRegex(said, r"^svc: the control plane no longer answers\. run py-\w+ may continue and cost money: `svc serve` .*\n$")

    def test_svc_waits_for_a_control_plane_that_is_ending_and_replaces_it(self):
        ending = FakeControlPlane(self.home)
        self.addCleanup(ending.stop)
        ending.announce()
        ending.over.set()
        asked = lambda: sum(path == "/v1/hold" for _, path, _, _ in ending.requests)
        calls = threading.Thread(target=svc.jobs)
        calls.start()
        until(lambda: asked() > 0)
        (self.home / "control-plane.json").unlink()
        calls.join(60)
        self.assertEqual(len(self.starts()), 1)

    def ends_although_a_fork_lives_on(self, script):
        """Of a script that prints the number of its fork, which does not end, and is killed itself."""
        child = self.child(script, stdout=subprocess.PIPE)
        forked = int(child.stdout.readline())
        child.communicate()
        try:
            until((self.home / "ended").exists)
        finally:
            os.kill(forked, signal.SIGKILL)

    def test_the_control_plane_ends_although_a_forked_child_lives_on(self):
        self.ends_although_a_fork_lives_on(
            'from svc import _call; _call.call("GET", "/jobs")\npid = os.fork()\nif pid == 0: os.close(1); time.sleep(600)\nprint(pid, flush=True); os.kill(os.getpid(), 9)',
        )

    def test_the_control_plane_ends_although_a_child_that_was_forked_while_it_started_lives_on(self):
        self.ends_although_a_fork_lives_on(
            """
from svc import _call, _control_plane
read = _control_plane._first_line
def forked_meanwhile(*given):
    pid = os.fork()
    if pid == 0: os.close(1); time.sleep(600)
    print(pid, flush=True)
    return read(*given)
_control_plane._first_line = forked_meanwhile
_call.call("GET", "/jobs")
os.kill(os.getpid(), 9)
""",
        )

    def test_ctrl_c_during_a_wait_ends_the_control_plane_gracefully(self):
        child = self.child(
            'signal = __import__("signal"); signal.signal(signal.SIGINT, signal.default_int_handler)\n'
            'job = svc.run({"entrypoint": "a.py"}); print("up", flush=True); svc.wait(job.id)',
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        self.assertTrue((self.home / "ended").exists())
        self.assertIn("svc: ending run py-", said)
        self.assertIn("svc: everything has ended", said)

    def test_a_caught_ctrl_c_ends_the_wait_and_not_the_run(self):
        child = self.child(
            'signal = __import__("signal"); signal.signal(signal.SIGINT, signal.default_int_handler)\n'
            'job = svc.run({"entrypoint": "a.py"})\n'
            # Printed once, within the watching: an earlier Ctrl-C would end only the script.
            'def driven(id, look=svc._follow.driven, said=[]): said or said.append(print("up", flush=True)); return look(id)\n'
            'svc._follow.driven = driven\n'
            'try: svc.wait(job.id)\n'
            'except KeyboardInterrupt: print(svc.job(job.id).status, flush=True); __import__("sys").stdin.readline()',
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        self.assertNotIn(child.stdout.readline().strip(), ("", "interrupted"))
        self.assertFalse((self.home / "ended").exists())
        _, said = child.communicate("\n", timeout=60)
        self.assertTrue((self.home / "ended").exists())
        self.assertIn("svc: stopped watching run", said)
        self.assertIn("svc: everything has ended", said)
        self.assertNotIn("Traceback", said)

    def test_a_program_that_takes_the_port_of_a_dead_control_plane_receives_no_call(self):
        plane = FakeControlPlane(self.home)
        plane.announce()
        self.assertEqual(asking(), [])
        port = plane.server_address[1]
        plane.stop()
        (self.home / "control-plane.json").unlink()
        (self.home / "token").write_text("a" * 43)
        stranger = FakeControlPlane(self.home, port)
        self.addCleanup(stranger.stop)
        stranger.token = "another"
        until(lambda: _control_plane.PLANES._holds[self.home].is_over())
        asking()
        self.assertEqual(stranger.requests, [])

    def test_a_notebook_is_no_rented_machine_that_an_end_releases(self):
        plane = FakeControlPlane(self.home)
        self.addCleanup(plane.stop)
        for provider, rented in (("local", False), ("notebook", False), ("market", True)):
            plane.put("a", "running", provider=provider, spec={"terminate_on_exit": True})
            self.assertEqual(_control_plane._live_runs(plane.server_address[1])[:2], (["a"], rented))

    def test_stale_and_foreign_entries_are_not_used(self):
        other = FakeControlPlane(self.home)
        self.addCleanup(other.stop)
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        for announce in (
            lambda: other.announce(pid=gone.pid),
            lambda: other.announce(url="http://example.invalid:80"),
            lambda: other.announce(url="http://localhost:{}".format(other.server_address[1])),
            lambda: (self.home / "control-plane.json").write_text("[torn"),
            lambda: other.announce(pid=10**30),
            lambda: (setattr(other, "installation", "another"), other.announce()),
        ):
            announce()
            self.assertIsNone(_control_plane.find(self.home))
        other.installation = "inst-1"
        other.announce()
        self.assertEqual(_control_plane.find(self.home), other.server_address[1])
        svc.jobs()
        self.assertEqual(self.starts(), [])

    @unittest.skipUnless(sys.platform == "linux", "only Linux tells when a process began")
    def test_a_process_that_reuses_the_control_planes_pid_receives_no_token(self):
        squatter = FakeControlPlane(self.home)
        self.addCleanup(squatter.stop)
        squatter.token = "another"
        squatter.announce(pid_start=1)
        (self.home / "token").write_text("a" * 43)
        self.assertIsNone(_control_plane.find(self.home))
        self.assertEqual(squatter.requests, [])
        squatter.announce(pid_start=_control_plane._started(os.getpid()))
        squatter.token = None
        self.assertEqual(_control_plane.find(self.home), squatter.server_address[1])

    @unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "giving a folder to another user takes root")
    def test_a_home_that_other_users_can_write_is_neither_trusted_nor_written(self):
        theirs = FakeControlPlane(self.home)
        self.addCleanup(theirs.stop)
        theirs.announce()
        mine = self.home.parent / "mine"
        mine.write_text("as it was")
        mine.chmod(0o644)
        (self.home / "control-plane.log").symlink_to(mine)
        for uid, mode in ((65534, 0o755), (0, 0o777)):
            os.chown(self.home, uid, uid)
            self.home.chmod(mode)
            with self.assertRaises(svc.ConfigError) as caught:
                svc.jobs()
            self.assertEqual(caught.exception.code, "home_unusable")
        self.assertEqual((theirs.requests, self.starts()), ([], []))
        self.assertEqual((mine.read_text(), mine.stat().st_mode & 0o777), ("as it was", 0o644))

    @unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "giving a file to another user takes root")
    def test_the_address_file_of_another_user_in_a_home_that_a_group_can_write_is_not_believed(self):
        theirs = FakeControlPlane(self.home)
        self.addCleanup(theirs.stop)
        theirs.announce()
        self.home.chmod(0o770)
        file = self.home / "control-plane.json"
        self.assertEqual(_control_plane.find(self.home), theirs.server_address[1])
        asked = len(theirs.requests)
        os.chown(file, 65534, 65534)
        self.assertIsNone(_control_plane.find(self.home))
        os.chown(file, 0, 0)
        file.rename(self.home.parent / "elsewhere.json")
        file.symlink_to(self.home.parent / "elsewhere.json")
        self.assertIsNone(_control_plane.find(self.home))
        self.assertEqual(len(theirs.requests), asked)

    def test_the_winner_of_a_race_serves_both_processes(self):
        other = FakeControlPlane(self.home)
        self.addCleanup(other.stop)
        self.home.mkdir()
        self.set("FAKE_ERROR", "home_locked")
        import threading

        def win():
            until(self.starts)
            other.announce()

        thread = threading.Thread(target=win)
        thread.start()
        self.assertEqual(asking(), [])
        thread.join()

    def test_the_error_says_why_the_control_plane_could_not_start(self):
        self.set("FAKE_ERROR", "store_newer")
        with self.assertRaises(svc.SvcError) as caught:
            asking()
        self.assertEqual((caught.exception.code, caught.exception.hint), ("store_newer", "h"))
        self.set("SVC_BIN", "/nowhere/svc")
        with self.assertRaises(svc.SvcError) as caught:
            asking()
        self.assertEqual(caught.exception.code, "start_failed")
        (self.home.parent / "file").write_text("")
        self.set("SVC_BIN", str(self.home.parent / "svc"))
        self.set("SVC_HOME", str(self.home.parent / "file"))
        with self.assertRaises(svc.ConfigError) as caught:
            asking()
        self.assertEqual(caught.exception.code, "home_unusable")


if __name__ == "__main__":
    unittest.main()
