"""For the Hugging Face ``Trainer``: its metrics are charted, its checkpoints announced.

::

    from svc.integrations.transformers import SvcCallback

    args = TrainingArguments(output_dir=svc.checkpoint_dir(), report_to="none", ...)
    trainer = Trainer(model=model, args=args, callbacks=[SvcCallback()], ...)
    trainer.train(resume_from_checkpoint=svc.latest_checkpoint())
"""

from __future__ import annotations

import os
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

import svc


class SvcCallback(TrainerCallback):
    """Records the metrics of the ``Trainer`` and announces its checkpoints, on the first process only."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Every number in ``logs``, at the global step."""
        if state.is_world_process_zero and logs:
            svc.log({name: value for name, value in logs.items() if not isinstance(value, str)}, step=state.global_step)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """The directory is complete: the ``Trainer`` calls this after its last file."""
        if state.is_world_process_zero and args.output_dir:
            folder = os.path.join(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")
            svc.checkpoint(os.path.abspath(folder), step=state.global_step)
