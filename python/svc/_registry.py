"""The registry of credentials that a script names: the next call sends it to the control plane of its home."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from svc import _http
from svc._config import Settings, checked
from svc._errors import short_traceback
from svc._http import home

__all__ = ["configure"]


@short_traceback
def configure(registry: Mapping[str, Any] | None = None, use: Sequence[str] | None = None) -> None:
    """Set the registry of credentials and the ``cred_id``s in use; without ``use`` all of its credentials are.

    ``registry={}`` with ``use=[]`` is enough for the ``local`` provider. ``env://`` means the environment of this
    process, read now; the next call sends the registry to the control plane of this home, which keeps references in
    clear and values sealed. ``notifications`` has ``targets`` by name, each with its ``secret_ref``, and ``rules`` for all runs.
    Raises ``ConfigError``, which names the malformed part, and ``CredentialError`` for a missing variable; nothing is changed then.
    """
    _LATEST.name(checked({} if registry is None else registry, use))


class _Named:
    """The latest registry of ``configure``, and the control planes that have it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: Settings | None = None
        self._told: dict[Path, Settings] = {}

    def name(self, settings: Settings) -> None:
        with self._lock:
            self._settings = settings

    def tell(self, port: int) -> None:
        """Sends the registry to the control plane of this home, unless it already has it."""
        at = home()
        with self._lock:
            settings = self._settings
            if settings is None or self._told.get(at) is settings:
                return
            _http.call(port, "PUT", "/v1/registry", settings.body)
            self._told[at] = settings

    def after_fork(self) -> None:
        """In a forked child: a thread of the parent may have held the lock, and no thread of the child would release it."""
        self._lock = threading.Lock()


_LATEST = _Named()


def _forked() -> None:
    _LATEST.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def tell(port: int) -> None:
    """Sends the latest registry to the control plane at this port, unless it already has it."""
    _LATEST.tell(port)
