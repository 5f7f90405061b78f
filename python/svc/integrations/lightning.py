"""For Lightning: its metrics are charted, the files of its ``ModelCheckpoint`` announced.

::

    from svc.integrations.lightning import SvcLogger, SvcStop

    keep = ModelCheckpoint(dirpath=svc.checkpoint_dir(), save_last=True)
    trainer = Trainer(logger=SvcLogger(), callbacks=[keep, SvcStop()], ...)
    trainer.fit(model, data, ckpt_path=svc.latest_checkpoint())
"""

from __future__ import annotations

import os
import signal
from typing import Any, Mapping

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.loggers import Logger
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:  # its other package
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.loggers import Logger
    from pytorch_lightning.utilities import rank_zero_only

import svc
from svc import _stop


class SvcStop(Callback):
    """Once svc has asked the run to stop (a budget, a time limit, a kill), the ``Trainer`` saves a checkpoint and ends.

    The checkpoint is ``svc-stop.ckpt`` in ``svc.checkpoint_dir()``, and is announced.
    """

    def on_train_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Listens to TERM: Lightning's own handler would end the fit after the current batch, saved or not, and with several processes
        it starts a collective operation in the middle of those of the training."""
        composed = getattr(signal.getsignal(signal.SIGTERM), "signal_handlers", None)
        if composed is not None:
            own = [one for one in composed if type(getattr(one, "__self__", None)).__name__ != "_SignalConnector"]
            _stop.listen([one for one in own if callable(one)])

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        # `reduce_boolean_decision` lets all processes agree in the same step.
        if not trainer.should_stop and trainer.strategy.reduce_boolean_decision(svc.should_stop(), all=False):
            self._end(trainer)

    def on_validation_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        # Several processes may have different numbers of these batches, and cannot agree here.
        if trainer.world_size == 1 and trainer.state.fn == "fit" and not trainer.sanity_checking and svc.should_stop():
            self._end(trainer)

    def _end(self, trainer: Any) -> None:
        path = os.path.join(svc.checkpoint_dir(), "svc-stop.ckpt")
        trainer.save_checkpoint(path)
        if trainer.is_global_zero:
            svc.checkpoint(os.path.abspath(path), step=trainer.global_step)
        # As Lightning ends after a TERM. With `should_stop` it would first validate, for longer than the run may have, and then save a
        # checkpoint that takes the epoch for complete.
        raise SystemExit


class SvcLogger(Logger):
    """Records the module's metrics, on the first process only; can be used with other loggers."""

    @property
    def name(self) -> str:
        return "svc"

    @property
    def version(self) -> str:
        """The run's id; outside a job a fixed word."""
        return os.environ.get("SVC_JOB_ID", "local")

    @property
    def save_dir(self) -> str:
        """The folder of a ``ModelCheckpoint`` without ``dirpath`` (below ``svc/<run>/checkpoints``)."""
        return svc.checkpoint_dir()

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing: the run's page has its arguments."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        svc.log(metrics, step=step)

    @rank_zero_only
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """The file is complete: the callback calls this after each save."""
        # Its public attributes name the best and the last file by its own rules; this one names the file that was
        # just saved.
        path = getattr(checkpoint_callback, "_last_checkpoint_saved", "") or checkpoint_callback.last_model_path
        if path:
            svc.checkpoint(os.path.abspath(path), step=getattr(checkpoint_callback, "_last_global_step_saved", None))
