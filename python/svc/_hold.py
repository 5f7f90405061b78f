"""Holds a control plane that one of its callers started: it runs as long as any caller holds it.

A hold is an answer that stays open (``GET /v1/hold``). When this process ends, for any reason, the system closes
it: nothing has to be renewed or cleaned up.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from svc import _http
from svc._errors import SvcError

_TAKE_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Released:
    """The result of a release: whether the control plane ends with it, and the number of other holders."""

    ending: bool
    holders: int


class Hold:
    """One hold of this process. Raises ``SvcError`` with the code ``shutting_down`` if the control plane is ending."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._stream = _http.ByteStream(port, "/v1/hold", _TAKE_SECONDS_MAX)
        self._said = b""
        said = self._line(_TAKE_SECONDS_MAX)
        if said is None or not isinstance(said.get("hold"), str):
            self._stream.close()
            raise _http.unreachable(port, "it took too long")
        self.id: str = said["hold"]
        self.ends_with_holders: bool = said.get("ends_with_holders") is True

    def release(self, starter: bool) -> Released | None:
        """Release the hold, and return whether it was the last one; None if the control plane no longer answers.

        :param starter: this process is the one that started the control plane.
        """
        try:
            said = _http.call(self.port, "POST", f"/v1/hold/{self.id}/release", {"starter": starter}, seconds=20.0)
        except SvcError:
            return None
        return Released(bool(said.get("ending")), int(said.get("holders", 0)))

    def is_over(self) -> bool:
        """Whether the control plane has ended, with or without its last message: another program may have its port by now."""
        return self._stream.has_more()

    def farewell(self, seconds: float) -> dict[str, Any] | None:
        """Waits for the end of the control plane, and returns its last message: ``unfinished`` and ``kept``, lists
        of job ids. Empty if it ended without a message; None if it has not ended after ``seconds``."""
        return self._line(seconds)

    def close(self) -> None:
        """Releases the hold by closing. Safe to repeat."""
        self._stream.close()

    def abandon(self) -> None:
        """In a forked child: closes the child's copy and leaves the parent's hold alone."""
        self._stream.abandon()

    def _line(self, seconds: float) -> dict[str, Any] | None:
        """The next line; empty at the end; None if none arrives within ``seconds``."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._stream.patience(left)
            try:
                part = self._stream.read()
            except _http.Unreachable:
                return {}
            if part is None:
                return None
            if not part:
                return {}
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        try:
            value = json.loads(line)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}
