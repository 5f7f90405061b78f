"""Submitting runs, against a small real HTTP server on loopback."""

import contextlib
import io
import json
import os
import signal
import sys
import threading
import unittest
import unittest.mock as mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from client_case import WithControlPlane, until

import svc
from svc import _registry


class Submissions(WithControlPlane):
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

    def test_a_child_that_is_forked_while_a_thread_sends_the_registry_makes_its_own_calls(self):
        self.server.answers["PUT", "/v1/registry"] = (200, {"use": [], "kept": [], "warnings": []})
        svc.configure(registry={}, use=[])
        with _registry._LATEST._lock:  # as a thread does while it sends
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    svc.jobs()
                    os._exit(0)
                finally:
                    os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(sum(path == "/v1/registry" for _, path, _, _ in self.server.requests), 1)

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


if __name__ == "__main__":
    unittest.main()
