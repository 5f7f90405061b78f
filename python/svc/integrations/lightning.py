"""For Lightning: its metrics are charted, the files of its ``ModelCheckpoint`` announced.

::

    from svc.integrations.lightning import SvcLogger, SvcStop

    keep = ModelCheckpoint(dirpath=svc.checkpoint_dir(), save_last=True)
    trainer = Trainer(logger=SvcLogger(), callbacks=[keep, SvcStop()], ...)
    trainer.fit(model, data, ckpt_path=svc.latest_checkpoint())
"""

from __future__ import annotations

import os
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


class SvcStop(Callback):
    """Once svc has asked the run to stop (a budget, a time limit, a kill), the ``Trainer`` saves a checkpoint and ends.

    The checkpoint is ``svc-stop.ckpt`` in ``svc.checkpoint_dir()``, and is announced.
    """

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        # `reduce_boolean_decision` lets all processes agree in the same step.
        if trainer.should_stop or not trainer.strategy.reduce_boolean_decision(svc.should_stop(), all=False):
            return
        path = os.path.join(svc.checkpoint_dir(), "svc-stop.ckpt")
        trainer.save_checkpoint(path)
        if trainer.is_global_zero:
            svc.checkpoint(os.path.abspath(path), step=trainer.global_step)
        trainer.should_stop = True


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
