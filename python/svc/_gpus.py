"""The catalogue of GPUs that providers usually offer. It is not complete: a run may request any model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from svc._errors import ConfigError
from svc._providers import GPU_TABLE, PROVIDERS


@dataclass(frozen=True)
class Gpu:
    """One model: its name, its typical memory per GPU in GiB, and the providers that commonly have it."""

    model: str
    vram_gb: int
    providers: tuple[str, ...]


CATALOGUE: tuple[Gpu, ...] = tuple(
    Gpu(model, int(vram), tuple(providers)) for model, vram, *providers in (row.split() for row in GPU_TABLE.strip().splitlines())
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

    Case, blanks, dashes and a vendor's prefix (``NVIDIA GeForce RTX 4090``) do not matter, and a count (``A100:4``) is left aside.
    Raises ``ConfigError`` for a model the catalogue lacks.
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
