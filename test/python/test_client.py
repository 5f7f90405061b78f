"""The client half, against a small real HTTP server on loopback."""

import asyncio
import contextlib
import inspect
import io
import json
import os
import pickle
import pty
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import typing
import unittest
import unittest.mock as mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).parent)]

import svc
from fake_control_plane import FakeControlPlane
from svc import _client, _control_plane, _extras, _http, _launcher, _money, _records, _retention
from svc._errors import from_problem


def asking():
    """A call that needs a control plane, and starts one if none runs."""
    from svc import _client

    return _client.call("GET", "/jobs")["jobs"]


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come to pass in {} s".format(seconds))
        time.sleep(0.01)


class WithHome(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.home = Path(held.name).resolve() / "home"
        self.set("SVC_HOME", str(self.home))
        self.set("HTTP_PROXY", "http://127.0.0.1:1")
        self.set("http_proxy", "http://127.0.0.1:1")
        self.addCleanup(_control_plane.PLANES.end, False)
        self.addCleanup(setattr, _client, "_REGISTRY", _client._Named())

    def set(self, name, value):
        old = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name, None) if old is None else os.environ.__setitem__(name, old))


class Calls(WithHome):
    def setUp(self):
        super().setUp()
        self.server = FakeControlPlane(self.home)
        self.addCleanup(self.server.stop)
        self.server.announce()

    def test_run_sends_the_spec_with_a_key_and_the_callers_directory(self):
        job = svc.run(svc.Task("train.py", ["--epochs", "5"]), label="l", price_cap=2.5, env={"A": "1"}, data=("d",))
        method, path, body, headers = next(r for r in self.server.requests if r[0] == "POST")
        self.assertEqual((method, path), ("POST", "/jobs"))
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertTrue(headers["Idempotency-Key"])
        self.assertEqual(
            body,
            {"label": "l", "spec": {"entrypoint": "train.py", "args": ["--epochs", "5"], "provider": "local", "gpus": "cpu",
             "price_cap": 2.5, "env": {"A": "1"}, "data": ["d"], "python": sys.executable, "project_dir": os.getcwd()}},
        )  # fmt: skip
        self.assertEqual((job.status, job.args, job.done), ("running", ("--epochs", "5"), False))

    def test_run_sends_its_own_interpreter_only_for_local_runs_and_resolves_a_path_from_the_callers_directory(self):
        for given, sent in [
            ({}, sys.executable),
            ({"provider": "podhost", "gpus": "A100"}, None),
            ({"python": "python3.12"}, "python3.12"),
            ({"python": ".venv/bin/python"}, os.path.join(os.getcwd(), ".venv/bin/python")),
            ({"python": "~/v"}, os.path.expanduser("~/v")),
        ]:
            svc.run(svc.Task("train.py"), **given)
            self.assertEqual(self.server.requests[-1][2]["spec"].get("python"), sent)

    def test_candidates_and_rules_are_sent_and_a_plan_sends_the_same_spec_without_a_run(self):
        rules = {
            "candidates": ({"provider": "podhost", "gpus": "A100"}, {"provider": "market", "gpus": "H100", "spot": "prefer"}),
            "choose": "cheapest",
            "wait_for_capacity_minutes": 60,
            "retry": {"max": 3, "on": ["machine_lost", "exit:75"]},
            "spot": "never",
            "max_preemptions": 2,
        }
        svc.run(svc.Task("train.py"), **rules)
        sent = next(r for r in self.server.requests if r[:2] == ("POST", "/jobs"))[2]["spec"]
        for name, value in rules.items():
            self.assertEqual(sent[name], list(value) if isinstance(value, tuple) else value)
        # The interpreter of the caller is of no use on the machines of candidates.
        self.assertNotIn("python", sent)
        self.server.answers["POST", "/v1/plan"] = (200, {"order": [1], "refusals": []})
        given = {"label": "l", "idempotency_key": "k", **rules}
        self.assertEqual(svc.plan(svc.Task("train.py"), **given)["order"], [1])
        asked = next(r for r in self.server.requests if r[:2] == ("POST", "/v1/plan"))[2]
        self.assertEqual(asked["label"], "l")
        sent.pop("provider"), sent.pop("gpus")
        self.assertEqual(asked["spec"], sent)

    def test_checkpoints_are_removed_by_their_names_and_the_answer_has_the_space(self):
        answer = {"id": "j1", "dry_run": True, "freed_bytes": 7, "linked_bytes": 2, "left_bytes": 0, "new": 1}
        answer["checkpoints"] = [{"name": "step-1", "files": 2, "bytes": 9}]
        self.server.answers["POST", "/jobs/j1/checkpoints/remove"] = (200, answer)
        names = ["step-1", "500"]
        for found in (
            svc.remove_checkpoints("j1", names, dry_run=True),
            asyncio.run(svc.aio.remove_checkpoints("j1", tuple(names), dry_run=True)),
        ):
            self.assertEqual((found.freed_bytes, found.linked_bytes, found.checkpoints[0]["files"]), (7, 2, 2))
        asked = [body for method, path, body, _ in self.server.requests if path.endswith("/remove")]
        self.assertEqual(asked, [{"names": names, "dry_run": True}] * 2)
        with self.assertRaises(svc.ConfigError):
            svc.remove_checkpoints("j1", "step-1")
        problem = {"code": "checkpoint_not_removable", "detail": "The run has not ended.", "hint": "Wait."}
        self.server.answers["POST", "/jobs/j1/checkpoints/remove"] = (409, problem)
        with self.assertRaises(svc.SvcError) as caught:
            svc.remove_checkpoints("j1", names)
        self.assertEqual((caught.exception.code, caught.exception.hint), ("checkpoint_not_removable", "Wait."))

    def test_placements_of_a_job_have_their_errors_as_values(self):
        self.server.put("j1")
        first = {"n": 1, "candidate": 0, "provider": "market", "gpus": "H100", "status": "failed", "opened_at": "t", "failure": "preempted",
                 "error": {"code": "machine_preempted", "message": "m", "hint": "h"}, "work_lost_seconds": 3, "machines": ["m1"], "new": 1}  # fmt: skip
        self.server.answers["GET", "/jobs/j1/placements"] = (200, {"placements": [first], "waiting": None})
        for found in (svc.placements("j1"), svc.job("j1").placements(), asyncio.run(svc.aio.placements("j1"))):
            self.assertEqual([(p.n, p.failure, p.work_lost_seconds, p.machines) for p in found], [(1, "preempted", 3, ("m1",))])
            self.assertEqual(found[0].error.code, "machine_preempted")

    def test_the_registry_is_sent_once_before_the_next_call(self):
        plane = self.server
        plane.answers["PUT", "/v1/registry"] = (200, {"use": ["c"], "kept": [], "warnings": []})
        registry = {
            "credentials": [
                {"cred_id": "c", "provider": "podhost", "secret_ref": "env://MY_KEY", "ssh_key_ref": "keys/id"},
                {"cred_id": "other", "provider": "market", "secret_ref": "env://NOT_SET"},
            ],
            "tracking": {"tracker": {"secret_ref": "literal://abc", "project": "p"}},
            "integrations": {"hub": {"token_ref": "env://NOT_SET", "enabled": True}},
        }
        with mock.patch.dict(os.environ, {"MY_KEY": "callers-key"}), self.assertLogs("svc", "WARNING") as said:
            svc.configure(registry=registry, use=["c"])
        self.assertNotIn("abc", "".join(said.output))
        svc.jobs()
        svc.jobs()
        told = [body for method, path, body, _ in plane.requests if (method, path) == ("PUT", "/v1/registry")]
        self.assertEqual(len(told), 1)
        self.assertEqual(told[0]["values"], {"credentials.c": "callers-key", "integrations.hub": None})
        self.assertEqual(told[0]["use"], ["c"])
        sent = told[0]["registry"]["credentials"]
        self.assertEqual([each["cred_id"] for each in sent], ["c"])
        self.assertTrue(os.path.isabs(sent[0]["ssh_key_ref"]))
        plane.answers["PUT", "/v1/registry"] = (409, {"code": "credential_in_use", "detail": "2 machines", "status": 409})
        svc.configure(registry={}, use=[])
        self.assertRaises(svc.CredentialError, svc.jobs)

    def test_targets_and_rules_of_notifications_are_sent_with_the_values_of_their_references(self):
        self.server.answers["PUT", "/v1/registry"] = (200, {"use": [], "kept": [], "warnings": []})
        mail = {"kind": "email", "host": "h", "port": 25, "from": "a@b", "to": ("c@d",), "secret_ref": "env://MAIL_KEY"}
        registry = {"notifications": {"targets": {"mail": mail, "beep": {"kind": "desktop", "events": None}}, "rules": ("loss > 3",)}}
        self.assertRaisesRegex(svc.CredentialError, "MAIL_KEY.*notifications.mail", svc.configure, registry)
        with mock.patch.dict(os.environ, {"MAIL_KEY": "callers-key"}):
            svc.configure(registry)
        svc.jobs()
        sent = next(body for method, path, body, _ in self.server.requests if path == "/v1/registry")
        self.assertEqual(sent["values"], {"notifications.mail": "callers-key"})
        targets = {"mail": {**mail, "to": ["c@d"]}, "beep": {"kind": "desktop"}}
        self.assertEqual(sent["registry"]["notifications"], {"targets": targets, "rules": ["loss > 3"]})

    def test_a_wrong_target_or_rule_is_refused_by_its_field_without_its_secret(self):
        for given, field in [
            ({"target": {}}, "target"),
            ({"targets": []}, "targets"),
            ({"targets": {"phone": "ntfy"}}, "targets.phone"),
            ({"targets": {"phone": {"kind": "pager"}}}, "targets.phone.kind"),
            ({"targets": {"phone": {"kind": "ntfy"}}}, "targets.phone.topic"),
            ({"targets": {"team": {"kind": "slack", "secret": "hush"}}}, "targets.team.secret"),
            ({"targets": {"team": {"kind": "slack", "secret_ref": "hush"}}}, "targets.team.secret_ref"),
            ({"targets": {"hook": {"kind": "webhook", "url": "u", "topic": "t"}}}, "targets.hook.topic"),
            ({"rules": "loss > 3"}, "rules"),
            ({"rules": [3]}, "rules[0]"),
        ]:
            with self.subTest(field), self.assertRaises(svc.ConfigError) as caught:
                svc.configure({"notifications": given})
            self.assertEqual(caught.exception.errors[0][0], f"registry.notifications.{field}")
            self.assertNotIn("hush", str(caught.exception))

    def test_a_submission_whose_answer_was_lost_is_sent_again_with_its_key(self):
        self.server.answers["POST", "/jobs"] = "drop"
        svc.run({"entrypoint": "a.py"})
        keys = [headers["Idempotency-Key"] for method, _, _, headers in self.server.requests if method == "POST"]
        self.assertEqual((len(keys), len(set(keys))), (2, 1))

    def test_a_submission_whose_answer_was_cut_is_sent_again_with_its_key(self):
        svc.jobs()
        self.server.short = [0, 20]
        self.assertEqual(svc.run({"entrypoint": "a.py"}).status, "running")
        keys = [headers["Idempotency-Key"] for method, path, _, headers in self.server.requests if path == "/jobs" and method == "POST"]
        self.assertEqual((len(keys), len(set(keys))), (3, 1))

    def test_run_refuses_a_wrong_task_and_a_value_that_json_lacks(self):
        cases = [
            (lambda: svc.run("train.py"), "task"),
            (lambda: svc.run({"args": []}), "task.entrypoint"),
            (lambda: svc.run({"entrypoint": "a", "x": 1}), "task.x"),
            (lambda: svc.run({"entrypoint": "a"}, price_cap=float("nan")), "price_cap"),
            (lambda: svc.run({"entrypoint": "a"}, env={"A": object()}), "env"),
            (lambda: svc.run({"entrypoint": "a"}, project_dir=7), "project_dir"),
        ]
        for call, field in cases:
            with self.subTest(field), self.assertRaises(svc.ConfigError) as caught:
                call()
            self.assertEqual(caught.exception.errors[0][0], field)
        self.assertEqual([r for r in self.server.requests if r[0] == "POST"], [])

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

    def test_svc_prints_no_progress_if_it_is_turned_off(self):
        self.assertEqual(self.shown(SVC_PROGRESS="0"), "")
        self.assertFalse(any("timeline" in path for _, path, _, _ in self.server.requests))

    def test_errors_have_their_class(self):
        with self.assertRaises(svc.JobNotFound) as caught:
            svc.job("nobody/../x")
        self.assertEqual((caught.exception.code, caught.exception.hint), ("job_not_found", "See svc jobs."))
        self.assertEqual(self.server.requests[-1][1], "/jobs/nobody%2F..%2Fx")
        classes = {
            "price_cap_exceeded": svc.PriceCapExceeded, "invalid_request": svc.ConfigError, "entrypoint_not_found": svc.ConfigError,
            "budget_too_small": svc.ConfigError,
            "credential_read_only": svc.CredentialError, "nodes_unsupported": svc.UnsupportedError, "provider_error": svc.ProvisionError,
            "extra_missing": svc.ExtraMissing, "a_code_to_come": svc.SvcError,
        }  # fmt: skip
        for code, kind in classes.items():
            error = from_problem(400, {"code": code, "detail": "d", "hint": "h", "errors": [{"field": "gpus", "message": "bad"}]})
            self.assertIs(type(error), kind)
            self.assertEqual((error.code, error.message, error.hint, error.errors), (code, "d", "h", (("gpus", "bad"),)))
            self.assertIn("gpus: bad", str(error))
        self.assertEqual(from_problem(502, ["odd"]).code, "bad_answer")

    def test_errors_have_the_names_that_a_caller_catches(self):
        with self.assertRaises(svc.JobNotFound) as caught:
            svc.job("nobody")
        self.assertTrue("".join(traceback.format_exception(caught.exception)).startswith("svc.JobNotFound: "))
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again)), (svc.JobNotFound, str(caught.exception)))

    def test_a_machines_text_cannot_control_the_terminal(self):
        error = from_problem(502, {"code": "c", "detail": "it said \x1b]0;x\x07\u202eno", "hint": "h\x9b2J"})
        self.assertEqual((str(error), error.message), ("it said  ]0;x no h 2J [c]", "it said \x1b]0;x\x07\u202eno"))

    def test_the_message_does_not_repeat_a_field_that_its_summary_names(self):
        for detail, said in (
            ("gpus is bad.", "gpus is bad. h [c]"),
            ("No.", "No. (gpus: is bad) h [c]"),
            ("is bad", "is bad h [c]"),
        ):
            error = from_problem(400, {"code": "c", "detail": detail, "hint": "h", "errors": [{"field": "gpus", "message": "is bad"}]})
            self.assertEqual(str(error), said)

    def test_the_command_that_installs_node_can_be_pasted_whatever_the_path(self):
        with (
            mock.patch.object(sys, "executable", "/home/a b/é/python"),
            mock.patch.object(_launcher, "_packaged_node", lambda: None),
            mock.patch.dict(os.environ, {"PATH": "/nowhere"}),
            self.assertRaises(_launcher.CannotStart) as caught,
        ):
            os.environ.pop("SVC_NODE", None)
            _launcher.find_node()
        self.assertIn("`'/home/a b/é/python' -m pip install", caught.exception.remedy)

    def test_the_client_sends_the_homes_token_only_if_it_is_required(self):
        self.server.token = "t" * 43
        self.server.log = b"one\n"
        (self.home / "token").write_text(self.server.token + "\n")
        job = svc.run({"entrypoint": "a.py"}, idempotency_key="k")
        self.server.put("k", "succeeded")
        self.assertEqual((list(svc.stream(job.id)), svc.wait(job.id).status), (["one"], "succeeded"))
        self.assertEqual(len([r for r in self.server.requests if r[:2] == ("POST", "/jobs")]), 2)
        (self.home / "token").write_text("another")
        with self.assertRaises(svc.CredentialError):
            svc.jobs()

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

    def test_a_ctrl_c_during_the_submission_says_that_the_run_may_continue(self):
        svc.jobs()
        self.server.slow["/jobs"] = 5
        ask = threading.Thread(target=lambda: (until(lambda: any(r[0] == "POST" for r in self.server.requests)), os.kill(os.getpid(), signal.SIGINT)))
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(KeyboardInterrupt):
            ask.start()
            svc.run(svc.Task("t.py"))
        self.assertIn("if it was accepted, it continues, and its machine may cost money; `svc kill last` ends it now", said.getvalue())

    def test_a_wait_that_fails_after_the_start_of_a_run_names_the_run(self):
        self.server.answers[("GET", "/jobs/k")] = (500, {"code": "internal_error", "detail": "It broke.", "hint": "Report it."})
        with self.assertRaises(svc.SvcError) as caught:
            svc.run(svc.Task("t.py"), idempotency_key="k", wait=True)
        self.assertEqual(caught.exception.code, "internal_error")
        self.assertIn("The run k was started, and may continue and cost money: `svc kill k` ends it. Report it.", caught.exception.hint)

    def test_stream_of_an_unknown_job_fails_at_once(self):
        with self.assertRaises(svc.JobNotFound):
            svc.stream("nobody")

    def test_a_closed_stream_ends(self):
        self.server.put("a")
        lines = svc.stream("a")
        lines.close()
        self.assertEqual(list(lines), [])

    def test_a_lost_call_releases_no_hold(self):
        self.addCleanup(setattr, _control_plane, "END_SECONDS_MAX", _control_plane.END_SECONDS_MAX)
        _control_plane.END_SECONDS_MAX = 2
        self.server.ends_with_holders = True
        self.server.put("a")
        svc.jobs()
        self.server.answers["GET", "/jobs"] = "drop"
        self.assertEqual(len(svc.jobs()), 1)
        time.sleep(0.3)
        self.assertFalse(self.server.over.is_set())
        self.assertEqual(len(self.server.holders), 1)

    def test_a_call_without_any_answer_raises_unreachable(self):
        old = _client.LOST_SECONDS_MAX
        self.addCleanup(setattr, _client, "LOST_SECONDS_MAX", old)
        _client.LOST_SECONDS_MAX = 0.2
        svc.jobs()
        self.server.answers["GET", "/jobs/x"] = "drop"
        with self.assertRaises(svc.SvcError) as caught:
            _http.call(self.server.server_address[1], "GET", "/jobs/x")
        self.assertEqual(caught.exception.code, "unreachable")

    def test_asyncio_twins(self):
        async def main():
            self.server.log = b"a\nb\n"
            job = await svc.aio.run({"entrypoint": "a.py"}, idempotency_key="k")
            waiting = asyncio.create_task(svc.aio.wait(job.id))
            await asyncio.sleep(0)
            self.server.put("k", "succeeded")
            self.assertEqual((await waiting).status, "succeeded")
            self.assertEqual([line async for line in svc.aio.stream("k")], ["a", "b"])
            self.assertEqual([job.id for job in await svc.aio.jobs(limit=3)], ["k"])
            registry = {"credentials": [{"cred_id": "c", "provider": "podhost", "secret_ref": "store://podhost/api_key"}]}
            self.server.answers["PUT", "/v1/registry"] = (200, {"use": ["c"], "kept": [], "warnings": []})
            await svc.aio.configure(registry=registry)
            await svc.aio.jobs()
            self.assertEqual([body["use"] for method, _, body, _ in self.server.requests if method == "PUT"], [["c"]])
            self.server.put("endless")
            endless = asyncio.create_task(svc.aio.wait("endless"))
            await asyncio.sleep(0.05)
            endless.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await endless

        asyncio.run(asyncio.wait_for(main(), 60))

    def test_a_removal_and_a_reconcile_may_take_longer_than_other_calls(self):
        self.server.put("a", "succeeded")
        self.server.answers[("DELETE", "/jobs/a")] = (200, {"id": "a", "freed_bytes": 7})
        self.server.answers[("POST", "/v1/reconcile")] = (200, {"dry_run": True})
        self.server.answers[("POST", "/jobs/a/checkpoints/remove")] = (200, {"id": "a", "freed_bytes": 3})
        svc.job("a")
        self.server.slow = dict.fromkeys(("/jobs/a", "/v1/reconcile", "/jobs/a/checkpoints/remove"), 0.6)
        with mock.patch.object(_client.call, "__defaults__", (None, None, 0.2)), mock.patch.object(_client, "LOST_SECONDS_MAX", 0.2):
            with self.assertRaisesRegex(svc.SvcError, "it took too long. It may only be slow"):
                svc.job("a")
            self.assertEqual(svc.remove("a"), 7)
            self.assertEqual(svc.remove_checkpoints("a", ["x"]).freed_bytes, 3)
            self.assertTrue(svc.reconcile(dry_run=True).dry_run)
        self.assertEqual(len([r for r in self.server.requests if r[0] == "DELETE"]), 1)

    def test_an_id_that_is_none_is_refused_by_its_field_in_every_function(self):
        of_a_job = (
            svc.job, svc.wait, svc.stream, svc.kill, svc.remove, svc.placements, svc.receipt, svc.archive, svc.unarchive, svc.chart,
            lambda given: svc.update(given, label="x"), lambda given: svc.remove_checkpoints(given, ["x"]),
        )  # fmt: skip
        for there in (True, False):
            for ask in of_a_job:
                for wrong in (None, "", 7, svc.Job(id="a", status="running")):
                    with self.subTest(there=there, ask=ask, wrong=wrong), mock.patch.object(_control_plane.PLANES, "is_there", lambda: there):
                        with self.assertRaises(svc.ConfigError) as caught:
                            ask(wrong)
                        self.assertEqual(caught.exception.errors[0][0], "job_id")
        with self.assertRaisesRegex(svc.ConfigError, r'not the Job: "a", as job\.id is'):
            svc.wait(svc.Job(id="a", status="running"))

    def test_a_wrong_timeout_key_or_list_of_tags_is_refused_by_its_field(self):
        self.server.put("a", "running")
        calls = {
            "timeout": [lambda: svc.wait("a", timeout="3"), lambda: svc.wait("a", timeout=float("nan")), lambda: svc.wait("a", timeout=[])],
            "idempotency_key": [lambda key=key: svc.run(svc.Task("t.py"), idempotency_key=key) for key in ("", "a b", "a\nb", "é", 5, "k" * 201)],
            "tags": [lambda: svc.jobs(tags=3), lambda: svc.update("a", tags=None)],
            "names": [lambda: svc.remove_checkpoints("a", None)],
            "project_dir": [lambda: svc.run(svc.Task("t.py"), project_dir=""), lambda: svc.run(svc.Task("t.py"), project_dir=3)],
        }
        for field, asks in calls.items():
            for ask in asks:
                with self.subTest(field=field), self.assertRaises(svc.ConfigError) as caught:
                    ask()
                self.assertEqual(caught.exception.errors[0][0], field)
        with self.assertRaises(svc.ConfigError):
            asyncio.run(svc.aio.wait("a", timeout="3"))
        self.assertEqual(len(svc.jobs(tags=None)), 1)
        self.assertEqual([r for r in self.server.requests if r[0] == "POST"], [])

    def test_a_relative_home_stays_where_it_was_at_the_first_call(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.home.parent)
        self.set("SVC_HOME", "./home")
        self.server.put("a", "succeeded")
        self.assertEqual(svc.job("a").status, "succeeded")
        (self.home.parent / "elsewhere").mkdir()
        os.chdir(self.home.parent / "elsewhere")
        self.assertEqual(svc.wait("a").status, "succeeded")
        os.rmdir(self.home.parent / "elsewhere")
        self.assertEqual(_http.home(), self.home.parent / "home")
        self.set("SVC_HOME", "another")
        with self.assertRaisesRegex(svc.ConfigError, "the current folder is gone") as caught:
            svc.jobs()
        self.assertEqual(caught.exception.code, "home_unusable")
        self.addCleanup(_http._RELATIVE.clear)

    def test_kill_and_reconcile(self):
        self.server.put("a")
        self.server.answers["POST", "/v1/reconcile"] = (200, {"dry_run": True, "resumed": ["a"], "unknown": 1})
        self.assertEqual(svc.kill("a").id, "a")
        self.assertEqual(svc.reconcile(dry_run=True).resumed, ("a",))
        self.assertEqual([(p, b) for m, p, b, _ in self.server.requests if m == "POST"],
                         [("/jobs/a/kill", {}), ("/v1/reconcile", {"dry_run": True})])  # fmt: skip

    def test_the_retention_rule_is_sent_whole_and_read_without_members_of_later_versions(self):
        rule = {"older_than": "30d", "keep_best": None, "keep_newest": 2}
        answer = {"rule": rule, "removed": [{"id": "j1"}], "due": {"count": 1}, "later_field": 1}
        self.server.answers[("PUT", "/v1/retention")] = (200, answer)
        self.server.answers[("GET", "/v1/retention")] = (200, answer)
        found = svc.set_retention("30d", keep_newest=2)
        self.assertEqual(self.server.requests[-1][2], {"rule": rule})
        self.assertEqual((found.rule, found.removed, found.due, found.doubt), (rule, ({"id": "j1"},), {"count": 1}, None))
        self.assertEqual(svc.retention(), found)
        svc.set_retention(None)
        self.assertEqual(self.server.requests[-1][2], {"rule": None})

    def test_keeping_runs_needs_an_age_and_asks_nothing(self):
        before = len(self.server.requests)
        for given in ({"keep_best": "loss:3"}, {"keep_newest": 3}):
            with self.assertRaises(svc.ConfigError):
                svc.set_retention(None, **given)
        self.assertEqual(len(self.server.requests), before)

    def test_runs_are_archived_and_listed_again_by_their_quoted_id(self):
        self.server.put("a/b", archived_at="2026-11-01T00:00:00.000Z")
        self.server.answers[("POST", "/jobs/a%2Fb/archive")] = (200, self.server.jobs["a/b"])
        self.server.answers[("POST", "/jobs/a%2Fb/unarchive")] = (200, {**self.server.jobs["a/b"], "archived_at": None})
        self.assertEqual(svc.archive("a/b").archived_at, "2026-11-01T00:00:00.000Z")
        self.assertIsNone(svc.unarchive("a/b").archived_at)
        with self.assertRaises(svc.JobNotFound):
            svc.archive("nothing")


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
        child = self.child('from svc import _client; _client.call("GET", "/jobs"); print("up", flush=True); time.sleep(600)', stdout=subprocess.PIPE)
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

    def test_the_control_plane_ends_although_a_forked_child_lives_on(self):
        child = self.child(
            'from svc import _client; _client.call("GET", "/jobs")\npid = os.fork()\nif pid == 0: os.close(1); time.sleep(600)\nprint(pid, flush=True); os.kill(os.getpid(), 9)',
            stdout=subprocess.PIPE,
        )
        forked = int(child.stdout.readline())
        child.communicate()
        try:
            until((self.home / "ended").exists)
        finally:
            os.kill(forked, signal.SIGKILL)

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
        self.assertIn("KeyboardInterrupt", said)

    def test_a_caught_ctrl_c_ends_the_wait_and_not_the_run(self):
        child = self.child(
            'signal = __import__("signal"); signal.signal(signal.SIGINT, signal.default_int_handler)\n'
            'job = svc.run({"entrypoint": "a.py"})\n'
            # Printed once, within the watching: an earlier Ctrl-C would end only the script.
            'def driven(id, look=svc._client.driven, said=[]): said or said.append(print("up", flush=True)); return look(id)\n'
            'svc._client.driven = driven\n'
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


class WithoutControlPlane(WithHome):
    def command(self, error):
        """A command that refuses with this error."""
        self.home.parent.mkdir(exist_ok=True)
        program = self.home.parent / "svc"
        program.write_text("#!/bin/sh\ncat >&2 <<'END'\n" + json.dumps({"error": error}) + "\nEND\nexit 2\n")
        program.chmod(0o755)
        self.set("SVC_BIN", str(program))

    def test_a_refusal_names_the_callers_arguments_and_not_the_flags_of_the_command(self):
        refusal = {"code": "usage", "message": "--from is no day; --keep-newest neither.", "hint": "Write `--older-than 30d`; `svc jobs --all` lists."}
        self.command(refusal)
        with self.assertRaises(svc.ConfigError) as caught:
            svc.retention()
        self.assertEqual(caught.exception.message, "since is no day; keep_newest neither.")
        self.assertEqual(caught.exception.hint, "Write `older_than 30d`; `svc jobs --all` lists.")

    def test_text_that_no_command_accepts_is_refused(self):
        self.command({})
        for label in ("a\0b", "a\ud800"):
            with self.subTest(label=label), self.assertRaisesRegex(svc.ConfigError, "An argument cannot be used"):
                svc.jobs(label=label)


class Values(unittest.TestCase):
    def test_the_record_is_one_line_frozen_and_escaped(self):
        job = svc.Job.from_record({
            "id": "k1", "status": "failed", "exit_code": 1, "label": "<b>&\n", "spec": {"env": {"KEY": "…abcd"}}, "x": 1,
            "error": {"code": "c", "message": "<script>", "hint": "h"},
            "machines": [{"id": None, "name": "n", "node": 0, "address": None, "state": "held", "price_per_hour_usd": 1.5,
                          "created_at": "t", "terminated_at": None}],
        })  # fmt: skip
        self.assertNotIn("\n", repr(job))
        self.assertNotIn("abcd", repr(job) + job._repr_html_())
        self.assertNotIn("<b>", job._repr_html_())
        self.assertNotIn("<script>", job._repr_html_())
        self.assertEqual(job.machines[0].state, "held")
        with self.assertRaises(AttributeError):
            job.status = "succeeded"
        self.assertEqual(len({job, job}), 1)

    def test_the_catalogue(self):
        self.assertEqual((svc.vram_for("A100"), svc.vram_for("a100-pcie:2"), svc.vram_for("H200")), (80, 40, 141))
        self.assertEqual(len(svc.list_gpus()), 36)
        self.assertEqual([svc.vram_for(name) for name in ("Tesla T4", "NVIDIA GeForce RTX 4080", "rtx 4080", "B200")], [16, 16, 16, 180])
        self.assertEqual([gpu.model for gpu in svc.list_gpus("notebook")], ["A100", "V100", "T4"])
        self.assertEqual(svc.list_gpus("local"), [])
        for call in (lambda: svc.vram_for("Abacus"), lambda: svc.vram_for(None), lambda: svc.list_gpus("nobody")):
            self.assertRaises(svc.ConfigError, call)

    def test_configure(self):
        svc.configure()
        svc.configure(registry={}, use=[])
        secret = "sk-very-secret"
        record = {"cred_id": "c", "provider": "podhost", "secret_ref": "env://PODHOST_API_KEY"}
        wrong = [
            ({"credential": []}, [], "registry.credential"),
            ({"credentials": {}}, [], "registry.credentials"),
            ({"credentials": [{**record, "secret_ref": secret}]}, [], "registry.credentials[0].secret_ref"),
            ({"credentials": [{**record, "provider": "moon"}]}, [], "registry.credentials[0].provider"),
            ({"credentials": [record, record]}, [], "registry.credentials[1].cred_id"),
            ({"integrations": {"hub": {"enabled": "yes"}}}, [], "registry.integrations.hub.enabled"),
            ({}, ["c"], "use[0]"),
            ({}, "c", "use"),
            ([1], [], "registry"),
        ]
        for registry, use, field in wrong:
            with self.subTest(field), self.assertRaises(svc.ConfigError) as caught:
                svc.configure(registry=registry, use=use)
            self.assertEqual(caught.exception.errors[0][0], field)
            self.assertNotIn(secret, str(caught.exception))
        two = {"credentials": [record, {**record, "cred_id": "d"}]}
        for use, field in ((None, "registry.credentials[1].cred_id"), (["c", "d"], "use[1]")):
            with self.assertRaises(svc.ConfigError) as caught:
                svc.configure(registry=two, use=use)
            self.assertEqual(caught.exception.errors[0][0], field)
        with mock.patch.dict(os.environ), self.assertRaises(svc.CredentialError) as caught:
            os.environ.pop("PODHOST_API_KEY", None)
            svc.configure(registry={"credentials": [record]})
        self.assertEqual(caught.exception.code, "credential_missing")

    def test_the_error_for_a_missing_extra_says_how_to_install_it(self):
        tables = (ROOT / "python" / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
        named = re.findall(r"^([a-z]+) = \[(.*)\]$", tables.partition("\n[")[0], re.MULTILINE)
        self.assertEqual({name for name, _ in named}, set(_extras.EXTRAS))
        for name, brings in named:
            modules = [re.match(r'"([A-Za-z0-9_]+)', each).group(1) for each in brings.split(", ") if each]
            self.assertEqual(list(_extras.EXTRAS[name]), modules)
        self.assertTrue({"podhost", "dashboard"} <= set(_extras.present()))
        _extras.require_extra("market")
        self.addCleanup(_extras.EXTRAS.__setitem__, "hub", _extras.EXTRAS["hub"])
        _extras.EXTRAS["hub"] = ("a_module_that_is_not_there",)
        self.assertNotIn("hub", _launcher.extras_for(["node", "cli.mjs"])["SVC_EXTRAS"].split(","))
        self.assertEqual(_launcher.extras_for(["bin/svc"]), {})
        with self.assertRaises(svc.ExtraMissing) as caught:
            _extras.require_extra("hub")
        self.assertEqual(caught.exception.code, "extra_missing")
        self.assertIn("-m pip install 'svc[hub]'", caught.exception.hint)
        _extras.EXTRAS["hub"] = ("json.decoder",)
        _extras.require_extra("hub")

    def test_every_public_name_exists(self):
        for name in svc.__all__:
            self.assertIsNotNone(getattr(svc, name))
        self.assertTrue(set(svc.__all__) <= set(dir(svc)))
        with self.assertRaises(AttributeError):
            svc.nothing
        self.assertEqual(set(svc.aio.__all__), {*_client.__all__, *_money.__all__, *(set(_retention.__all__) - {"Retention"})})
        for name in set(_client.__all__) - {"run"}:
            of = [list(inspect.signature(getattr(module, name)).parameters) for module in (_client, svc.aio)]
            self.assertEqual(*of, name)
        parameters = set(inspect.signature(_client.run).parameters) - {"task", "wait"}
        self.assertEqual(parameters, set(svc.aio.RunParameters.__annotations__))


class Shown(WithHome):
    def test_jobs_are_a_table_in_a_console_and_in_a_notebook(self) -> None:
        record = {"id": "j1", "status": "failed", "exit_code": 3, "label": "<b>\x1b[31m", "entrypoint": "train.py", "args": ["--lr", "1"]}
        why = {"code": "x", "message": "It failed.", "hint": ""}
        jobs = _records.JobList([svc.Job.from_record({**record, "error": why}), svc.Job("j22", "running")])
        self.assertIsInstance(jobs, list)
        heads, *rows = repr(jobs).splitlines()
        self.assertEqual(heads.split(), list(_records.JobList._HEADS))
        self.assertEqual([row.split()[:2] for row in rows], [["j1", "failed"], ["j22", "running"]])
        self.assertIn("train.py --lr 1", rows[0])
        self.assertNotIn("\x1b", repr(jobs))
        page = jobs._repr_html_()
        self.assertEqual(page.count("<tr>"), 3)
        self.assertIn("&lt;b&gt;", page)
        self.assertNotIn("<b>", page)
        self.assertEqual(repr(_records.JobList()), "no jobs")

    def test_an_empty_home_has_an_empty_table(self) -> None:
        self.assertIsInstance(svc.jobs(), _records.JobList)

    def test_a_refusal_shows_no_frame_of_the_package_but_one(self) -> None:
        for debug, most in (("", 2), ("1", 20)):
            for refused in (lambda: svc.jobs(limit=0), lambda: svc.hub.from_local(3), lambda: svc.hub.remove(None)):
                try:
                    with mock.patch.dict(os.environ, {"SVC_DEBUG": debug}):
                        refused()
                except svc.ConfigError as error:
                    frames = traceback.extract_tb(error.__traceback__)
                else:
                    self.fail("it was accepted")
                inner = [frame for frame in frames if "/svc/" in frame.filename]
                self.assertEqual(len(inner) == 1, debug == "", inner)
                self.assertLessEqual(len(frames), most + 1)

    def test_a_notebook_shows_the_callers_lines_alone(self) -> None:
        try:
            svc.jobs(limit=0)
        except svc.ConfigError as error:
            lines = error._render_traceback_()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertEqual([line for line in lines if "/svc/_" in line], [])
        self.assertIn("svc.jobs(limit=0)", "".join(lines))
        self.assertEqual(lines[-1], "svc.ConfigError: limit must be a whole number of at least 1. [invalid_request]")

    def test_the_statuses_are_those_of_the_control_plane(self) -> None:
        names = (Path(__file__).parents[2] / "src/schemas/names.ts").read_text()
        lists = re.findall(r"export const (?:ACTIVE_STATUSES|OUTCOMES) = \[([^\]]*)\]", names)
        ours = re.findall(r'"(\w+)"', "".join(lists))
        self.assertEqual(list(typing.get_args(_records.JobStatus)), ours)
        self.assertEqual(_records.TERMINAL_STATUSES, set(ours[ours.index("succeeded") :]))


class PullLines(unittest.TestCase):
    def test_a_pull_without_a_terminal_prints_each_problem_once_and_nothing_else(self) -> None:
        from svc import hub

        out = io.StringIO()
        line = hub._Line(out)
        refused = {"kind": "retrying", "message": "The hub refused.", "retry_in_seconds": 1}
        queued = {"kind": "queued", "message": "Another pull goes first.", "retry_in_seconds": None}
        for note in (None, refused, {**refused, "retry_in_seconds": 2}, None, queued):
            line.show({"model_id": "m", "phase": "resolving", "note": note})
        self.assertEqual(
            out.getvalue(), "svc: m: The hub refused. Retrying in 1 s.\nsvc: m: Another pull goes first.\n"
        )


if __name__ == "__main__":
    unittest.main()
