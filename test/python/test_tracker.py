"""svc.log and the tracker: real processes, with a replacement of the tracker's library whose behaviour the test
sets."""

import contextlib
import http.server
import importlib.util
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import textwrap
import threading
import time
import unittest
from concurrent import futures
from pathlib import Path

from test_script import PACKAGE, records, run_script

# The part of the tracker's library that svc uses. It records its calls.
LIBRARY = '''
import json, os, sys, time
_how = os.environ.get("FAKE_TRACKER", "")
run = None
def _note(*words):
    with open(os.environ["FAKE_TRACKER_FILE"], "a") as file:
        file.write(json.dumps(words) + "\\n")
class Settings:
    def __init__(self, **given):
        self.given = given
class Run:
    url = None if os.environ.get("WANDB_MODE") == "offline" else "https://tracker.example/team/p/runs/job1"
    dir = "/somewhere/offline-run-1/files"
    def define_metric(self, name, **more):
        _note("define_metric", name, more)
    def log(self, values):
        if _how == "log raises":
            raise ValueError("no more of that")
        if _how == "slow":
            time.sleep(0.01)
        _note("log", {k: repr(v) if v != v else v for k, v in values.items()})
    def finish(self, exit_code=0):
        if _how == "finish hangs":
            time.sleep(600)
        _note("finish", exit_code)
def init(**given):
    global run
    print("words of the library")
    print("more of them", file=sys.stderr)
    settings = given.pop("settings").given if "settings" in given else None
    env = {k: os.environ.get(k) for k in ("WANDB_API_KEY", "WANDB_PROJECT", "WANDB_CONSOLE", "WANDB_BASE_URL")}
    _note("init", given, settings, env, sys.argv, os.getpid())
    if _how == "init raises":
        raise RuntimeError("the key k3y-0123456789 is not\\nknown")
    if _how == "init hangs":
        time.sleep(600)
    run = Run()
    return run
'''
KEY = "k3y-0123456789"


