"""The part of the package for scripts, in real processes whose output the test reads as the control plane does."""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
INTEGRATIONS = sorted((PACKAGE / "svc" / "integrations").glob("*.py"))
MARK = "m4rkm4rk"
HEAD = b"\x1esvc1:" + MARK.encode() + b" "


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SVC_") and k not in ("RANK", "PYTHONUNBUFFERED")}
    return {**kept, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **more}


def run_script(code, env=None, job=True, cwd=None, **options):
    env = environment(**({"SVC_METRICS_MARK": MARK} if job else {}), **(env or {}))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, cwd=cwd, capture_output=True, timeout=120, **options
    )


def strict(text):
    def refuse(word):
        raise ValueError("not strict JSON: " + word)

    return json.loads(text, parse_constant=refuse)


def records(output):
    """The records and the remaining text, parsed like the reader: a record goes from a mark anywhere in a line to
    the line's end."""
    found, text = [], b""
    for line in output.splitlines(keepends=True):
        at = line.find(HEAD)
        if at < 0:
            text += line
            continue
        text += line[:at]
        found.append(strict(line[at + len(HEAD) :]))
    return found, text


class Log(unittest.TestCase):
    def log(self, *calls, env=None, before="", job=True):
        result = run_script("import svc\n{}\n{}".format(before, "\n".join("svc.log({})".format(call) for call in calls)), env, job)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_a_record_has_the_fields_of_the_answer(self):
        before = time.time()
        result = self.log('{"loss": 0.51, "n": 3}, step=120')
        (record,), text = records(result.stdout)
        self.assertEqual(text, b"")
        self.assertTrue(before - 1 <= record.pop("t") <= time.time() + 1)
        self.assertEqual(record, {"k": "m", "n": 1, "s": 120, "r": 0, "m": {"loss": 0.51, "n": 3}})

    def test_values_that_json_lacks(self):
        result = self.log(
            '{"a": float("nan"), "b": float("inf"), "c": -float("inf"), "d": True, "e": False, "f": 10**400, "g": -10**400}',
            '{"h": 2**60, "i": 5e-324, "j": -0.0}',
        )
        first, second = (record["m"] for record in records(result.stdout)[0])
        self.assertEqual(
            first, {"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 1, "e": 0, "f": "Infinity", "g": "-Infinity"}
        )
        self.assertEqual(second, {"h": float(2**60), "i": 5e-324, "j": 0.0})

    def test_scalars_and_tensors_are_read_by_item(self):
        before = """
class One:
    def __init__(self, value): self.value = value
    def item(self):
        if self.value is None: raise ValueError("only one-element tensors")
        return self.value
"""
        result = self.log('{"a": One(0.5), "b": One(True), "c": One(None), "d": One(1j), "e": One(float("nan"))}', before=before)
        self.assertEqual(records(result.stdout)[0][0]["m"], {"a": 0.5, "b": 1, "e": "NaN"})
        self.assertEqual(result.stderr.count(b"skipped"), 2)

    def test_values_that_are_not_numbers_are_dropped_with_one_warning_per_name(self):
        call = '{"ok": 1, "text": "about 5", "none": None, "list": [1], 7: 1.0}'
        result = self.log(call, call, call)
        for record in records(result.stdout)[0]:
            self.assertEqual(record["m"], {"ok": 1})
        self.assertEqual(len(result.stderr.splitlines()), 4, result.stderr)

    def test_every_value_that_float_accepts_is_a_number(self):
        before = """
from decimal import Decimal
from fractions import Fraction
class Floats:
    def __float__(self): return 1.5
class Index:
    def __index__(self): return 7
class Array:
    shape = (1, 1)
    def item(self): return 2.5
class Attribute:
    item = "no call"
    def __float__(self): return 3.5
"""
        result = self.log(
            '{"decimal": Decimal("0.25"), "fraction": Fraction(1, 4), "text": " 1e-3 ", "nan": Decimal("NaN"), "huge": '
            'Fraction(-(10**400)), "floats": Floats(), "index": Index(), "array": Array(), "attribute": Attribute()}',
            before=before,
        )
        (record,), _ = records(result.stdout)
        expected = {"decimal": 0.25, "fraction": 0.25, "text": 0.001, "nan": "NaN", "huge": "-Infinity", "floats": 1.5}
        self.assertEqual(record["m"], {**expected, "index": 7, "array": 2.5, "attribute": 3.5})
        self.assertEqual(result.stderr, b"")

    def test_a_skipped_value_is_named_once_with_the_reason(self):
        before = """
class Many:
    shape = (2, 3)
    def item(self): raise ValueError("can only convert an array of size 1")
    def __float__(self): raise TypeError("only length-1 arrays")
class Strange:
    def __float__(self): raise RuntimeError("it is not computed yet")
class Complex:
    def item(self): return 1j
    def __float__(self): return 0.0
"""
        call = '{"many": Many(), "strange": Strange(), "none": None, "text": "abc", "complex": Complex(), "list": [1]}'
        result = self.log(call, call, '{"last": 1}', before=before)
        self.assertEqual([record["m"] for record in records(result.stdout)[0]], [{"last": 1}])
        said = result.stderr.decode().splitlines()
        self.assertEqual(len(said), 6, said)
        for name, why in (
            ("many", "this Many has 6 (shape 2x3)"),
            ("strange", "it is not computed yet"),
            ("none", "not None"),
            ("text", "'abc' is not a number"),
            ("complex", "complex"),
            ("list", "list"),
        ):
            self.assertTrue(any('"{}"'.format(name) in line and why in line for line in said), (name, said))

    def test_dicts_in_dicts_are_flattened(self):
        before = "loop = {}; loop['again'] = loop; loop['x'] = 1"
        result = self.log(
            '{"train": {"loss": 1.0, "layer": {0: 2, 1: 3}}, "lr": 0.1, "empty": {}}', "loop", before=before
        )
        first, second = (record["m"] for record in records(result.stdout)[0])
        self.assertEqual(first, {"train/loss": 1, "train/layer/0": 2, "train/layer/1": 3, "lr": 0.1})
        self.assertEqual(second["x"], 1)
        self.assertEqual(result.stderr.count(b"skipped"), 1)
        outside = self.log('{"train": {"loss": 0.5}}', job=False)
        self.assertIn(b"train/loss=0.5", outside.stdout)

    def test_never_raises(self):
        before = """
class Bad:
    def item(self): raise RuntimeError("no")
    def __repr__(self): raise RuntimeError("no")
class BadMap:
    def items(self): raise RuntimeError("no")
"""
        calls = ["None", "5", "[1]", "BadMap()", '{"a": Bad()}', "{Bad(): 1}", '{"a": 1}, step=Bad()', '{"a": 1}, step="x"', "{}"]
        result = self.log(*calls, '{"still": 1}', before=before)
        self.assertEqual(records(result.stdout)[0][-1]["m"], {"still": 1})

    def test_a_call_with_a_name_and_a_number_says_how_to_write_it(self):
        for call in ('"loss", 0.5', "0.5", "[0.5]", "None"):
            result = self.log(call, '{"still": 1}')
            self.assertEqual([record["m"] for record in records(result.stdout)[0]], [{"still": 1}])
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn(b'write svc.log({"loss": 0.5})', result.stderr)

    def test_steps(self):
        result = self.log('{"a": 1}', '{"a": 1}', '{"a": 1}, step=50', '{"a": 1}, step=float("nan")', '{"a": 1}, step=2.5')
        self.assertEqual([record["s"] for record in records(result.stdout)[0]], [0, 1, 50, 2, 2.5])
        self.assertEqual([record["n"] for record in records(result.stdout)[0]], [1, 2, 3, 4, 5])

    def test_names_with_anything_in_them_stay_on_one_line(self):
        names = ["line\nend", "\x1esvc1:forged", 'quote"\\', "ümläut 损失", "\x00\x1b[31m", "\ud800"]
        result = self.log("{}".format({name: index for index, name in enumerate(names)}), env={"PYTHONIOENCODING": "utf-8"})
        (record,), text = records(result.stdout)
        self.assertEqual(text, b"")
        self.assertEqual(list(record["m"]), [*names[:-1], "?"])

    def test_large_maps_are_split_under_the_same_number(self):
        result = self.log('{"metric/%04d" % i: i / 7 for i in range(1000)}', '{"ü" * 512: 1, "ö" * 512: 2, "é" * 512: 3}')
        for line in result.stdout.splitlines(keepends=True):
            self.assertLessEqual(len(line), 4096)
        found, _ = records(result.stdout)
        large = [record for record in found if record["n"] == 1]
        self.assertGreater(len(large), 5)
        merged = {}
        for record in large:
            merged.update(record["m"])
        self.assertEqual(merged, {"metric/%04d" % i: i / 7 for i in range(1000)})
        self.assertEqual([record["m"] for record in found if record["n"] == 2], [{"ü" * 512: 1}, {"ö" * 512: 2}, {"é" * 512: 3}])

    def test_names_that_the_reader_would_refuse_are_skipped(self):
        result = self.log('{"x" * 513: 1, "": 2, "😀" * 257: 3, "😀" * 256: 4, "x" * 512: 5}')
        (record,), text = records(result.stdout)
        self.assertEqual((record["m"], text), ({"😀" * 256: 4, "x" * 512: 5}, b""))
        self.assertEqual(result.stderr.count(b"skipped"), 3)

    def test_ranks(self):
        calls = ['{"a": 1}', '{"b": 1}, all_ranks=True']
        one = records(self.log(*calls, env={"RANK": "1"}).stdout)[0]
        zero = records(self.log(*calls, env={"RANK": "0"}).stdout)[0]
        self.assertEqual([(record["r"], list(record["m"])) for record in one], [(1, ["b"])])
        self.assertEqual([(record["r"], list(record["m"])) for record in zero], [(0, ["a"]), (0, ["b"])])
        # Two nodes with a process each, and no launcher that would have given them ranks.
        second = records(self.log(*calls, env={"SVC_NODE_RANK": "1"}).stdout)[0]
        self.assertEqual([(record["r"], list(record["m"])) for record in second], [(1, ["a"]), (1, ["b"])])
        launched = records(self.log(*calls, env={"SVC_NODE_RANK": "1", "RANK": "0"}).stdout)[0]
        self.assertEqual([record["r"] for record in launched], [0, 0])

    def test_records_keep_their_order_with_the_printed_text(self):
        result = self.log('{"a": 1}', before='print("before"); print("no end", end="")')
        found, text = records(result.stdout)
        self.assertEqual(text, b"before\nno end")
        self.assertTrue(result.stdout.startswith(b"before\nno end\x1e"))
        self.assertEqual(len(found), 1)

    def test_outside_a_job_it_prints_a_short_line(self):
        result = self.log('{"loss": 0.123456789, "bad": "x"}, step=3', '{"loss": float("nan")}', job=False)
        self.assertEqual(result.stdout, b"[svc] step 3: loss=0.12346\n[svc] step 0: loss=NaN\n")

    def test_a_forked_child_has_its_own_counters(self):
        result = run_script(
            """
            import os, svc
            svc.log({"a": 1}); svc.log({"a": 2})
            if os.fork() == 0:
                svc.log({"child": 1}); os._exit(0)
            os.wait()
            svc.log({"a": 3})
            """
        )
        self.assertEqual([(r["n"], list(r["m"])[0]) for r in records(result.stdout)[0]], [(1, "a"), (2, "a"), (1, "child"), (3, "a")])

    def test_a_forked_child_of_a_script_that_asks_whether_to_stop_ends_by_its_parents_term(self):
        code = """
            import multiprocessing, os, time, svc
            svc.should_stop()
            fork = multiprocessing.get_context("fork")
            def work(ready):
                ready.set()
                time.sleep(60)
            def begun():
                ready = fork.Event()
                child = fork.Process(target=work, args=(ready,), daemon=True)
                child.start()
                ready.wait()
                return child
            first, second = begun(), begun()
            first.terminate()
            first.join(20)
            open(os.path.join(os.environ["SVC_RUN_DIR"], "stopping"), "w").close()
            second.terminate()  # as svc does, to every process of the run
            second.join(0.3)
            print(first.exitcode, second.is_alive(), svc.should_stop(), flush=True)
            # The end of this process ends the other one by TERM, and waits for it.
            """
        with tempfile.TemporaryDirectory() as folder:
            result = run_script(code, {"SVC_RUN_DIR": folder})
        self.assertEqual((result.stdout, result.returncode), (b"-15 True True\n", 0), result.stderr)

    def test_threads_never_share_a_number(self):
        result = run_script(
            """
            import sys, threading, svc
            sys.setswitchinterval(1e-6)
            def work():
                for i in range(500): svc.log({"a": i})
            threads = [threading.Thread(target=work) for _ in range(4)]
            [t.start() for t in threads]; [t.join() for t in threads]
            """
        )
        found, text = records(result.stdout)
        self.assertEqual(text, b"")
        self.assertEqual(sorted(record["n"] for record in found), list(range(1, 2001)))

    def test_eight_processes_share_one_pipe_without_breaking_a_record(self):
        code = """
import svc, sys
who = int(sys.argv[1])
for i in range(500):
    svc.log({"p%d/%s" % (who, "x" * (i % 60)): i, "more": i / 3, "pad" * 40: who}, step=i, all_ranks=True)
    if i % 50 == 0: print("progress", who, i, flush=True)
"""
        reader, writer = os.pipe()
        output = bytearray()

        def drain():
            while chunk := os.read(reader, 65536):
                output.extend(chunk)

        thread = threading.Thread(target=drain)
        thread.start()
        processes = [
            subprocess.Popen([sys.executable, "-c", code, str(n)], stdout=writer, env=environment(SVC_METRICS_MARK=MARK, RANK=str(n)))
            for n in range(8)
        ]
        os.close(writer)
        self.assertEqual([process.wait(120) for process in processes], [0] * 8)
        thread.join(60)
        os.close(reader)
        found, text = records(bytes(output))
        self.assertEqual(len(found), 8 * 500)
        for rank in range(8):
            self.assertEqual([record["n"] for record in found if record["r"] == rank], list(range(1, 501)))
        self.assertEqual(text.count(b"progress"), 80)

    def test_a_full_pipe_drops_after_a_second_and_says_so(self):
        code = """
import select, svc, sys, time
values = lambda n: {"x" * 450: n, "y" * 450: n}
n = 0
while True:  # until the pipe is full
    began = time.monotonic(); svc.log(values(n)); took = time.monotonic() - began; n += 1
    if took > 0.5: break
sys.stderr.write("took %.3f calls %d\\n" % (took, n)); sys.stderr.flush()
sys.stdin.readline()
select.select((), (1,), ())  # the reader reads again
svc.log({"after": 1})
"""
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment(SVC_METRICS_MARK=MARK),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        said = process.stderr.readline().decode()
        took, calls = re.match(r"took (\S+) calls (\d+)", said).groups()
        self.assertLess(float(took), 5)
        output, errors = process.communicate(b"\n", timeout=60)
        found, _ = records(output)
        self.assertEqual(found[-1]["m"], {"after": 1})
        self.assertEqual([r["n"] for r in found], [*range(1, int(calls)), int(calls) + 1])  # the gap shows what is missing
        self.assertIn(b"1 record(s) were dropped", errors)

    def test_a_reader_that_hangs_costs_the_training_one_second_and_no_announcement(self):
        code = """
import os, select, sys, time, svc
for name in ("a", "b"): open(os.path.join(svc.checkpoint_dir(), name), "w").close()
value = {"x" * 450: 1, "y" * 450: 1}
while True:  # until the pipe is full
    began = time.monotonic(); svc.log(value); took = time.monotonic() - began
    if took > 0.5: break
svc.checkpoint("a", step=1)
svc.alert("look here")
began = time.monotonic()
for n in range(200): svc.log(value)
sys.stderr.write("took %.3f\\n" % (time.monotonic() - began)); sys.stderr.flush()
sys.stdin.readline()
out = os.open(os.environ["SVC_RECORDS"], os.O_WRONLY) if "SVC_RECORDS" in os.environ else 1
select.select((), (out,), ())  # the reader reads again
svc.log({"after": 1})
svc.checkpoint("b", step=2)
"""
        for by_pipe in (True, False):
            with self.subTest(by_pipe=by_pipe), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "records")
                os.mkfifo(path)
                reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                more = {"SVC_RECORDS": path} if by_pipe else {}
                process = subprocess.Popen(
                    [sys.executable, "-c", code], env=environment(SVC_METRICS_MARK=MARK, SVC_CHECKPOINT_DIR=folder, **more),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
                said = b""
                while b"took" not in said:
                    said += process.stderr.readline()
                took = re.search(rb"took (\S+)", said).group(1)
                self.assertLess(float(took), 5)
                os.set_blocking(reader, True)
                read = []
                with open(reader, "rb") as pipe:
                    thread = threading.Thread(target=lambda: read.append(pipe.read()))
                    if by_pipe:
                        thread.start()
                    output, errors = process.communicate(b"\n", timeout=60)
                    if by_pipe:
                        thread.join(60)
                found = records(read[0] if by_pipe else output)[0]
                self.assertEqual([(r["path"], r["s"]) for r in found if r["k"] == "c"], [("a", 1), ("b", 2)])
                self.assertEqual([r["text"] for r in found if r["k"] == "a"], ["look here"])
                self.assertIn({"after": 1}, [r["m"] for r in found if r["k"] == "m"])
                self.assertEqual(sum(map(int, re.findall(rb"(\d+) record\(s\) were dropped", said + errors))), 201)

    def test_announcements_that_a_hanging_reader_did_not_accept_keep_their_order(self):
        code = """
import os, sys, time, svc
for n in range(1, 5): open(os.path.join(svc.checkpoint_dir(), str(n)), "w").close()
value = {"x" * 450: 1, "y" * 450: 1}
while True:  # until the pipe is full
    began = time.monotonic(); svc.log(value); took = time.monotonic() - began
    if took > 0.5: break
for n in range(1, 4): svc.checkpoint(str(n), step=n)
sys.stderr.write("full\\n"); sys.stderr.flush()
sys.stdin.readline()
svc.checkpoint("4", step=4)
"""
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(
                [sys.executable, "-c", code], env=environment(SVC_METRICS_MARK=MARK, SVC_CHECKPOINT_DIR=folder),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            process.stderr.readline()
            found, _ = records(process.communicate(b"\n", timeout=60)[0])
        self.assertEqual([r["s"] for r in found if r["k"] == "c"], [1, 2, 3, 4])

    def test_a_non_blocking_pipe_receives_every_record(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        process = subprocess.Popen(
            [sys.executable, "-c", 'import svc\nfor i in range(300): svc.log({"x" * 450: i, "y" * 450: i})'],
            stdout=writer, env=environment(SVC_METRICS_MARK=MARK),
        )
        os.close(writer)
        output = bytearray()
        while chunk := os.read(reader, 4096):
            output += chunk
        os.close(reader)
        self.assertEqual(process.wait(60), 0)
        self.assertEqual([r["n"] for r in records(bytes(output))[0]], list(range(1, 301)))

    def test_nobody_reads_or_stdout_is_closed(self):
        for setup in ("os.close(1)", "sys.stdout.close()", "sys.stdout = None", "r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)"):
            with self.subTest(setup):
                result = run_script('import os, sys, svc\n{}\nfor i in range(3): svc.log({{"a": i}})\nos._exit(0)'.format(setup))
                self.assertEqual((result.returncode, result.stderr), (0, b""))


class Import(unittest.TestCase):
    def test_it_loads_next_to_nothing(self):
        code = """
import sys
before = set(sys.modules)
import svc
print(*sorted(set(sys.modules) - before))
assert "svc._call" not in sys.modules
"""
        result = run_script(code)
        loaded = set(result.stdout.decode().split())
        self.assertLessEqual(loaded, {"svc", "svc._checkpoints", "svc._script", "svc._stop", "__future__", "_json", "select", "itertools"}, result.stderr)

    def test_its_syntax_is_that_of_python_3_8(self):
        for path in [PACKAGE / "svc" / f"{name}.py" for name in ("__init__", "_script", "_checkpoints")] + INTEGRATIONS:
            ast.parse(path.read_text(), path.name, feature_version=(3, 8))

    def test_it_works_on_every_python_found_here(self):
        code = (
            'import svc, sys\nsvc.log({"a": 1.5})\nwith svc.atomic_save("w.json", step=2) as p: open(p, "w").write("{}")\n'
            "assert svc.latest_checkpoint().endswith('w.json')\n"
        )
        tried = []
        for python in sorted({*Path("/usr/bin").glob("python3*[0-9]"), *Path.home().glob(".pyenv/versions/3.*/bin/python3")}):
            version = subprocess.run([str(python), "-c", "import sys; print(sys.version_info >= (3, 8))"], capture_output=True)
            if version.stdout.strip() != b"True":
                continue
            with tempfile.TemporaryDirectory() as folder, self.subTest(str(python)):
                result = subprocess.run(
                    [str(python), "-c", code], capture_output=True,
                    env=environment(SVC_METRICS_MARK=MARK, SVC_CHECKPOINT_DIR=folder),
                )
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                self.assertEqual([record["k"] for record in records(result.stdout)[0]], ["m", "c"])
            tried.append(python)
        self.assertTrue(tried)

    def test_compiles(self):
        with tempfile.TemporaryDirectory() as cache:
            result = subprocess.run(
                [sys.executable, "-X", "pycache_prefix=" + cache, "-m", "compileall", "-q", str(PACKAGE / "svc"), str(ROOT / "examples")],
                capture_output=True,
            )
        self.assertEqual((result.returncode, result.stdout), (0, b""))


class Example(unittest.TestCase):
    def test_digits_learns_and_resumes(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-u", str(ROOT / "examples" / "digits" / "train.py"), "--save-every", "4"]
            env = environment(SVC_METRICS_MARK=MARK, SVC_CHECKPOINT_DIR=folder)
            first = subprocess.run([*command, "--epochs", "4"], env=env, capture_output=True, timeout=280)
            second = subprocess.run([*command, "--epochs", "10"], env=env, capture_output=True, timeout=280)
        self.assertEqual((first.returncode, second.returncode), (0, 0), first.stderr + second.stderr)
        found, text = records(first.stdout + second.stdout)
        metrics = [record for record in found if record["k"] == "m"]
        self.assertEqual([record["s"] for record in metrics], list(range(1, 11)))
        self.assertEqual([record["path"] for record in found if record["k"] == "c"], ["weights-004.json", "weights-008.json", "weights-010.json"])
        self.assertIn(b"continuing after epoch 4", text)
        self.assertGreaterEqual(metrics[-1]["m"]["test_accuracy"], 0.95)


if __name__ == "__main__":
    unittest.main()
