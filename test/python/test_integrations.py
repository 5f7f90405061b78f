"""Callbacks of frameworks, with replacements of the frameworks that do what the callbacks rely on. `npm run test:recipes` has the real ones."""

import tempfile
import textwrap
import unittest
from pathlib import Path

from test_script import PACKAGE, records, run_script

# Lightning replaces the handler of TERM when it begins to train. Its own one ends the fit after the current batch.
LIGHTNING = '''
import os, signal, sys, types
class Callback:
    def on_train_start(self, *given): pass
    def on_validation_batch_end(self, *given): pass
class Logger: pass
for name in ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks", "lightning.pytorch.loggers", "lightning.pytorch.utilities"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["lightning.pytorch.callbacks"].Callback = Callback
sys.modules["lightning.pytorch.loggers"].Logger = Logger
sys.modules["lightning.pytorch.utilities"].rank_zero_only = lambda f: f
class _HandlersCompose:
    def __init__(self, handlers): self.signal_handlers = handlers
    def __call__(self, *given):
        for handler in self.signal_handlers:
            handler(*given)
class _SignalConnector:
    received = False
    def notified(self, *given): self.received = True
class Strategy:
    def reduce_boolean_decision(self, decision, all): return decision
class State:
    fn = "fit"
class Trainer:
    should_stop = sanity_checking = False
    is_global_zero, world_size, global_step = True, 1, 0
    strategy, state = Strategy(), State()
    def __init__(self, callback): self.callback = callback
    def save_checkpoint(self, path):
        with open(path, "w") as file:
            file.write(str(self.global_step))
    def fit(self, batches, validations=0):
        connector = _SignalConnector()
        before = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, _HandlersCompose([connector.notified] + ([before] if callable(before) else [])))
        self.callback.on_train_start(self, None)
        for self.global_step in range(1, batches + 1):
            step(self.global_step)
            self.callback.on_train_batch_end(self, None, None, None, self.global_step)
            if connector.received:
                print("Lightning ended the fit")
                raise SystemExit
        for n in range(validations):
            step("validation %d" % n)
            self.callback.on_validation_batch_end(self, None, None, None, n)
def step(n):
    if n == at:
        open(os.path.join(os.environ["SVC_RUN_DIR"], "stopping"), "w").close()
        os.kill(os.getpid(), signal.SIGTERM)
from svc.integrations.lightning import SvcStop
'''

KERAS = """
import sys, types
keras = types.ModuleType("keras")
keras.callbacks = types.SimpleNamespace(Callback=type("Callback", (), {}))
keras.saving = types.SimpleNamespace(load_model=lambda path: open(path).read())
sys.modules["keras"] = keras
class Model:
    def save(self, path):
        with open(path, "w") as file:
            file.write("PK\\x05\\x06 a model")
from svc.integrations.keras import SvcCallback
def fit(first, last, **given):
    callback = SvcCallback(**given)
    callback.model = Model()
    for epoch in range(first - 1, last):
        callback.on_epoch_end(epoch, {"loss": 1})
"""

# The Trainer evaluates before it saves, and does both once more at the end of the epoch in which it stops.
TRANSFORMERS = """
import os, sys, types
for name in ("transformers", "transformers.trainer_utils"):
    sys.modules[name] = types.ModuleType(name)
for name in ("TrainerCallback", "TrainerControl", "TrainerState", "TrainingArguments"):
    setattr(sys.modules["transformers"], name, type(name, (), {"on_epoch_end": lambda *given: None}))
sys.modules["transformers.trainer_utils"].PREFIX_CHECKPOINT_DIR = "checkpoint"
import svc
from svc.integrations.transformers import SvcCallback
callback = SvcCallback()
args = types.SimpleNamespace(output_dir=svc.checkpoint_dir())
state = types.SimpleNamespace(global_step=0, is_world_process_zero=True)
control = types.SimpleNamespace(should_training_stop=False)
def act(hook, due):
    control.should_save = control.should_evaluate = due
    hook(args, state, control)
    if control.should_evaluate:
        print("evaluates at", state.global_step)
    if control.should_save:
        os.makedirs(os.path.join(args.output_dir, "checkpoint-%d" % state.global_step), exist_ok=True)
        callback.on_save(args, state, control)
def train(epochs, steps, asked_at):
    for epoch in range(epochs):
        for _ in range(steps):
            state.global_step += 1
            if state.global_step == asked_at:
                open(os.path.join(os.environ["SVC_RUN_DIR"], "stopping"), "w").close()
                import time; time.sleep(0.3)
            act(callback.on_step_end, state.global_step % 4 == 0)
            if control.should_training_stop:
                break
        act(callback.on_epoch_end, True)
        if control.should_training_stop:
            break
"""


