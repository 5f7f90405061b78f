"""For Accelerate: a tracker, and an atomic directory of state.

::

    from svc.integrations.accelerate import SvcTracker, save_state

    accelerator = Accelerator(log_with=SvcTracker())
    accelerator.init_trackers("anything")
    latest = svc.latest_checkpoint()
    if latest:
        accelerator.load_state(latest)
    ...
    accelerator.log({"loss": loss}, step=step)
    save_state(accelerator, "step-100", step=100)
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import GeneralTracker

import svc


class SvcTracker(GeneralTracker):
    """Records the values of ``accelerator.log``; the accelerator calls it on the first process only."""

    name = "svc"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self) -> None:
        super().__init__()

    @property
    def tracker(self) -> Any:
        return svc

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Does nothing: the run's page has its arguments."""

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        svc.log(values, step=step)


def save_state(accelerator: Accelerator, name: str, step: int | None = None, **kwargs: Any) -> str:
    """``accelerator.save_state`` into ``name`` below the checkpoint directory, announced when all processes have written.

    Every process must call it. Until the last of them is done the directory has a temporary name, so a run that
    dies before then never resumes from half a state. Returns the path. Further arguments go to
    ``accelerator.save_state``.
    """
    target = os.path.abspath(os.path.join(svc.checkpoint_dir(), name))
    folder, last = os.path.split(target)
    temporary = os.path.join(folder, "tmp-" + last)
    if accelerator.is_local_main_process:
        shutil.rmtree(temporary, ignore_errors=True)  # left by an attempt that died
    accelerator.wait_for_everyone()
    accelerator.save_state(temporary, **kwargs)
    accelerator.wait_for_everyone()
    if accelerator.is_local_main_process:
        # One per machine: each has written its own part to its own disk.
        with svc.atomic_save(target, step=step) as path:
            os.replace(temporary, path)
    accelerator.wait_for_everyone()
    return target
