"""The client half, against a small real HTTP server on loopback."""

import asyncio
import html
import inspect
import io
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
import time
import traceback
import typing
import unittest
import unittest.mock as mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from client_case import ROOT, WithControlPlane, WithHome, forget_registry_after

import svc
from svc import _call, _chart, _client, _control_plane, _extras, _follow, _http, _launcher, _money, _progress, _records, _registry, _retention, _run
from svc._errors import from_problem


class Calls(WithControlPlane):
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

    def test_errors_have_their_class(self):
        with self.assertRaises(svc.JobNotFound) as caught:
            svc.job("nobody/../x")
        self.assertEqual((caught.exception.code, caught.exception.hint), ("job_not_found", "See svc jobs."))
        self.assertEqual(self.server.requests[-1][1], "/jobs/nobody%2F..%2Fx")
        classes = {
            "price_cap_exceeded": svc.PriceCapExceeded, "invalid_request": svc.ConfigError, "entrypoint_not_found": svc.ConfigError,
            "budget_too_small": svc.ConfigError,
            "limit_never_fits": svc.ConfigError,
            "python_refused": svc.ConfigError,
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
        old = _call.LOST_SECONDS_MAX
        self.addCleanup(setattr, _call, "LOST_SECONDS_MAX", old)
        _call.LOST_SECONDS_MAX = 0.2
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
        with mock.patch.object(_call.call, "__defaults__", (None, None, 0.2)), mock.patch.object(_call, "LOST_SECONDS_MAX", 0.2):
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

    def test_a_number_that_json_does_not_have_is_refused_by_its_field_and_starts_nothing(self):
        nan, infinite = float("nan"), float("inf")
        task = svc.Task("t.py")
        calls = {
            "budget_usd": lambda: svc.update("a", budget_usd=nan),
            "budget_usd must be": lambda: svc.update("a", budget_usd=""),
            "price_cap": lambda: svc.update("a", price_cap=infinite),
            "max_runtime_minutes": lambda: svc.update("a", label="x", max_runtime_minutes=-infinite),
            "keep_newest": lambda: svc.set_retention("30d", keep_newest=nan),
            "usd_per_day": lambda: svc.set_limits(usd_per_day=infinite),
            "usd_per_hour": lambda: svc.set_limits(usd_per_hour=10**400),
            "limit": lambda: svc.jobs(limit=nan),
            "min_vram_gb": lambda: svc.run(task, min_vram_gb=nan),
            "rate_usd_per_hour": lambda: svc.plan(task, rate_usd_per_hour=infinite),
            "label": lambda: svc.run(task, label=nan),
            "revision": lambda: svc.hub.pull("owner/name", revision=nan),
            "registry.credentials[0].extra.port": lambda: svc.configure(
                {"credentials": [{"cred_id": "c", "provider": "notebook", "extra": {"host": "h", "port": nan}}]}
            ),
        }
        for there in (True, False):
            for field, ask in calls.items():
                with self.subTest(field, there=there), mock.patch.object(_control_plane.PLANES, "is_there", lambda: there):
                    with self.assertRaises(svc.ConfigError) as caught:
                        ask()
                    self.assertIn(field, str(caught.exception))
        self.assertEqual(self.server.requests, [])

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
        forget_registry_after(self)
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
        blocking = {*_client.__all__, *_follow.__all__, *_registry.__all__, *_run.__all__, "list_gpus", "vram_for"}
        self.assertEqual(set(svc.aio.__all__), {*blocking, *_money.__all__, *(set(_retention.__all__) - {"Retention"})})
        for name in blocking - {"run"}:
            of = [list(inspect.signature(getattr(module, name)).parameters) for module in (svc, svc.aio)]
            self.assertEqual(*of, name)
        parameters = set(inspect.signature(_run.run).parameters) - {"task", "wait"}
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

    def test_an_unknown_price_is_never_shown_as_no_cost(self) -> None:
        machine = {"id": "m", "name": "n", "node": 0, "address": None, "state": "held", "created_at": "t", "terminated_at": None}
        for cost, prices, expected in ((0, [None], "unknown"), (0.4, [1.5, None], "> $0.40"), (0.4, [1.5], "$0.40"), (0, [], "$0.00")):
            with self.subTest(expected):
                machines = [{**machine, "price_per_hour_usd": price} for price in prices]
                job = svc.Job.from_record({"id": "j1", "status": "running", "cost_usd": cost, "machines": machines})
                self.assertIn(f"  {expected}  " if expected[0] != "$" else expected, repr(_records.JobList([job])) + "  ")
                self.assertIn(f">{html.escape(expected)}<", job._repr_html_())
                # Next to other words, a run without any cost has none.
                beside = {"unknown": ["cost unknown"], "$0.00": []}.get(expected, [expected])
                self.assertEqual(_progress._summary(job, 3).split(", ")[1:], beside)
                chart = _chart.Chart("j1")
                chart._job = job
                self.assertEqual(chart._title().split(" · ")[3:-1], beside)

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
    def test_a_caller_that_works_in_the_folder_of_the_model_is_there_afterwards(self) -> None:
        from svc import hub

        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as held:
            top = Path(held).resolve()

            def put(*_: object) -> dict[str, object]:
                """As the control plane does: a finished folder takes the place of the former one."""
                (top / "new" / "below").mkdir(parents=True)
                (top / "new" / "config.json").write_text("{}")
                (top / "mine").rename(top / "old")
                (top / "new").rename(top / "mine")
                shutil.rmtree(top / "old")
                return {"pull": {"status": "succeeded", "path": str(top / "mine")}}

            (top / "mine" / "below").mkdir(parents=True)
            for local_dir, here in ((".", top / "mine"), ("..", top / "mine" / "below")):
                os.chdir(here)
                with mock.patch.object(hub, "call", put):
                    hub.pull("owner/name", local_dir=local_dir)
                self.assertEqual(Path.cwd(), here)
                self.assertTrue((top / "mine" / "config.json").samefile(os.path.join(local_dir, "config.json")))
            os.chdir(top)

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
