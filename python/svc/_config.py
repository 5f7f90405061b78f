"""The registry: which credentials exist, and where their secrets are. It never contains the secrets themselves.

G1. Shapes are checked, and ``env://`` is read, when ``configure`` is called: in this process and its environment.
G2. The control plane keeps references in clear and values sealed; see docs/reference/credentials.md.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svc._errors import ConfigError, CredentialError
from svc._http import json_fault
from svc._providers import PROVIDERS

_SCHEMES = ("env://", "file://", "store://", "literal://")
_CREDENTIAL = {"cred_id": str, "provider": str, "secret_ref": str, "ssh_key_ref": str, "extra": Mapping}
_TRACKER = {"secret_ref": str, "project": str}
_HUB = {"token_ref": str, "cache_dir": str, "enabled": bool}
_NOTIFICATIONS = {"targets": Mapping, "rules": Sequence}
_TARGET_FIELDS = {
    "url": str, "topic": str, "host": str, "port": int, "user": str, "from": str, "to": Sequence, "argv": Sequence, "secret_ref": str,
    "events": Sequence, "allow_private": bool,
}  # fmt: skip
# For each kind the fields that it needs, and the others.
# generated: targets
_TARGETS = {
    "ntfy": ("topic", "url secret_ref events allow_private"),
    "slack": ("secret_ref", "events allow_private"),
    "discord": ("secret_ref", "events allow_private"),
    "webhook": ("url", "secret_ref events allow_private"),
    "email": ("host from to", "port user secret_ref events allow_private"),
    "desktop": ("", "events"),
    "command": ("argv", "events"),
}
# end: targets


@dataclass(frozen=True)
class Settings:
    """The settings that ``configure`` accepted, in the form that is sent. The values are secrets."""

    body: Mapping[str, Any] = field(repr=False)


def checked(registry: Mapping[str, Any], use: Sequence[str] | None) -> Settings:
    """The settings. Raises ``ConfigError`` for a wrong shape, ``CredentialError`` for a missing variable."""
    _mapping("registry", registry, {"credentials": Sequence, "tracking": Mapping, "integrations": Mapping, "notifications": Mapping})
    known: dict[str, Mapping[str, Any]] = {}
    for index, record in enumerate(registry.get("credentials") or []):
        at = f"registry.credentials[{index}]"
        _credential(at, record)
        if record["cred_id"] in known:
            raise _wrong(f"{at}.cred_id", f"{record['cred_id']!r} is listed twice")
        known[record["cred_id"]] = record
    used = _used(known, use)
    tracker = _part("registry.tracking", registry.get("tracking"), "tracker", _TRACKER)
    hub = _part("registry.integrations", registry.get("integrations"), "hub", _HUB)
    if tracker is not None and not tracker.get("secret_ref"):
        raise _wrong("registry.tracking.tracker.secret_ref", "is required")
    notifications = _notifications(registry.get("notifications"))
    values: dict[str, str | None] = {}
    body: dict[str, Any] = {"credentials": [_sent(record, values) for record in used]}
    if tracker is not None:
        reference = _taken(tracker["secret_ref"], "tracking.tracker", values)
        body["tracking"] = {"tracker": {**tracker, "secret_ref": reference}}
    if hub is not None:
        token = hub.get("token_ref")
        taken = None if token is None else _taken(token, "integrations.hub", values)
        body["integrations"] = {"hub": {**hub, "token_ref": taken}}
    if notifications is not None:
        targets = {name: _sent_target(name, target, values) for name, target in (notifications.get("targets") or {}).items()}
        body["notifications"] = {"targets": targets, "rules": list(notifications.get("rules") or [])}
    fault = json_fault(body)
    if fault is not None:
        raise _wrong("registry", fault)
    return Settings({"registry": body, "use": [record["cred_id"] for record in used], "values": values})


def _used(known: Mapping[str, Mapping[str, Any]], use: Sequence[str] | None) -> list[Mapping[str, Any]]:
    """The records in use, one for each provider."""
    if use is not None and (isinstance(use, (str, bytes)) or not isinstance(use, Sequence)):
        raise _wrong("use", "must be a list of cred_ids")
    used: dict[str, Mapping[str, Any]] = {}
    for index, cred_id in enumerate(known if use is None else use):
        at = f"use[{index}]" if use is not None else f"registry.credentials[{index}].cred_id"
        record = known.get(cred_id)
        if record is None:
            raise _wrong(at, f"{cred_id!r} is not a cred_id of the registry")
        if used.setdefault(record["provider"], record) is not record:
            raise _wrong(at, f"is a second credential of {record['provider']}; choose one with `use`")
    return list(used.values())


def _sent(record: Mapping[str, Any], values: dict[str, str | None]) -> dict[str, Any]:
    sent = dict(record)
    if sent.get("secret_ref") is not None:
        sent["secret_ref"] = _taken(sent["secret_ref"], f"credentials.{record['cred_id']}", values, required=True)
    if sent.get("ssh_key_ref") is not None:
        sent["ssh_key_ref"] = _whole_path(sent["ssh_key_ref"].removeprefix("file://"))
    if sent.get("extra") is not None:
        sent["extra"] = dict(sent["extra"])
    return sent


def _taken(reference: str, at: str, values: dict[str, str | None], required: bool = False) -> str:
    """The reference in the form that is sent; the value of ``env://`` goes into ``values``."""
    scheme, _, rest = reference.partition("://")
    if scheme == "file":
        return f"file://{_whole_path(rest)}"
    if scheme == "literal":
        logging.getLogger("svc").warning("the program contains the secret of %s as literal://; use env://, file:// or store:// instead", at)
    if scheme == "env":
        values[at] = os.environ.get(rest) or None
        if required and values[at] is None:
            raise CredentialError(
                "credential_missing",
                f"The environment variable {rest}, which {at} names, is not set.",
                "Set it in the environment of this program, or use another secret_ref. Nothing was changed.",
            )
    return reference


