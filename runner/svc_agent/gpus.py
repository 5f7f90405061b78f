"""Asks the drivers' tools for GPUs, and for faults that they report."""

from __future__ import annotations

import json
import os

from .commands import outcome_of, which
from .files import first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    Cards = Optional[List[Dict[str, Any]]]
    Fault = Optional[Dict[str, Any]]

SMI_SECONDS = 20  # without persistence mode the first query of a machine with eight GPUs loads the driver for all of them
# nvidia-smi prints one of these instead of a value of a failed GPU (seen: NVIDIA forums and driver 535 to 570, 2024
# to 2026).
LOST = ("gpu is lost", "unknown error", "err!", "requires reset", "unable to determine the device handle")

NO_GPU = "it shows no GPU"


def gpus(path: str) -> tuple[Cards, str | None, Fault]:
    """GPUs, driver version, and the fault that the tool reports: all None if the machine has no such tool."""
    smi = which("nvidia-smi", path, ("/usr/bin", "/opt/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"))
    return nvidia_gpus(smi) if smi else rocm_gpus(which("rocm-smi", path, ("/opt/rocm/bin", "/usr/bin")))


def gpu_fault(tool: str, code: int | None, words: str) -> dict[str, Any]:
    return {"tool": tool, "exit": code, "words": " ".join(words.split())[:300]}


def nvidia_gpus(smi: str) -> tuple[Cards, str | None, Fault]:
    query = "--query-gpu=name,memory.total,driver_version"
    try:
        code, out, err = outcome_of([smi, query, "--format=csv,noheader,nounits"], SMI_SECONDS)
    except OSError as e:
        code, out, err = 127, "", str(e.strerror)
    if code != 0:
        words = out + " " + err if code is not None else "it gave no answer within %d seconds" % SMI_SECONDS
        return None, None, gpu_fault("nvidia-smi", code, words)
    found: list[dict[str, Any]] = []
    driver = None
    for row in out.split("\n"):
        if any(word in row.lower() for word in LOST):
            return None, None, gpu_fault("nvidia-smi", code, row)
        parts = [part.strip() for part in row.rsplit(",", 2)]
        if len(parts) == 3 and len(found) < 64:
            found.append({"name": parts[0][:200], "memory_mib": int(parts[1]) if parts[1].isdigit() else None})
            driver = parts[2][:40] if parts[2][:1].isdigit() else driver
    if not found:
        return None, None, gpu_fault("nvidia-smi", code, (out + " " + err).strip() or NO_GPU)
    return found, driver, None


def rocm_gpus(smi: str | None) -> tuple[Cards, str | None, Fault]:
    if not smi:
        return None, None, None
    argv = [smi, "--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json"]
    try:
        code, out, err = outcome_of(argv, SMI_SECONDS)
    except OSError as e:
        code, out, err = 127, "", str(e.strerror)
    if code != 0:
        words = out + " " + err if code is not None else "it gave no answer within %d seconds" % SMI_SECONDS
        return None, None, gpu_fault("rocm-smi", code, words)
    found: list[dict[str, Any]] = []
    driver = None
    try:
        told = json.loads(out[out.index("{") :])
    except ValueError:
        told = {}
    for card in sorted(told):
        values = {str(k).lower(): str(v) for k, v in told[card].items()} if isinstance(told[card], dict) else {}
        driver = values.get("driver version", driver or "")[:40] or None
        memory = values.get("vram total memory (b)", "")
        name = values.get("card series") or values.get("card model") or ""
        if card.startswith("card") and len(found) < 64:
            found.append({"name": name[:200], "memory_mib": int(memory) >> 20 if memory.isdigit() else None})
    if not found:
        return None, None, gpu_fault("rocm-smi", code, (out + " " + err).strip() or NO_GPU)
    return found, driver, None


def driver_pending() -> bool:
    """Detects GPUs whose driver does not answer yet: on a fresh machine it is installed after sshd has come up."""
    root = "/sys/bus/pci/devices"
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        device = "%s/%s" % (root, name)
        if first_line(device + "/vendor") == "0x10de" and first_line(device + "/class").startswith("0x03"):
            return True
    return False