class Tracker(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "library" / "wandb").mkdir(parents=True)
        (self.folder / "library" / "wandb" / "__init__.py").write_text(LIBRARY)
        self.file = self.folder / "calls"
        # Accepts connections: svc checks whether the tracker can be reached.
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        self.url = "http://127.0.0.1:{}".format(listening.getsockname()[1])

    def run_job(self, code, how="", library=True, **env):
        path = ([str(self.folder / "library")] if library else []) + [str(PACKAGE)]
        given = {
            "TRACKER_API_KEY": KEY, "SVC_JOB_ID": "job1", "FAKE_TRACKER": how, "FAKE_TRACKER_FILE": str(self.file), "WANDB_BASE_URL": self.url,
            "PYTHONPATH": os.pathsep.join(path), **env,
        }  # fmt: skip
        return run_script(textwrap.dedent(code), given, cwd=str(self.folder))

    def calls(self, what=None):
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [call for call in map(json.loads, lines) if what in (None, call[0])]

    def test_logged_values_reach_the_tracker_in_order_under_the_jobs_id(self):
        ran = self.run_job(
            """
            import svc
            for i in range(50):
                svc.log({"loss": 1 / (i + 1), "at": i}, step=i * 10)
            svc.log({"odd": float("nan")}, step=3)
            svc.log({"name%d" % i: i for i in range(900)})
            """,
            WANDB_PROJECT="digits",
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (init,) = self.calls("init")
        self.assertEqual(init[1]["id"], "job1")
        self.assertEqual(init[1]["resume"], "allow")
        self.assertEqual(init[3]["WANDB_API_KEY"], KEY)
        self.assertEqual(init[3]["WANDB_PROJECT"], "digits")
        self.assertNotIn(KEY, " ".join(init[4]))
        logged = [call[1] for call in self.calls("log")]
        self.assertEqual([v["svc_step"] for v in logged], [i * 10 for i in range(50)] + [3, 0])
        self.assertEqual(logged[4], {"loss": 0.2, "at": 4, "svc_step": 40})
        self.assertEqual(logged[50]["odd"], "nan")
        self.assertEqual(len(logged[51]), 901)  # one call, though it came in several records
        self.assertEqual(self.calls("finish"), [["finish", 0]])
        found, text = records(ran.stdout)
        self.assertEqual([r["url"] for r in found if r["k"] == "t"], ["https://tracker.example/team/p/runs/job1"])
        self.assertEqual(sum(r["k"] == "m" for r in found), 51 + sum("name" in next(iter(r["m"])) for r in found if r["k"] == "m"))
        self.assertEqual(text, b"")
        self.assertEqual(ran.stderr, b"svc.log: metrics also go to https://tracker.example/team/p/runs/job1\n")

    def test_one_process_of_the_run_forwards(self):
        code = """
            import os, subprocess, sys, svc
            svc.log({"a": 1}, all_ranks=True)
            if os.environ.get("RANK", "0") == "0" and len(sys.argv) == 1:
                subprocess.run([sys.executable, "-c", "import svc; svc.log({'b': 2})"], check=True)
                if os.fork() == 0:
                    svc.log({"c": 3})
                    os._exit(0)
                os.wait()
            """
        for rank, node, inits in (("0", "0", 1), ("1", "0", 0), ("0", "1", 0)):
            self.file.unlink(missing_ok=True)
            self.assertEqual(self.run_job(code, RANK=rank, SVC_NODE_RANK=node).returncode, 0)
            self.assertEqual(len(self.calls("init")), inits, (rank, node))

    def test_a_forked_worker_that_outlives_the_script_does_not_hold_up_its_end(self):
        # As with torch, whose import comes before the first record: the workers are ended after svc's own end.
        code = """
            import multiprocessing.util, multiprocessing, svc, time
            svc.log({"a": 1})
            multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,), daemon=True).start()
            svc.log({"a": 2})
            """
        ran = self.run_job(code, SVC_TRACKER_FINISH_SECONDS="30")
        self.assertEqual([call[1]["a"] for call in self.calls("log")], [1, 2])
        self.assertEqual(self.calls("finish"), [["finish", 0]])
        self.assertNotIn(b"did not accept", ran.stderr)

    def test_training_continues_whatever_the_tracker_does(self):
        code = """
            import svc, time
            begun = time.monotonic()
            for i in range(300):
                svc.log({"a": i})
            print("trained", max(0, time.monotonic() - begun) < 60)
            """
        said = {
            "init raises": b"metrics do not go to the tracker: the key ***redacted*** is not known. svc keeps them",
            "log raises": b"the tracker refused values: no more of that. svc keeps them",
            "init hangs": b"",
            "finish hangs": b"",
        }
        temporary = self.folder / "temporary"
        temporary.mkdir()
        for how, words in said.items():
            ran = self.run_job(code, how, SVC_TRACKER_FINISH_SECONDS="1", TMPDIR=str(temporary))
            self.assertEqual(list(temporary.iterdir()), [], how)
            found, text = records(ran.stdout)
            self.assertEqual((ran.returncode, text), (0, b"trained True\n"), (how, ran.stderr))
            self.assertEqual(sum(r["k"] == "m" for r in found), 300, how)
            self.assertIn(words, ran.stderr, how)
            self.assertEqual(ran.stderr.count(words) if words else 1, 1, how)

    def test_a_tracker_that_cannot_be_reached_is_reported_within_ten_seconds(self):
        refusing = socket.create_server(("127.0.0.1", 0))
        port = refusing.getsockname()[1]
        refusing.close()
        with self.untrusted() as secure, futures.ThreadPoolExecutor() as pool:
            whys = {
                "http://127.0.0.1:{}".format(port): b"nothing answers at 127.0.0.1:",
                "https://tracker.invalid": b"its name cannot be resolved",
                "https://127.0.0.1:{}".format(secure): b"its certificate is not trusted here",
            }
            # The library prints nothing while it retries, which takes longer than this wait.
            given = {"SVC_TRACKER_FINISH_SECONDS": "8"}
            code = "import svc\nsvc.log({'a': 1})"
            runs = {
                url: pool.submit(self.run_job, code, "init hangs", WANDB_BASE_URL=url, **given) for url in whys
            }
            for url, why in whys.items():
                ran = runs[url].result()
                self.assertEqual(ran.returncode, 0, ran.stderr)
                words = b"svc.log: the tracker cannot be reached: " + why
                self.assertEqual(ran.stderr.count(words), 1, ran.stderr)
                self.assertIn(b"Its library keeps trying; svc has all metrics", ran.stderr)

    def test_a_tracker_that_answers_is_not_complained_about(self):
        ran = self.run_job("import svc\nsvc.log({'a': 1})")
        self.assertNotIn(b"cannot be reached", ran.stderr)
        self.assertEqual(len(self.calls("finish")), 1)

    @contextlib.contextmanager
    def untrusted(self):
        """The port of a server with an untrusted certificate."""
        if shutil.which("openssl") is None:
            self.skipTest("needs openssl")
        key, cert = str(self.folder / "key.pem"), str(self.folder / "cert.pem")
        args = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        subprocess.run(["openssl", *args, "-keyout", key, "-out", cert], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        server.handle_error = lambda *_: None
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()

    def test_without_the_library_one_line_says_what_to_install(self):
        (self.folder / "wandb").mkdir()  # what an earlier run left in the project
        if importlib.util.find_spec("wandb") is not None:
            self.skipTest("the library is installed for this Python")
        ran = self.run_job("import svc\nfor i in range(5): svc.log({'a': i})", library=False)
        self.assertEqual(ran.returncode, 0)
        self.assertEqual(ran.stderr.count(b"\n"), 1, ran.stderr)
        self.assertIn(b"requirements.txt", ran.stderr)

    def test_records_that_do_not_fit_are_dropped_counted_and_reported_once(self):
        code = """
            import svc
            for i in range(60_000):
                svc.log({"a metric with quite a long name, so that the pipe is full sooner": i})
            """
        ran = self.run_job(code, "init hangs", SVC_TRACKER_FINISH_SECONDS="1")
        found, _ = records(ran.stdout)
        self.assertEqual((ran.returncode, len(found)), (0, 60_000), ran.stderr)
        self.assertLessEqual(ran.stderr.count(b"is too slow"), 1)

    def test_offline_mode_needs_no_key_and_prints_its_folder(self):
        ran = self.run_job("import svc; svc.log({'a': 1})", TRACKER_API_KEY="", WANDB_MODE="offline")
        self.assertEqual([call[1]["a"] for call in self.calls("log")], [1], ran.stderr)
        self.assertIn(b"for `wandb sync`", ran.stderr)
        self.assertEqual([r["k"] for r in records(ran.stdout)[0]], ["m"])

    def test_a_script_with_its_own_tracker_run_keeps_it(self):
        before = self.run_job("import svc, wandb\nwandb.init()\nsvc.log({'a': 1})")
        self.assertIn(b"its own run", before.stderr)
        self.assertEqual(len(self.calls("init")), 1)
        self.file.unlink()
        later = self.run_job("import svc, wandb\nsvc.log({'a': 1})\nwandb.init()\nsvc.log({'a': 2})\nsvc.log({'a': 3})")
        self.assertIn(b"no longer forwards", later.stderr)
        deadline = time.monotonic() + 60
        while not self.calls("finish") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([call[1]["a"] for call in self.calls("log")], [1])

    def test_the_tracker_run_fails_after_an_exception_or_a_hard_exit(self):
        self.run_job("import svc; svc.log({'a': 1}); raise SystemError('x')")
        self.assertEqual(self.calls("finish"), [["finish", 1]])
        self.file.unlink()
        self.run_job("import os, svc; svc.log({'a': 1}); os._exit(0)")
        deadline = time.monotonic() + 60
        while not self.calls("finish") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.calls("finish"), [["finish", 1]])

    def test_the_tracker_run_ends_with_the_exit_code_of_the_script(self):
        for ending, code in (
            ("sys.exit(3)", 3),
            ("sys.exit(-1)", 255),
            ("sys.exit('no data')", 1),
            ("sys.exit()", 0),
            ("exit(4)", 4),
            ("try: sys.exit(3)\nfinally: svc.log({'a': 2})", 3),
            ("atexit.register(svc.log, {'a': 2}); sys.exit(3)", 3),
            ("try: sys.exit(3)\nexcept SystemExit: pass\nsvc.log({'a': 2})", 0),
            ("thread = threading.Thread(target=sys.exit, args=(3,)); thread.start(); thread.join()", 0),
        ):
            with self.subTest(ending):
                self.file.unlink(missing_ok=True)
                ran = self.run_job("import atexit, svc, sys, threading\nsvc.log({'a': 1})\n" + ending)
                self.assertEqual(ran.returncode, code, ran.stderr)
                self.assertEqual(self.calls("finish"), [["finish", code]], ran.stderr)

    def test_no_process_starts_without_a_configured_tracker(self):
        ran = self.run_job("import svc, sys; svc.log({'a': 1}); assert 'svc._tracker' not in sys.modules", TRACKER_API_KEY="")
        self.assertEqual((ran.returncode, ran.stderr), (0, b""))
        off = self.run_job("import svc; svc.log({'a': 1})", WANDB_MODE="disabled")
        self.assertEqual((off.stderr, self.calls()), (b"", []))


if __name__ == "__main__":
    unittest.main()
