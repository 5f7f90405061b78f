"""Checkpoints: what counts as one, and what remains when a script dies while it saves. Runs as real processes."""

import io
import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import zipfile
from pathlib import Path

import test_script as base

records = base.records


def a_zip(size=5_000):
    """Files in the form of torch.save, keras and numpy.savez."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("archive/data.pkl", b"x" * size)
    return held.getvalue()


def safetensors(size=400):
    head = json.dumps({"__metadata__": {"format": "pt"}, "w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(head)) + head + b"x" * size


class Checkpoints(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.top = Path(held.name).resolve()
        self.dir = self.top / "checkpoints"
        self.clock = itertools.count(1_000_000_000, 10)

    def script(self, code, job=True, **env):
        given = {"SVC_CHECKPOINT_DIR": str(self.dir)} if job else {}
        result = base.run_script("import os, svc\n" + textwrap.dedent(code), {**given, **env}, job, cwd=self.top)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result

    def test_the_directory_is_made_and_equals_the_variable(self):
        result = self.script("print(svc.checkpoint_dir())")
        self.assertEqual(result.stdout.decode().strip(), str(self.dir))
        self.assertTrue(self.dir.is_dir())

    def test_keras_continues_after_its_last_epoch_although_the_script_has_saved_a_file_of_its_own_since(self):
        (self.top / "keras.py").write_text(
            "class callbacks:\n    class Callback: pass\nclass saving:\n    def load_model(path): return os.path.basename(path)\nimport os\n"
        )
        load = "import sys; sys.path.insert(0, os.getcwd())\nfrom svc.integrations.keras import load_latest\nprint(load_latest())"
        self.assertEqual(self.script(load).stdout, b"(None, 0)\n")
        (self.dir / "best.keras").write_bytes(a_zip())
        alone = self.script(load)
        self.assertEqual(alone.stdout, b"(None, 0)\n")
        self.assertIn(b"best.keras", alone.stderr)
        self.assertIn(b"from the beginning", alone.stderr)
        for at, name in enumerate(("epoch-0009.keras", "epoch-0010.keras", "best.keras")):
            (self.dir / name).write_bytes(a_zip())
            os.utime(self.dir / name, (1_000_000_000 + at, 1_000_000_000 + at))
        own = self.script(load)
        self.assertEqual((own.stdout, own.stderr), (b"('epoch-0010.keras', 10)\n", b""))

    def test_outside_a_job_it_is_a_local_folder(self):
        result = self.script("print(svc.checkpoint_dir())", job=False)
        self.assertEqual(result.stdout.decode().strip(), str(self.top / "checkpoints-local"))
        self.assertIn(b"not in a job", result.stderr)

    def test_announcing(self):
        result = self.script(
            """
            open(os.path.join(svc.checkpoint_dir(), "a.bin"), "w").close()
            os.makedirs(os.path.join(svc.checkpoint_dir(), "epoch 3", "ü"))
            svc.checkpoint("a.bin", step=7)
            svc.checkpoint(os.path.join(svc.checkpoint_dir(), "epoch 3", "ü"))
            print(svc.latest_checkpoint().encode().decode("ascii", "ignore"))
            """
        )
        (first, second), _ = records(result.stdout)
        self.assertEqual({k: first[k] for k in "knsr"}, {"k": "c", "n": 1, "s": 7, "r": 0})
        self.assertEqual(first["path"], "a.bin")
        self.assertEqual((second["path"], second["s"]), ("epoch 3/ü", None))

    def test_a_failed_announcement_is_printed_and_does_not_raise(self):
        result = self.script(
            'svc.checkpoint("nothing"); svc.checkpoint("/etc/passwd"); svc.checkpoint("../x"); svc.checkpoint(None); svc.checkpoint(".")'
        )
        self.assertEqual(records(result.stdout)[0], [])
        self.assertIn(b"nothing does not exist", result.stderr)
        self.assertIn(b"outside", result.stderr)

    def test_atomic_save_replaces_the_file_in_one_step(self):
        result = self.script(
            """
            for text in "one", "two":
                with svc.atomic_save("last.pt", step=len(text)) as path:
                    assert path.endswith(".pt") and os.path.dirname(path) == svc.checkpoint_dir(), path
                    open(path, "w").write(text)
            try:
                with svc.atomic_save("last.pt") as path:
                    open(path, "w").write("half"); raise KeyError("stop")
            except KeyError: pass
            try:
                with svc.atomic_save("other.pt"): pass
            except FileNotFoundError as error: print("nothing:", error)
            """
        )
        self.assertEqual((self.dir / "last.pt").read_text(), "two")
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), [".svc-checkpoints.jsonl", "last.pt"])
        found, text = records(result.stdout)
        self.assertEqual([record["path"] for record in found], ["last.pt", "last.pt"])
        self.assertIn(b"nothing:", text)

    def test_atomic_save_of_directories(self):
        self.script(
            """
            for n in 1, 2:
                with svc.atomic_save("model", directory=n == 2) as path:
                    os.makedirs(path + "/sub"); open(path + "/sub/%d" % n, "w").close()
            """
        )
        self.assertEqual([p.name for p in (self.dir / "model" / "sub").iterdir()], ["2"])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), [".svc-checkpoints.jsonl", "model"])

    def test_atomic_save_of_an_open_file(self):
        result = self.script(
            """
            with svc.atomic_save("a/b.json", mode="w") as file: file.write("{}ü")
            with svc.atomic_save("c.bin", mode="wb", step=1) as file: file.write(b"\\x00")
            for wrong in {"mode": "r"}, {"mode": "w", "directory": True}:
                try: svc.atomic_save("d", **wrong)
                except ValueError as error: print("refused")
            """
        )
        self.assertEqual((self.dir / "a" / "b.json").read_bytes(), "{}ü".encode())
        found, text = records(result.stdout)
        self.assertEqual([record["path"] for record in found], ["a/b.json", "c.bin"])
        self.assertEqual(text, b"refused\n" * 2)

    def killed_at(self, what, before, name="last.pt"):
        """Runs a script that overwrites an existing checkpoint, and kills itself when it calls `what`."""
        code = """
