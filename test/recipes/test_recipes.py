"""Every recipe for real: started, killed in the middle, and started again: on the same checkpoint directory, and as after a preemption,
on another machine that has nothing but the checkpoint of ``SVC_RESUME_FROM``.

Run by `npm run test:recipes`, by the interpreter whose packages the recipes need. `SVC_TEST_RECIPES=ddp,keras` picks some.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "rec1pemark"
HEAD = b"\x1esvc1:" + MARK.encode() + b" "
LIMIT_S = 240
WANTED = os.environ.get("SVC_TEST_RECIPES", "")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--monitor_interval=1", "--max_restarts=0"]


def environment(folder, resumed=None):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SVC_", "PET_")) and k not in ("RANK", "WORLD_SIZE")}
    return {
        **kept,
        "PYTHONPATH": str(ROOT / "python"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SVC_METRICS_MARK": MARK,
        "SVC_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "SVC_RUN_DIR": str(folder),
        "SVC_JOB_ID": "jtest",
        "SVC_PLACEMENT": "1" if resumed is None else "2",
        **({} if resumed is None else {"SVC_RESUME_FROM": resumed}),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "RAY_DEDUP_LOGS": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": str(folder),
    }


def read(line):
    """The record in a line, or None. Raises for a malformed record."""
    at = line.find(HEAD)
    return None if at < 0 else json.loads(line[at + len(HEAD) :])


def family(pid):
    """A process and its descendants. The launchers of PyTorch and Ray start their children in separate sessions."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found.extend(children.get(one, []))
    return found


