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

# Each of several processes asks its own machine, and all must agree in the same step.
_ASK_EVERY_STEPS = 5 if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1 else 1


def _all_ranks_stop() -> bool:
    asked = svc.should_stop()
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return asked
    if not (dist.is_available() and dist.is_initialized()):
        return asked
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    told = torch.tensor([int(asked)], device=device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return bool(told.item())


class SvcCallback(TrainerCallback):
    """Records the metrics of the ``Trainer``, announces its checkpoints, and saves and ends when svc asks the run to stop."""

    _stopped_at = -1

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

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Once svc has asked the run to stop (a budget, a time limit, a kill), the ``Trainer`` saves and ends after this step."""
        if state.global_step % _ASK_EVERY_STEPS == 0 and _all_ranks_stop():
            control.should_save = True
            control.should_training_stop = True
            # The evaluation comes before the save, and may take longer than the run still has.
            control.should_evaluate = False
            self._stopped_at = state.global_step

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """The ``Trainer`` ends the epoch in which it stops: it would evaluate then, and write over the checkpoint that is being saved."""
        if state.global_step == self._stopped_at:
            control.should_save = control.should_evaluate = False

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """The directory is complete: the ``Trainer`` calls this after its last file."""
        if state.is_world_process_zero and args.output_dir:
            folder = os.path.join(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")
            svc.checkpoint(os.path.abspath(folder), step=state.global_step)