import os, signal, sys, svc
{before}
def die(*a, **k): os.kill(os.getpid(), signal.SIGKILL)
{what} = die
with svc.atomic_save({name!r}) as path:
    {write}
""".format(what=what, before=before, name=name, write="os.mkdir(path); open(path + '/new', 'w').close()" if name == "unit" else "open(path, 'w').write('new')")
        env = {"SVC_CHECKPOINT_DIR": str(self.dir)}
        result = base.run_script("import svc._checkpoints\n" + code, env)
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)

    def test_atomic_save_where_only_a_file_that_is_open_for_writing_can_be_flushed(self):
        self.script(
            """
            import fcntl, svc._checkpoints
            flush = os.fsync
            def as_on_windows(fd):
                if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                    raise OSError(9, "Bad file descriptor")
                flush(fd)
            os.fsync, os.name = as_on_windows, "nt"
            with svc.atomic_save("one") as path:
                open(path, "w").close()
            with svc.atomic_save("two", mode="w") as file:
                file.write("x")
            with svc.atomic_save("three", directory=True) as folder:
                open(os.path.join(folder, "part"), "w").close()
            """
        )
        self.assertEqual(sorted(path.name for path in self.dir.glob("[!.]*")), ["one", "three", "two"])

    @unittest.skipIf(os.name == "nt", "needs pipes with a name")
    def test_a_folder_with_a_broken_symlink_a_pipe_and_a_socket_in_it_is_saved(self):
        self.script(
            """
            import signal, socket
            signal.alarm(60)
            with svc.atomic_save("unit", directory=True) as folder:
                with open(os.path.join(folder, "part"), "w") as file:
                    file.write("x")
                os.chdir(folder)
                os.symlink("nowhere", "broken")
                os.symlink("part", "link")
                os.mkfifo("pipe")
                socket.socket(socket.AF_UNIX).bind("socket")
            """
        )
        self.assertEqual(sorted(path.name for path in (self.dir / "unit").iterdir()), ["broken", "link", "part", "pipe", "socket"])
        self.assertEqual(self.latest(), "unit")

    def test_a_crash_before_the_new_file_is_in_place_leaves_the_old_one(self):
        before = "with svc.atomic_save('last.pt') as path: open(path, 'w').write('old')"
        for what in ("os.fsync", "os.replace", "svc._checkpoints._sync_tree"):
            with self.subTest(what):
                self.killed_at(what, before)
                self.assertEqual((self.dir / "last.pt").read_text(), "old")
                self.assertEqual(self.latest(), "last.pt")

    def test_a_crash_between_the_rename_and_the_announcement_leaves_the_new_one(self):
        before = "with svc.atomic_save('last.pt') as path: open(path, 'w').write('old')"
        self.killed_at("svc._checkpoints.checkpoint", before)
        self.assertEqual((self.dir / "last.pt").read_text(), "new")
        self.assertEqual(self.latest(), "last.pt")

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs a system that swaps two names in one step")
    def test_a_complete_directory_exists_at_every_moment(self):
        before = "with svc.atomic_save('unit') as path: os.mkdir(path); open(path + '/old', 'w').close()"
        for what in ("svc._checkpoints._swap", "os.fsync", "svc._checkpoints._remove"):
            with self.subTest(what):
                self.killed_at(what, before, "unit")
                self.assertEqual(len(list((self.dir / "unit").iterdir())), 1)
                self.assertEqual(self.latest(), "unit")

    def test_a_script_killed_at_any_moment_leaves_a_complete_checkpoint(self):
        code = """
