"""The registry: which credentials exist, and where their secrets are. Secrets themselves never stand in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svc._errors import ConfigError, UnsupportedError
from svc._gpus import PROVIDERS

_SCHEMES = ("env://", "file://", "store://", "literal://")
_CREDENTIAL = {"cred_id": str, "provider": str, "secret_ref": str, "ssh_key_ref": str, "extra": Mapping}
_TRACKER = {"secret_ref": str, "project": str}
_HUB = {"token_ref": str, "cache_dir": str, "enabled": bool}


@dataclass(frozen=True)
class Settings:
    """What ``configure`` accepted."""

    registry: Mapping[str, Any] = field(default_factory=dict, repr=False)
    use: tuple[str, ...] = ()


def checked(registry: Mapping[str, Any], use: Sequence[str]) -> Settings:
    """The settings. Raises ``ConfigError`` for a wrong shape, ``UnsupportedError`` for what cannot be used yet."""
    _mapping("registry", registry, {"credentials": Sequence, "tracking": Mapping, "integrations": Mapping})
    known: dict[str, str] = {}
    for index, record in enumerate(registry.get("credentials") or []):
        at = f"registry.credentials[{index}]"
        cred_id, provider = _credential(at, record)
        if cred_id in known:
            raise _wrong(f"{at}.cred_id", f"{cred_id!r} is there twice")
        known[cred_id] = provider
    if isinstance(use, (str, bytes)) or not isinstance(use, Sequence):
        raise _wrong("use", "must be a list of cred_ids")
    for index, cred_id in enumerate(use):
        if cred_id not in known:
            raise _wrong(f"use[{index}]", f"{cred_id!r} is no cred_id of the registry")
    _part("registry.tracking", registry.get("tracking"), "tracker", _TRACKER)
    hub = _part("registry.integrations", registry.get("integrations"), "hub", _HUB)
    for cred_id, provider in known.items():
        if provider != "local":
            raise _not_yet(f"The credential {cred_id!r} for {provider}")
    if registry.get("tracking"):
        raise _not_yet("The tracker integration")
    if hub and hub.get("enabled", True):
        raise _not_yet("The hub integration")
    return Settings(dict(registry), tuple(use))


def _credential(at: str, record: Any) -> tuple[str, str]:
    _mapping(at, record, _CREDENTIAL)
    for name in ("cred_id", "provider"):
        if not record.get(name):
            raise _wrong(f"{at}.{name}", "is required")
    if record["provider"] not in PROVIDERS:
        raise _wrong(f"{at}.provider", f"must be one of {', '.join(PROVIDERS)}")
    _reference(f"{at}.secret_ref", record.get("secret_ref"))
    return record["cred_id"], record["provider"]


def _part(at: str, value: Any, name: str, shape: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if value is None:
        return None
    _mapping(at, value, {name: Mapping})
    part = value.get(name)
    if part is None:
        return None
    _mapping(f"{at}.{name}", part, shape)
    for key in ("secret_ref", "token_ref"):
        _reference(f"{at}.{name}.{key}", part.get(key))
    return part  # type: ignore[no-any-return]


def _reference(at: str, value: str | None) -> None:
    # The value is not shown: a raw secret put here by mistake must not reach a screen or a log.
    if value is not None and not value.startswith(_SCHEMES):
        raise _wrong(at, f"must be a reference that begins with {', '.join(_SCHEMES)}")


def _mapping(at: str, value: Any, shape: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(at, "must be a dict")
    for name, entry in value.items():
        if name not in shape:
            raise _wrong(f"{at}.{name}", f"is not known; there are {', '.join(shape)}")
        kind = shape[name]
        if entry is None:
            continue
        if not isinstance(entry, kind) or (kind is Sequence and isinstance(entry, (str, bytes))):
            words = {Sequence: "a list", Mapping: "a dict", str: "a string", bool: "true or false"}
            raise _wrong(f"{at}.{name}", f"must be {words[kind]}")


def _wrong(field_name: str, message: str) -> ConfigError:
    return ConfigError("invalid_request", f"{field_name} {message}.", "Nothing was changed.", [(field_name, message)])


def _not_yet(what: str) -> UnsupportedError:
    return UnsupportedError(
        "feature_unavailable",
        f"{what} is well-formed, but this version runs on the local provider only.",
        "Leave it out of the registry, or use configure(registry={}, use=[]). Nothing was changed.",
    )
