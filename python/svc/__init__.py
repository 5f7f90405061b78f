"""svc: rent a GPU machine for a training run, follow it, and always release the machine.

The package has two halves.

*In a training script*, on the machine of the run (Python 3.8 or newer, nothing but the standard library)::

    import svc

    svc.log({"loss": loss}, step=epoch)
    with svc.atomic_save("last.json") as path:
        save_weights(path)

*On your own computer* (Python 3.10 or newer), to start and follow runs::

    import svc

    job = svc.run(task=svc.Task(entrypoint="train.py", args=["--epochs", "5"]), gpus="cpu")
    for line in svc.stream(job.id):
        print(line)

``import svc`` opens no connection and starts no process; the second half is loaded when one of its names is first used.
"""

from __future__ import annotations

import sys

from svc._checkpoints import atomic_save, checkpoint, checkpoint_dir, latest_checkpoint
from svc._script import alert, log
from svc._stop import should_stop

# Type checkers accept a variable of this name for `typing.TYPE_CHECKING`, whose import would cost milliseconds in
# every run.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc import aio, hub
    from svc._chart import Chart, chart
    from svc._client import job, jobs, kill, placements, reconcile, remove, remove_checkpoints, update
    from svc._costs import CostGroup, CostReport, CostTotal, Limits, LimitUse, LimitWait, Receipt, ReceiptMachine, Waste
    from svc._errors import (
        ConfigError,
        CredentialError,
        ExtraMissing,
        JobNotFound,
        PriceCapExceeded,
        ProvisionError,
        SvcError,
        UnsupportedError,
        WaitTimeout,
    )
    from svc._follow import stream, wait
    from svc._gpus import Gpu, list_gpus, vram_for
    from svc._money import costs, limits, receipt, set_limits
    from svc._records import CheckpointsRemoved, Job, JobError, LogStream, Machine, Note, Placement, ReconcileReport, Task
    from svc._registry import configure
    from svc._retention import Retention, archive, retention, set_retention, unarchive
    from svc._run import plan, run

__version__ = "0.2.0"

__all__ = [
    "Chart",
    "CheckpointsRemoved",
    "ConfigError",
    "CostGroup",
    "CostReport",
    "CostTotal",
    "CredentialError",
    "ExtraMissing",
    "Gpu",
    "Job",
    "JobError",
    "JobNotFound",
    "LimitUse",
    "LimitWait",
    "Limits",
    "LogStream",
    "Machine",
    "Note",
    "Placement",
    "PriceCapExceeded",
    "ProvisionError",
    "Receipt",
    "ReceiptMachine",
    "ReconcileReport",
    "Retention",
    "SvcError",
    "Task",
    "UnsupportedError",
    "WaitTimeout",
    "Waste",
    "aio",
    "alert",
    "archive",
    "atomic_save",
    "chart",
    "checkpoint",
    "checkpoint_dir",
    "configure",
    "costs",
    "hub",
    "job",
    "jobs",
    "kill",
    "latest_checkpoint",
    "limits",
    "list_gpus",
    "log",
    "placements",
    "plan",
    "receipt",
    "reconcile",
    "remove",
    "remove_checkpoints",
    "retention",
    "run",
    "set_limits",
    "set_retention",
    "should_stop",
    "stream",
    "unarchive",
    "update",
    "vram_for",
    "wait",
]

_HOMES = {
    "svc._chart": "Chart chart",
    "svc._client": "job jobs kill placements reconcile remove remove_checkpoints update",
    "svc._costs": "CostGroup CostReport CostTotal LimitUse LimitWait Limits Receipt ReceiptMachine Waste",
    "svc._errors": "ConfigError CredentialError ExtraMissing JobNotFound PriceCapExceeded ProvisionError SvcError"
    " UnsupportedError WaitTimeout",
    "svc._follow": "stream wait",
    "svc._gpus": "Gpu list_gpus vram_for",
    "svc._money": "costs limits receipt set_limits",
    "svc._records": "CheckpointsRemoved Job JobError LogStream Machine Note Placement ReconcileReport Task",
    "svc._registry": "configure",
    "svc._retention": "Retention archive retention set_retention unarchive",
    "svc._run": "plan run",
}
_LAZY = {name: module for module, names in _HOMES.items() for name in names.split()}
_LAZY["aio"] = "svc.aio"
_LAZY["hub"] = "svc.hub"


def __getattr__(name: str) -> object:
    module_name = _LAZY.get(name)
    if module_name is None:
        raise AttributeError(f"module 'svc' has no attribute {name!r}")
    if sys.version_info < (3, 10):
        raise ImportError(
            "svc.{} needs Python 3.10 or newer (this is {}.{}); svc.log, svc.checkpoint_dir, svc.checkpoint, "
            "svc.latest_checkpoint, svc.should_stop and svc.atomic_save work here".format(name, *sys.version_info[:2])
        )
    import importlib

    module = importlib.import_module(module_name)
    value = module if name in ("aio", "hub") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