class Integrations(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name).resolve()
        self.checkpoints = self.folder / "checkpoints"

    def script(self, code, **env):
        given = {"SVC_CHECKPOINT_DIR": str(self.checkpoints), "SVC_RUN_DIR": str(self.folder), "PYTHONPATH": str(PACKAGE), **env}
        ran = run_script(code, given, cwd=str(self.folder))
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        found, text = records(ran.stdout)
        return [(r["path"], r["s"]) for r in found if r["k"] == "c"], text.decode()

    def test_lightning_saves_before_it_ends_however_short_its_batches_are(self):
        for at, stopped_at in ((1, 1), (1000, 1000), ("'validation 3'", 2000)):
            with self.subTest(at=at):
                announced, text = self.script("{}\nat = {}\nTrainer(SvcStop()).fit(2000, 2000)".format(LIGHTNING, at))
                self.assertEqual((announced, text), ([("svc-stop.ckpt", stopped_at)], ""))
                self.assertEqual((self.checkpoints / "svc-stop.ckpt").read_text(), str(stopped_at))
                (self.folder / "stopping").unlink()

    def test_a_handler_of_the_script_is_called_as_well(self):
        own = 'signal.signal(signal.SIGTERM, lambda *_: print("own", flush=True))'
        announced, text = self.script("{}\nat = 1000\n{}\nTrainer(SvcStop()).fit(2000)".format(LIGHTNING, own))
        self.assertEqual((announced, text), ([("svc-stop.ckpt", 1000)], "own\n"))

    def test_outside_a_run_lightnings_handler_stays(self):
        code = LIGHTNING + textwrap.dedent("""
            at = None
            trainer = Trainer(SvcStop())
            trainer.fit(3)
            print(type(signal.getsignal(signal.SIGTERM)).__name__)
            """)
        self.assertEqual(self.script(code, SVC_RUN_DIR=""), ([], "_HandlersCompose\n"))

    def test_the_trainer_saves_once_and_evaluates_no_more_when_it_has_to_stop(self):
        for asked_at in (7, 8):
            announced, text = self.script("{}\ntrain(10, 5, {})".format(TRANSFORMERS, asked_at))
            self.assertEqual(announced, [("checkpoint-%d" % n, n) for n in (4, 5, asked_at)])
            self.assertEqual(text, "evaluates at 4\nevaluates at 5\n")
            (self.folder / "stopping").unlink()

    def saved(self):
        return sorted(path.name for path in self.checkpoints.glob("*.keras"))

    def test_keras_keeps_the_last_epochs(self):
        self.script(KERAS + "fit(1, 7, save_every=2, keep=2)")
        self.assertEqual(self.saved(), ["epoch-0004.keras", "epoch-0006.keras"])

    def test_keras_keeps_what_it_has_just_saved_beside_later_epochs_of_an_earlier_training(self):
        self.script(KERAS + "fit(18, 20)")
        for keep, kept in ((2, ["epoch-0002.keras", "epoch-0003.keras"]), (1, ["epoch-0003.keras"])):
            announced, _ = self.script(KERAS + "fit(1, 3, keep={})".format(keep))
            self.assertEqual((announced[-1], self.saved()), (("epoch-0003.keras", 3), kept))

    def test_keras_saves_once_for_each_machine(self):
        for local, announced in (("0", [("epoch-0001.keras", 1)]), ("1", [])):
            self.assertEqual(self.script(KERAS + "fit(1, 1)", RANK=local, LOCAL_RANK=local)[0], announced)


if __name__ == "__main__":
    unittest.main()