import itertools, json, svc
for n in itertools.count(1):
    with svc.atomic_save("last.json", step=n, mode="w") as file:
        json.dump({"n": n, "pad": "x" * 200_000, "again": n}, file)
"""
        env = base.environment(SVC_METRICS_MARK=base.MARK, SVC_CHECKPOINT_DIR=str(self.dir))
        for after in (1, 2, 5):
            process = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
            announced = [strict_path(process.stdout.readline()) for _ in range(after)]
            process.kill()
            process.communicate(timeout=60)
            self.assertEqual(announced, ["last.json"] * after)
            saved = json.loads((self.dir / "last.json").read_text())
            self.assertGreaterEqual(saved["n"], after)
            self.assertEqual(saved["again"], saved["n"])
            self.assertEqual(self.latest(), "last.json")

    def test_many_processes_announce_at_once_and_no_line_of_the_index_is_lost(self):
        code = """
import os, svc, sys
for n in range(50):
    with svc.atomic_save("rank%s/%d.bin" % (sys.argv[1], n), step=n, mode="w") as file: file.write("x")
"""
        env = base.environment(SVC_METRICS_MARK=base.MARK, SVC_CHECKPOINT_DIR=str(self.dir))
        many = [subprocess.Popen([sys.executable, "-c", code, str(k)], env=env, stdout=subprocess.DEVNULL) for k in range(4)]
        self.assertEqual([process.wait(120) for process in many], [0] * 4)
        lines = [json.loads(line) for line in (self.dir / ".svc-checkpoints.jsonl").read_text().splitlines()]
        self.assertEqual(len({line["path"] for line in lines}), 200)

    def test_a_file_that_is_written_after_the_call_is_newer_than_the_announcement(self):
        result = self.script(
            """
            for n in range(20):
                path = os.path.join(svc.checkpoint_dir(), "%d.bin" % n)
                open(path, "w").close()
                svc.checkpoint(path)
                open(path, "w").close()
            """
        )
        said = {r["path"]: r["t"] for r in records(result.stdout)[0] if r["k"] == "c"}
        self.assertEqual(len(said), 20)
        for name, at in said.items():
            self.assertGreater(os.stat(self.dir / name).st_mtime, at + 0.002)

    def test_a_checkpoint_is_announced_although_the_index_cannot_be_written(self):
        code = 'open(os.path.join(svc.checkpoint_dir(), "a.pt"), "w").close(); svc.checkpoint("a.pt", step=3)'
        self.dir.joinpath(".svc-checkpoints.jsonl").mkdir(parents=True)
        result = self.script(code)
        self.assertEqual([(r["path"], r["s"]) for r in records(result.stdout)[0] if r["k"] == "c"], [("a.pt", 3)])
        self.assertIn(b"a later process may not find it", result.stderr)

    def test_names_that_are_never_downloaded_are_not_announced(self):
        result = self.script(
            """
            for name in "a.tmp", "tmp-b", "c\\nd", ".svc-e":
                open(os.path.join(svc.checkpoint_dir(), name), "w").close()
                svc.checkpoint(name)
            """
        )
        self.assertEqual(records(result.stdout)[0], [])
        self.assertIn(b"temporary name", result.stderr)
        self.assertIn(b"control characters", result.stderr)

    def test_a_name_that_only_ends_like_one_of_tensorflows_temporary_folders_is_announced(self):
        result = self.script(
            """
            for name in "high_temp/model.pt", "ckpt-1_temp/part-00000-of-00001.index":
                os.makedirs(os.path.join(svc.checkpoint_dir(), os.path.dirname(name)))
                open(os.path.join(svc.checkpoint_dir(), name), "w").close()
            for name in "high_temp/model.pt", "high_temp", "ckpt-1_temp", "ckpt-1_temp/part-00000-of-00001.index":
                svc.checkpoint(name)
            """
        )
        self.assertEqual([r["path"] for r in records(result.stdout)[0]], ["high_temp/model.pt", "high_temp"])
        self.assertIn(b"temporary name", result.stderr)

    def test_the_latest_may_be_in_a_folder_of_such_a_name(self):
        self.put("1.pt")
        self.put("ckpt-2_temp/part-00000-of-00001.index", b"x")
        self.put("ckpt-2_temp/saved_model.pb", b"x")
        self.assertEqual(self.latest(), "1.pt")
        self.put("high_temp/model.pt")
        self.assertEqual(self.latest(), "high_temp/model.pt")

    def latest(self, **env):
        text = self.script("print(svc.latest_checkpoint())", **env).stdout.decode().strip()
        return None if text == "None" else Path(text).relative_to(self.dir).as_posix()

    def put(self, name, content=None, at=None):
        """Newer than all before by default; always long ago."""
        at = next(self.clock) if at is None else at
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(a_zip() if content is None else content)
        os.utime(path, (at, at))
        if path.parent != self.dir:
            os.utime(path.parent, (at, at))

    def test_nothing_yet(self):
        self.assertIsNone(self.latest())

    def test_names_of_unfinished_files_never_count(self):
        for name in ("notes.txt", "a.pt.tmp", "tmp-b.pt", "c.partial", "tmp-checkpoint-4/trainer_state.json", "x.tmp/.metadata"):
            self.put(name)
        self.put("checkpoint-5/trainer_state.json", b"{}")
        self.put("checkpoint-5/checkpoint-is-incomplete.txt", b"")
        self.put("deep/tmp-1/last.ckpt")
        self.assertIsNone(self.latest())

    def test_the_newest_complete_checkpoint_wins_whatever_its_folder(self):
        for name, content in (
            ("one.pt", None), ("two.pth", None), ("three.ckpt", None), ("four.keras", None), ("five.npz", None),
            ("six.safetensors", safetensors()), ("lightning_logs/version_0/checkpoints/epoch=3-step=40.ckpt", None),
            ("old-torch.pt", b"\x80\x02pickle."),
        ):
            self.put(name, content)
            self.assertEqual(self.latest(), name)
        self.put("sharded/.metadata", b"x")
        self.assertEqual(self.latest(), "sharded")
        self.put("hf/run/checkpoint-10/model.safetensors", safetensors())
        self.put("hf/run/checkpoint-10/trainer_state.json", b"{}")
        self.assertEqual(self.latest(), "hf/run/checkpoint-10")

    def test_a_directory_of_checkpoints_into_which_the_trainer_writes_its_state_at_the_end_is_none(self):
        self.put("out/checkpoint-10/trainer_state.json", b"{}")
        self.put("out/deep/er/checkpoint-20/trainer_state.json", b"{}")
        self.put("out/model.safetensors", safetensors())
        self.put("out/trainer_state.json", b"{}")
        self.assertEqual(self.latest(), "out/deep/er/checkpoint-20")
        self.put("best/pytorch_model_fsdp_0/.metadata", b"x")
        self.put("best/trainer_state.json", b"{}")
        self.assertEqual(self.latest(), "best")

    def test_a_checkpoint_from_a_machine_whose_clock_was_ahead_is_older_than_those_saved_here(self):
        for name in ("given.pt", "given/.metadata"):
            self.put(name, at=time.time() + 86_400)
            given = str(self.dir / name.partition("/")[0])
            self.assertEqual(self.latest(SVC_RESUME_FROM=given), name.partition("/")[0])
        time.sleep(0.02)
        (self.dir / "own.pt").write_bytes(a_zip())
        self.assertEqual(self.latest(SVC_RESUME_FROM=given), "own.pt")

    def test_files_that_a_crash_truncated_never_count(self):
        self.put("good.pt")
        for name, whole in (("t.pt", a_zip()), ("t.ckpt", a_zip(300_000)), ("t.keras", a_zip()), ("t.npz", a_zip()), ("t.safetensors", safetensors())):
            for part in (0, 3, 60, len(whole) // 2, len(whole) - 30 if whole[:2] == b"PK" else len(whole) - 1):
                with self.subTest(name=name, part=part):
                    # A ZIP of three bytes is not a ZIP: only endings that always mean a ZIP show that.
                    if part == 3 and name in ("t.pt", "t.ckpt"):
                        continue
                    self.put(name, whole[:part])
                    self.assertEqual(self.latest(), "good.pt")
            self.put(name, whole)
            self.assertEqual(self.latest(), name)
            (self.dir / name).unlink()

    def test_a_part_of_a_checkpoint_of_many_files_is_no_checkpoint(self):
        self.put("good.pt")
        for folder, names in {
            "checkpoint-20": ["model.safetensors", "optimizer.pt"],  # the Trainer, killed before trainer_state.json
            "checkpoint-30": ["adapter_model.safetensors"],
            "out": ["config.json", "model-00001-of-00002.safetensors"],
            "state": ["model.safetensors", "optimizer.bin", "random_states_0.pkl"],  # Accelerate
            "sharded": ["__0_0.distcp", "model.pt"],  # PyTorch, killed before .metadata
            "global_step50": ["mp_rank_00_model_states.pt"],  # DeepSpeed
            ".": ["training_args.bin", "model.safetensors"],  # the Trainer's final save_model()
        }.items():
            for name in names:
                self.put(folder + "/" + name, safetensors() if name.endswith("safetensors") else None)
        self.assertEqual(self.latest(), "good.pt")

    def test_a_file_beside_another_one_that_the_script_has_pickled_counts(self):
        self.put("model-epoch3.pt")
        self.put("labels.pkl", b"x")
        self.assertEqual(self.latest(), "model-epoch3.pt")

    def test_a_directory_with_a_truncated_file_does_not_count(self):
        self.put("checkpoint-1/model.safetensors", safetensors())
        self.put("checkpoint-1/trainer_state.json", b"{}")
        self.put("checkpoint-2/model.safetensors", safetensors()[:-1])
        self.put("checkpoint-2/trainer_state.json", b"{}")
        self.put("checkpoint-3/model.safetensors", safetensors())
        self.put("checkpoint-3/trainer_state.json", b"")  # a machine that lost its power
        self.assertEqual(self.latest(), "checkpoint-1")

    def test_announced_checkpoints_count(self):
        self.put("framework.pt")
        self.put("mine.bin", b"x", at=50)
        self.put("older.bin", b"x", at=60)
        self.script('svc.checkpoint("older.bin"); svc.checkpoint("mine.bin", step=3)')
        self.assertEqual(self.latest(), "mine.bin")
        (self.dir / "mine.bin").unlink()  # rotated away
        self.assertEqual(self.latest(), "older.bin")
        later = int(time.time()) + 50
        self.put("last.ckpt", at=later)  # a framework that announces nothing goes on by itself
        self.assertEqual(self.latest(), "last.ckpt")

    def test_an_announced_file_that_was_overwritten_must_be_complete(self):
        self.put("framework.pt")
        self.put("mine.pt")
        self.script('svc.checkpoint("mine.pt")')
        self.assertEqual(self.latest(), "mine.pt")
        (self.dir / "mine.pt").write_bytes(a_zip()[:-100])
        self.assertEqual(self.latest(), "framework.pt")

    def test_a_file_that_was_announced_once_and_overwritten_since_is_as_new_as_its_content(self):
        self.put("last.pt")
        self.put("epoch.pt")
        self.script('svc.checkpoint("last.pt"); svc.checkpoint("epoch.pt")')
        self.assertEqual(self.latest(), "epoch.pt")
        time.sleep(0.02)
        (self.dir / "last.pt").write_bytes(a_zip(6_000))
        self.assertEqual(self.latest(), "last.pt")

    def test_an_announced_folder_that_was_half_overwritten_must_be_complete(self):
        self.put("older/weights.bin", b"x")
        self.put("state/model.pt")
        self.put("state/optimizer.pt")
        self.script('svc.checkpoint("older"); svc.checkpoint("state")')
        self.assertEqual(self.latest(), "state")
        time.sleep(0.02)
        for name in ("state", "older"):
            (self.dir / name / "notes.txt").write_text("added later")
            self.assertEqual(self.latest(), "state")
        (self.dir / "state" / "optimizer.pt").write_bytes(a_zip()[:-100])
        self.assertEqual(self.latest(), "older")

    def test_an_index_with_malformed_or_foreign_lines_does_no_harm(self):
        self.put("a.pt")
        self.dir.joinpath(".svc-checkpoints.jsonl").write_bytes(
            b'{"path": "../../../etc/passwd", "t": 9e9, "size": -1, "mtime_ns": 0}\nnull\n[]\n\xff\xfe\n{"path": 3}\n{"path":"a.pt","t"'
        )
        self.assertEqual(self.latest(), "a.pt")

    def test_an_incomplete_line_of_the_index_does_not_affect_the_others(self):
        self.put("torn/a.bin")
        self.put("next/b.bin")
        self.script('svc.checkpoint("torn")')
        index = self.dir / ".svc-checkpoints.jsonl"
        for left in (index.read_bytes()[:-20], index.read_bytes()[:-20] + bytes(64)):
            index.write_bytes(left)
            self.assertIsNone(self.latest())
            self.script('svc.checkpoint("next")')
            self.assertEqual(self.latest(), "next")

    def test_the_checkpoint_of_resume_from_counts(self):
        self.put("epoch1.bin", b"x")
        self.assertIsNone(self.latest())
        self.assertEqual(self.latest(SVC_RESUME_FROM="epoch1.bin"), "epoch1.bin")
        self.assertEqual(self.latest(SVC_RESUME_FROM=str(self.dir / "epoch1.bin")), "epoch1.bin")
        self.put("one.pt")
        self.assertEqual(self.latest(SVC_RESUME_FROM="epoch1.bin"), "one.pt")
        self.put("sharded/part.bin", b"x")
        self.assertEqual(self.latest(SVC_RESUME_FROM="sharded"), "sharded")
        result = self.script("svc.latest_checkpoint(); print(svc.latest_checkpoint())", SVC_RESUME_FROM="gone")
        self.assertEqual(result.stderr.count(b"SVC_RESUME_FROM"), 1)

    def test_a_truncated_file_is_not_resumed_from_even_if_resume_from_names_it(self):
        self.put("one.pt", a_zip()[:-50])
        self.assertIsNone(self.latest(SVC_RESUME_FROM="one.pt"))
        # A script that starts from the beginning, although its run resumes, says why.
        result = self.script("svc.latest_checkpoint(); svc.latest_checkpoint()", SVC_RESUME_FROM="one.pt")
        self.assertEqual(result.stderr.count(b"one.pt, which is truncated, or lacks files"), 1, result.stderr)

    def test_links_and_depth_are_bounded(self):
        self.dir.mkdir()
        (self.dir / "loop").symlink_to(self.dir)
        self.put("/".join("abcdefghijkl") + "/deep.pt")
        self.assertIsNone(self.latest())
        self.put("a/b/c/near.pt")
        self.assertEqual(self.latest(), "a/b/c/near.pt")


def strict_path(line):
    return base.strict(line[line.index(b"{") :])["path"]


if __name__ == "__main__":
    unittest.main()
