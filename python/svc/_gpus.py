"""The catalogue of GPUs that providers usually offer. It is not complete: a run may ask for any model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from svc._errors import ConfigError


@dataclass(frozen=True)
class Gpu:
    """One model: its name, its typical memory per GPU in GiB, and the providers that commonly have it."""

    model: str
    vram_gb: int
    providers: tuple[str, ...]


PROVIDERS = ("local", "podhost", "market", "cloudvm", "notebook")

_TABLE = """
H200          141  market podhost
H100           80  market podhost cloudvm
A100           80  market podhost cloudvm notebook
A100-PCIe      40  market cloudvm
L40S           48  market podhost
L40            48  market podhost
A6000          48  market podhost
A40            48  market podhost
RTX5090        32  market
RTX4090        24  market podhost
RTX3090        24  market
L4             24  cloudvm market
A10            24  market podhost
A4000          16  market
V100           16  cloudvm notebook
T4             16  cloudvm notebook
B300          288  podhost market
MI300X        192  podhost
B200          180  podhost market cloudvm
RTX-PRO-6000   96  podhost market cloudvm
RTX6000Ada     48  podhost market
RTX5000Ada     32  podhost market
RTX-PRO-4500   32  podhost market
RTX3090Ti      24  podhost market
A5000          24  podhost market
A30            24  podhost market
RTX4000Ada     20  podhost market
A4500          20  podhost market
RTX5080        16  podhost market
RTX4080SUPER   16  podhost market
RTX4080        16  podhost market
RTX2000Ada     16  podhost market
RTX4070Ti      12  podhost market
RTX3080Ti      12  podhost market
RTX3080        10  podhost market
RTX3070         8  podhost market
"""

CATALOGUE: tuple[Gpu, ...] = tuple(
    Gpu(model, int(vram), tuple(providers))
    for model, vram, *providers in (row.split() for row in _TABLE.strip().splitlines())
)


def list_gpus(provider: str | None = None) -> list[Gpu]:
    """The GPUs that ``provider`` commonly offers, or the whole catalogue. Needs no control plane.

    Raises ``ConfigError`` for a provider that does not exist; ``local`` offers none.
    """
    if provider is None:
        return list(CATALOGUE)
    if provider not in PROVIDERS:
        raise ConfigError("invalid_request", f"Unknown provider {provider!r}.", f"Use one of {', '.join(PROVIDERS)}.")
    return [gpu for gpu in CATALOGUE if provider in gpu.providers]


def vram_for(model: str) -> int:
    """Typical memory per GPU of ``model`` in GiB, for example 80 for ``A100``. Needs no control plane.

    Case, blanks, dashes and a vendor's prefix (``NVIDIA GeForce RTX 4090``) do not matter, and a count (``A100:4``) is left aside. Raises ``ConfigError`` for a model the catalogue lacks.
    """
    wanted = _plain(model.partition(":")[0]) if isinstance(model, str) else None
    for gpu in CATALOGUE:
        if _plain(gpu.model) == wanted:
            return gpu.vram_gb
    raise ConfigError(
        "unknown_gpu",
        f"The catalogue has no GPU {model!r}.",
        f"It lists {', '.join(gpu.model for gpu in CATALOGUE)}. Runs can also ask for other models.",
    )


def _plain(model: str) -> str:
    """``NVIDIA GeForce RTX 4090``, ``rtx-4090`` and ``4090`` are one."""
    words = re.sub(r"[\s_-]+", " ", model).casefold().split()
    return re.sub(r"^rtx", "", "".join(word for word in words if word not in ("nvidia", "amd", "geforce", "tesla", "instinct")))