class Run:
    """One start of a recipe."""

    def __init__(self, name, folder, epochs, ranks=None, resumed=None):
        launch = [sys.executable] if ranks is None else [*TORCHRUN, "--nproc_per_node={}".format(ranks)]
        command = [*launch, str(ROOT / "examples" / name / "train.py"), "--epochs", str(epochs)]
        self.process = subprocess.Popen(
            command, env=environment(folder, resumed), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.records, self.lines = [], []
        self.over_time = threading.Timer(LIMIT_S, self.kill)
        self.over_time.start()

    def kill(self):
        if self.process.poll() is not None:
            return
        for pid in family(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def read(self, until=lambda record: False):
        """Reads lines until `until` accepts a record, or to the end."""
        for line in self.process.stdout:
            record = read(line)
            self.lines.append(line)
            if record is not None:
                self.records.append(record)
                if until(record):
                    return True
        return False

    def end(self):
        self.read()
        self.process.stdout.close()
        self.over_time.cancel()
        return self.process.wait(60)

    def of(self, kind):
        return [record for record in self.records if record["k"] == kind]

    @property
    def said(self):
        return b"".join(self.lines[-60:]).decode(errors="replace")


def brought(first, folder, epoch_of):
    """Copies the newest checkpoint that can be there as a whole to another machine, as svc does: under the same name, and nothing else
    of the checkpoint directory. Returns its name and its epoch."""
    root = folder / "checkpoints"
    # A recipe that keeps only the last ones may have removed the one before.
    for record in reversed(first.of("c")):
        source = Path(os.path.join(str(root), record["path"]))
        if source.exists():
            break
    name = str(source.relative_to(root))
    target = folder / "other" / "checkpoints" / name
    target.parent.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)
    return name, epoch_of(record["s"])


def recipe(name, ranks=None, epoch_of=lambda step: step, moves=False):
    """A test of `examples/<name>`; `epoch_of` turns the step of a checkpoint into its epoch; `moves` to another machine, as after a
    preemption."""

    @unittest.skipIf(WANTED and name not in WANTED.split(","), "not among SVC_TEST_RECIPES")
    def test(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as held:
            folder = Path(held).resolve()
            first = Run(name, folder, 100_000, ranks)
            try:
                reached = first.read(lambda record: record["k"] == "c" and epoch_of(record["s"]) >= 3)
                self.assertTrue(reached, first.said)
            finally:
                first.kill()
                first.end()
            saved = max(epoch_of(record["s"]) for record in first.of("c"))
            losses = [record["m"]["loss"] for record in first.of("m") if "loss" in record["m"]]
            self.assertLess(min(losses[1:]), losses[0])

            resumed, there = None, folder
            if moves:
                resumed, saved = brought(first, folder, epoch_of)
                there = folder / "other"
            # It may have saved one more checkpoint without time to announce it.
            second = Run(name, there, saved + 4, ranks, resumed)
            try:
                self.assertEqual(second.end(), 0, second.said)
            finally:
                second.kill()
            self.assertIn("continuing", second.said.lower() + b"".join(second.lines).decode(errors="replace").lower())
            epochs = [epoch_of(record["s"]) for record in second.of("c")]
            self.assertIn(min(epochs), (saved + 1,) if moves else (saved + 1, saved + 2), second.said)
            self.assertEqual(max(epochs), saved + 4, second.said)
            again = [record["m"]["loss"] for record in second.of("m") if "loss" in record["m"]]
            self.assertLess(again[0], losses[0], "it did not go on with what it had learnt")
            if ranks:
                self.assertEqual({record["r"] for record in first.of("m") + second.of("m")}, {0})
            for run in (first, second):
                for record in run.of("c"):
                    self.assertNotIn("tmp-", record["path"])

    return test


def stops(name, ranks, saved_as):
    """A test of `examples/<name>`, which svc asks to stop: it saves a checkpoint of this name once before it ends."""

    @unittest.skipIf(WANTED and name not in WANTED.split(","), "not among SVC_TEST_RECIPES")
    def test(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as held:
            folder = Path(held).resolve()
            run = Run(name, folder, 100_000, ranks)
            try:
                self.assertTrue(run.read(lambda record: record["k"] == "c"), run.said)
                (folder / "stopping").touch()
                for pid in family(run.process.pid):
                    os.kill(pid, signal.SIGTERM)
                    time.sleep(0.01)
                run.read()
            finally:
                run.kill()
                run.end()
            names = [record["path"] for record in run.of("c")]
            self.assertRegex(names[-1], saved_as, run.said)
            self.assertEqual(names.count(names[-1]), 1)

    return test


class Recipes(unittest.TestCase):
    test_ddp = recipe("ddp")
    test_ddp_on_four_ranks = recipe("ddp", ranks=4)
    test_hf_trainer = recipe("hf-trainer", epoch_of=lambda step: step // 16)
    test_hf_trainer_on_two_ranks = recipe("hf-trainer", ranks=2, epoch_of=lambda step: step // 8)
    test_hf_trainer_saves_when_it_has_to_stop = stops("hf-trainer", None, r"^checkpoint-\d+$")
    test_hf_trainer_on_two_ranks_saves_when_it_has_to_stop = stops("hf-trainer", 2, r"^checkpoint-\d+$")
    test_lightning = recipe("lightning", epoch_of=lambda step: step // 32)
    test_lightning_on_two_ranks = recipe("lightning", ranks=2, epoch_of=lambda step: step // 16)
    test_lightning_saves_when_it_has_to_stop = stops("lightning", None, r"^svc-stop\.ckpt$")
    test_lightning_on_two_ranks_saves_when_it_has_to_stop = stops("lightning", 2, r"^svc-stop\.ckpt$")
    test_accelerate = recipe("accelerate")
    test_accelerate_on_two_ranks = recipe("accelerate", ranks=2)
    test_keras = recipe("keras")
    test_ray_train = recipe("ray-train")

    test_ddp_preempted = recipe("ddp", ranks=2, moves=True)
    test_hf_trainer_preempted = recipe("hf-trainer", epoch_of=lambda step: step // 16, moves=True)
    test_lightning_preempted = recipe("lightning", epoch_of=lambda step: step // 32, moves=True)
    test_accelerate_preempted = recipe("accelerate", moves=True)
    test_keras_preempted = recipe("keras", moves=True)
    test_ray_train_preempted = recipe("ray-train", moves=True)


class Tqdm(unittest.TestCase):
    def test_eight_ranks_with_progress_bars_on_one_pipe(self):
        code = """
import svc, sys, time
from tqdm import tqdm
rank = int(sys.argv[1])
began = time.monotonic()
for step in tqdm(range(2000), desc="rank %d" % rank, mininterval=0.01, miniters=1):
    svc.log({"loss": 1 / (step + 1), "rank": rank}, step=step, all_ranks=True)
    time.sleep(max(0, began + step / 1000 - time.monotonic()))
"""
        reader, writer = os.pipe()
        with tempfile.TemporaryDirectory() as held:
            many = [
                subprocess.Popen(
                    [sys.executable, "-c", code, str(rank)], stdout=writer, stderr=writer,
                    env={**environment(Path(held)), "RANK": str(rank)},
                )
                for rank in range(8)
            ]
            os.close(writer)
            with open(reader, "rb") as output:
                everything = output.read()
            self.assertEqual([process.wait(60) for process in many], [0] * 8)
        found = [record for record in map(read, everything.splitlines(keepends=True)) if record is not None]
        self.assertEqual(everything.count(HEAD), len(found))
        for rank in range(8):
            mine = [record for record in found if record["r"] == rank]
            self.assertEqual([record["n"] for record in mine], list(range(1, 2001)))
            self.assertEqual([record["s"] for record in mine], list(range(2000)))
        self.assertEqual(len(found), 16_000)
        self.assertGreater(everything.count(b"rank "), 8 * 20)


if __name__ == "__main__":
    unittest.main()