def _whole_path(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _credential(at: str, record: Any) -> None:
    _mapping(at, record, _CREDENTIAL)
    for name in ("cred_id", "provider"):
        if not record.get(name):
            raise _wrong(f"{at}.{name}", "is required")
    if record["provider"] not in PROVIDERS:
        raise _wrong(f"{at}.provider", f"must be one of {', '.join(PROVIDERS)}")
    _reference(f"{at}.secret_ref", record.get("secret_ref"))
    for name, value in (record.get("extra") or {}).items():
        fault = json_fault(value)
        if fault is not None:
            raise _wrong(f"{at}.extra.{name}", fault)


def _notifications(value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    at = "registry.notifications"
    _mapping(at, value, _NOTIFICATIONS)
    for name, target in (value.get("targets") or {}).items():
        _target(f"{at}.targets.{name}", target)
    for index, line in enumerate(value.get("rules") or []):
        # The control plane judges the words of a rule.
        if not isinstance(line, str):
            raise _wrong(f"{at}.rules[{index}]", "must be a string")
    return value  # type: ignore[no-any-return]


def _target(at: str, target: Any) -> None:
    kind = target.get("kind") if isinstance(target, Mapping) else None
    if isinstance(target, Mapping) and kind not in _TARGETS:
        raise _wrong(f"{at}.kind", f"must be one of {', '.join(_TARGETS)}")
    needed, others = (names.split() for names in _TARGETS.get(str(kind), ("", "")))
    if isinstance(target, Mapping) and target.get("secret") is not None:
        raise _wrong(f"{at}.secret", "is not taken; name the secret with secret_ref, such as env://NAME")
    _mapping(at, target, {"kind": str, **{name: _TARGET_FIELDS[name] for name in (*needed, *others)}})
    for name in needed:
        if target.get(name) is None:
            raise _wrong(f"{at}.{name}", "is required")
    _reference(f"{at}.secret_ref", target.get("secret_ref"))


def _sent_target(name: str, target: Mapping[str, Any], values: dict[str, str | None]) -> dict[str, Any]:
    sent: dict[str, Any] = {key: list(value) if isinstance(value, tuple) else value for key, value in target.items() if value is not None}
    if "secret_ref" in sent:
        sent["secret_ref"] = _taken(sent["secret_ref"], f"notifications.{name}", values, required=True)
    return sent


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
    # The value is not shown: a raw secret that was put here by mistake must not reach a screen or a log.
    if value is not None and (not value.startswith(_SCHEMES) or value in _SCHEMES):
        raise _wrong(at, f"must be a reference that begins with {', '.join(_SCHEMES)}")


def _mapping(at: str, value: Any, shape: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(at, "must be a dict")
    for name, entry in value.items():
        if name not in shape:
            raise _wrong(f"{at}.{name}", f"is unknown; the known fields are {', '.join(shape)}")
        kind = shape[name]
        if entry is None:
            continue
        if not isinstance(entry, kind) or (kind is Sequence and isinstance(entry, (str, bytes))):
            words = {Sequence: "a list", Mapping: "a dict", str: "a string", bool: "true or false", int: "a whole number"}
            raise _wrong(f"{at}.{name}", f"must be {words[kind]}")


def _wrong(field_name: str, message: str) -> ConfigError:
    return ConfigError("invalid_request", f"{field_name} {message}.", "Nothing was changed.", [(field_name, message)])
