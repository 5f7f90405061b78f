"""The catalogue of GPUs that providers commonly offer. It is a menu, not a limit: any model may be asked for."""

from __future__ import annotations

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
H200        141  market podhost
H100         80  market podhost cloudvm
A100         80  market podhost cloudvm notebook
A100-PCIe    40  market cloudvm
L40S         48  market podhost
L40          48  market podhost
A6000        48  market podhost
A40          48  market podhost
RTX5090      32  market
RTX4090      24  market podhost
RTX3090      24  market
L4           24  cloudvm market
A10          24  market podhost
A4000        16  market
V100         16  cloudvm notebook
T4           16  cloudvm notebook
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
        raise ConfigError("invalid_request", f"There is no provider {provider!r}.", f"Use one of {', '.join(PROVIDERS)}.")
    return [gpu for gpu in CATALOGUE if provider in gpu.providers]


def vram_for(model: str) -> int:
    """Typical memory per GPU of ``model`` in GiB, for example 80 for ``A100``. Needs no control plane.

    Case does not matter and a count (``A100:4``) is left aside. Raises ``ConfigError`` for a model the catalogue lacks.
    """
    wanted = model.partition(":")[0].strip().casefold() if isinstance(model, str) else None
    for gpu in CATALOGUE:
        if gpu.model.casefold() == wanted:
            return gpu.vram_gb
    raise ConfigError(
        "unknown_gpu",
        f"The catalogue has no GPU {model!r}.",
        f"It knows {', '.join(gpu.model for gpu in CATALOGUE)}. Other models can be rented all the same.",
    )
