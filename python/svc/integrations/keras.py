"""For Keras 3, on any backend: metrics of each epoch are charted, the whole model is saved and announced.

::

    from svc.integrations.keras import SvcCallback, load_latest

    model, done = load_latest()
    if model is None:
        model = build_and_compile()
    model.fit(x, y, epochs=20, initial_epoch=done, callbacks=[SvcCallback()])
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import keras

import svc
from svc._checkpoints import complete_checkpoints

_EPOCH = re.compile(r"epoch-(\d+)\.keras$")


class SvcCallback(keras.callbacks.Callback):
    """Records the logs of each epoch; every ``save_every`` epochs saves the model with its optimizer, and keeps the last ``keep``.

    Epochs are counted from 1, in the chart as in the names ``epoch-0007.keras``. ``save_every=0`` saves nothing. Of several processes
    that a launcher starts on a machine, the first one saves (``LOCAL_RANK``).
    """

    def __init__(self, save_every: int = 1, keep: int = 2) -> None:
        super().__init__()
        self._save_every = save_every
        self._keep = max(1, keep)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        done = epoch + 1
        svc.log(logs or {}, step=done)
        first = os.environ.get("LOCAL_RANK", "0").strip() in ("", "0")
        if first and self._save_every > 0 and done % self._save_every == 0:
            name = f"epoch-{done:04d}.keras"
            with svc.atomic_save(name, step=done) as path:
                self.model.save(path)
            self._rotate(name)

    def _rotate(self, saved: str) -> None:
        """By age, not by number: a training that begins again may find later epochs of an earlier one."""
        older = []
        with os.scandir(svc.checkpoint_dir()) as entries:
            for entry in entries:
                if _EPOCH.match(entry.name) and entry.name != saved:
                    seen = entry.stat()
                    older.append((min(seen.st_mtime, seen.st_ctime), entry.path))
        for _, path in sorted(older)[: max(0, len(older) + 1 - self._keep)]:
            os.unlink(path)


def load_latest(**kwargs: Any) -> tuple[Any | None, int]:
    """The model that ``SvcCallback`` saved last and the number of epochs it has had; ``(None, 0)`` when the run
    starts from the beginning.

    Other checkpoints of the script, such as the best model of a ``ModelCheckpoint``, are left aside: how many epochs they have
    had is unknown. If there are no others, one line on stderr says so.

    Arguments go to ``keras.saving.load_model`` (``custom_objects``, ``safe_mode``).
    """
    times = complete_checkpoints()
    saved = {path: int(found[1]) for path, found in ((path, _EPOCH.search(path)) for path in times) if found}
    last = max(saved or times, key=lambda path: (times[path], path), default="")
    if last in saved:
        return keras.saving.load_model(last, **kwargs), saved[last]
    if last:
        print(
            f"svc: SvcCallback did not save {last}, so training starts from the beginning. List SvcCallback after other callbacks "
            "that save models: a run that moves to another machine gets the newest one.",
            file=sys.stderr,
        )
    return None, 0
