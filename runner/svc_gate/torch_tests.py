"""Finds the image's torch without importing it; multiplies and sums on the GPUs with it."""

from __future__ import annotations

import importlib.util
import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CUDA_OF_WHEEL = re.compile(r"^cuda\s*(?::[^=]*)?=\s*['\"]([0-9.]+)['\"]", re.MULTILINE)
VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
SIZE = 8192
BURN_SECONDS = 2.0
SUM_BYTES = 64 << 20
SUM_ROUNDS = 5


def torch_found(ask: dict[str, Any]) -> dict[str, Any]:
    """Returns the version of the torch that a script would import, and its CUDA version. An import takes seconds,
    so this reads torch's version file instead."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return {"version": None, "cuda": None}
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as f:
            text = f.read(65536)
    except OSError:
        return {"version": None, "cuda": None}
    cuda, version = CUDA_OF_WHEEL.search(text), VERSION.search(text)
    return {"version": version.group(1)[:40] if version else None, "cuda": cuda.group(1)[:10] if cuda else None}


def torch_tests(ask: dict[str, Any]) -> dict[str, Any]:
    import torch

    count = torch.cuda.device_count()
    if count == 0:
        return {"gpus": [], "all_reduce": None}
    # Only GPUs of compute capability 8.0 or higher compute bf16 in hardware. Older ones emulate it, and their speed
    # would prove nothing.
    able = [torch.cuda.get_device_capability(i)[0] >= 8 for i in range(count)]
    speeds = burned(torch, [i for i in range(count) if able[i]])
    gpus = [dict(speeds.get(i, {"tflops": None, "right": None}), name=torch.cuda.get_device_name(i)[:200]) for i in range(count)]
    return {"gpus": gpus, "all_reduce": all_reduced(torch, count) if count > 1 else None}


def burned(torch: Any, devices: list[int]) -> dict[int, dict[str, Any]]:
    """Loads all GPUs at once, as training does: they share power and cooling."""
    work = {}
    for i in devices:
        at = "cuda:%d" % i
        a = torch.randn(SIZE, SIZE, device=at, dtype=torch.bfloat16)
        unit = torch.eye(SIZE, device=at, dtype=torch.bfloat16)
        right = bool(torch.equal(a @ unit, a))
        torch.mm(a, a, out=unit)
        work[i] = (a, unit, right)
    rounds = dict.fromkeys(devices, 0)
    for i in devices:
        torch.cuda.synchronize(i)
    begin = time.monotonic()
    while devices and time.monotonic() - begin < BURN_SECONDS:
        for i in devices:
            a, out, _ = work[i]
            for _ in range(4):
                torch.mm(a, a, out=out)
            rounds[i] += 4
        for i in devices:
            torch.cuda.synchronize(i)
    seconds = max(0.001, time.monotonic() - begin)
    return {i: {"tflops": round(rounds[i] * 2 * SIZE**3 / seconds / 1e12, 1), "right": work[i][2]} for i in devices}


def all_reduced(torch: Any, count: int) -> dict[str, Any]:
    """Runs in one process over all GPUs: each adds its number, and each must then hold the sum."""
    from torch.cuda import nccl

    try:
        parts = [torch.full((SUM_BYTES // 4,), float(i + 1), device="cuda:%d" % i) for i in range(count)]
        nccl.all_reduce(parts)
        for i in range(count):
            torch.cuda.synchronize(i)
        right = all(bool((part == count * (count + 1) / 2).all()) for part in parts)
        begin = time.monotonic()
        for _ in range(SUM_ROUNDS):
            nccl.all_reduce(parts)
        for i in range(count):
            torch.cuda.synchronize(i)
        seconds = max(0.0001, time.monotonic() - begin)
        return {"right": right, "bytes_per_second": int(SUM_ROUNDS * SUM_BYTES / seconds), "error": None}
    except Exception as e:
        return {"right": None, "bytes_per_second": None, "error": " ".join(("%s: %s" % (type(e).__name__, e)).split())[:300]}
