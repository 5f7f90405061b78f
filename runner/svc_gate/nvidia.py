"""Asks nvidia-smi for the GPUs and their health."""

from __future__ import annotations

import os
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDERS = ("/usr/bin", "/opt/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib")
# nvidia-smi writes these in place of the values of a failed GPU (seen in NVIDIA forums and with driver 535 to 570,
# 2024 to 2026).
LOST = ("gpu is lost", "unknown error", "err!", "requires reset", "unable to determine the device handle")
SMI_AGAIN_SECONDS = 1.5
GPUS_MAX = 64
FIELDS = ("index", "uuid", "pci.bus_id", "memory.total", "memory.free", "driver_version", "name")


def smi_path() -> str | None:
    for folder in os.environ.get("PATH", os.defpath).split(":") + list(FOLDERS):
        path = folder + "/nvidia-smi"
        if folder.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def asked(argv: list[str]) -> tuple[int, str]:
    """Returns the exit code and the output. It has no timeout of its own: the probe's applies."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def whole(value: str) -> int | None:
    return int(value) if value.isdigit() else None


def gpus(ask: dict[str, Any]) -> dict[str, Any]:
    smi = smi_path()
    if smi is None:
        return {"tool": False, "gpus": [], "fault": None}
    argv = [smi, "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader,nounits"]
    fault = None
    for attempt in (1, 2):
        code, out = asked(argv)
        lost = [row for row in out.split("\n") if any(word in row.lower() for word in LOST)]
        if code == 0 and not lost:
            return {"tool": True, "gpus": gpus_in(out), "fault": None}
        fault = {"exit": code, "words": " ".join((lost[0] if lost else out).split())[:300]}
        if attempt == 1:
            time.sleep(SMI_AGAIN_SECONDS)  # one failure proves nothing: the driver may still be starting
    return {"tool": True, "gpus": [], "fault": fault}


def gpus_in(out: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for row in out.split("\n"):
        parts = [part.strip() for part in row.split(",", len(FIELDS) - 1)]
        if len(parts) == len(FIELDS) and len(found) < GPUS_MAX:
            _, uuid, bus, total, free, driver, name = parts
            found.append(
                {
                    "uuid": uuid[:80],
                    "bus": bus[:40],
                    "memory_mib": whole(total),
                    "free_mib": whole(free),
                    "driver": driver[:40],
                    "name": name[:200],
                }
            )
    return found


def gpu_health(ask: dict[str, Any]) -> dict[str, Any]:
    """Returns the uncorrected ECC errors since the driver was loaded, and the remapped rows. Unknown fields are
    left out, as most GPUs have neither."""
    smi = smi_path()
    if smi is None:
        return {"gpus": []}
    found: dict[str, dict[str, Any]] = {}
    for query, names in (
        ("--query-gpu=uuid,ecc.errors.uncorrected.volatile.total", ("uncorrected",)),
        ("--query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure", ("pending", "failure")),
    ):
        code, out = asked([smi, query, "--format=csv,noheader,nounits"])
        for row in out.split("\n") if code == 0 else ():
            parts = [part.strip() for part in row.split(",")]
            if len(parts) != len(names) + 1 or not parts[0].startswith(("GPU-", "MIG-")) or len(found) >= GPUS_MAX:
                continue
            gpu = found.setdefault(parts[0][:80], {"uuid": parts[0][:80], "uncorrected": None, "pending": None, "failure": None})
            for name, value in zip(names, parts[1:]):
                gpu[name] = whole(value) if name == "uncorrected" else {"yes": True, "no": False, "1": True, "0": False}.get(value.lower())
    return {"gpus": list(found.values())}
