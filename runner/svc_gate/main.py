"""Starts the probes and prints what they find."""

from __future__ import annotations

import json
import sys

from .conductor import Conductor, one
from .cuda import cuda
from .disk import disk, shared_memory
from .download import download
from .nvidia import gpu_health, gpus
from .torch_tests import torch_found, torch_tests
from .xid import xids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The timeout of each probe, in seconds. On eight GPUs without persistence mode every query loads the driver first.
PROBES = {
    "gpus": (gpus, 12),
    "gpu_health": (gpu_health, 12),
    "cuda": (cuda, 15),
    "xid": (xids, 4),
    "shm": (shared_memory, 2),
    "disk": (disk, 5),
    "download": (download, 5),
    "torch_found": (torch_found, 8),
    "torch": (torch_tests, 18),
}
# These import packages of the image, so they run as a script of the user would.
IN_IMAGE = ("torch_found", "torch")
# This probe starts when the others have found working GPUs and a torch.
LATE = "torch"


def ready_for_torch(results: dict[str, Any]) -> bool | None:
    """Returns True or False once it is known whether the GPUs may be loaded, and None before."""
    if any(name not in results for name in ("gpus", "cuda", "torch_found")):
        return None
    answers = [results[name].get("ok") or {} for name in ("gpus", "cuda", "torch_found")]
    return bool(answers[0].get("gpus")) and answers[1].get("code") == 0 and bool(answers[2].get("cuda"))


def main(text: bytes) -> None:
    ask = json.loads(sys.argv[1])
    if len(sys.argv) > 2:
        one(PROBES, sys.argv[2], ask)
    else:
        Conductor(text, ask, PROBES, IN_IMAGE, LATE, ready_for_torch).run()
