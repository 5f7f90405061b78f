"""Initializes CUDA with the driver's own library, in the environment that the script will have."""

from __future__ import annotations

import ctypes
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# CUDA_ERROR_SYSTEM_NOT_READY: the fabric manager of a machine with NVSwitch is still starting.
NOT_READY = 802
AGAIN_SECONDS = 1.0


def cuda(ask: dict[str, Any]) -> dict[str, Any]:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"library": False, "code": None, "name": None, "driver": None, "gpus": None}
    code = library.cuInit(0)
    while code == NOT_READY:
        time.sleep(AGAIN_SECONDS)  # repeated until the probe's timeout
        code = library.cuInit(0)
    count, version = ctypes.c_int(0), ctypes.c_int(0)
    known = library.cuDriverGetVersion(ctypes.byref(version)) == 0
    counted = code == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0
    return {
        "library": True,
        "code": code,
        "name": None if code == 0 else name_of(library, code),
        "driver": version.value if known else None,
        "gpus": count.value if counted else None,
    }


def name_of(library: ctypes.CDLL, code: int) -> str | None:
    text = ctypes.c_char_p()
    try:
        library.cuGetErrorName(code, ctypes.byref(text))
    except AttributeError:
        return None
    return (text.value or b"").decode("ascii", "replace")[:80] or None
