"""Calls to the control plane over loopback.

H1. Connections only go to 127.0.0.1, and no proxy variable is read: ``http.client`` does not support them.
H2. The caller retries idempotent calls (all of them are: POST /jobs carries its Idempotency-Key).
H3. Every wait has an end.
H4. If the system cannot tell the control plane which user is connected (macOS), it requires the token of the home.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from svc._errors import ConfigError, SvcError, from_problem

CALL_SECONDS_MAX = 60.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024


# Homes that SVC_HOME names by a relative path, from the folder of the first call: a script that then changes its folder keeps its home.
_RELATIVE: dict[str, Path] = {}


def home() -> Path:
    """The home of the control plane: ``SVC_HOME``, or ``~/.svc``. Raises ``ConfigError`` if this user's home is unknown."""
    named = os.environ.get("SVC_HOME")
    try:
        path = Path(named).expanduser() if named else Path.home() / ".svc"
        if named is None or path.is_absolute():
            return path
        if named not in _RELATIVE:
            _RELATIVE[named] = path.absolute()
        return _RELATIVE[named]
    except RuntimeError:
        raise ConfigError(
            "user_home_unknown",
            f"The home folder of this user (uid {os.getuid()}) is unknown: HOME is not set, and the system's list of "
            "users has no entry for it.",
            "Set HOME to a folder of this user, or SVC_HOME to the folder where svc keeps its state. Nothing was changed.",
        ) from None
    except OSError as error:
        raise ConfigError(
            "home_unusable",
            f"The home {named} cannot be used: it is a relative path, and the current folder is gone ({error.strerror}).",
            "Set SVC_HOME to an absolute path. Nothing was changed.",
        ) from error


_LATE = "it took too long"
_SLOW = "It may only be slow, and still do what was asked: look with `svc jobs` before you call again."
_GONE = "Runs that were started may continue and cost money. `svc serve` starts a control plane, which resumes them."


class Unreachable(SvcError):
    """No answer arrived; whether the call took effect is unknown."""


def port_of(url: object) -> int | None:
    """The port of a loopback address like ``http://127.0.0.1:8780``; None for any other address."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return port if parts.scheme == "http" and parts.hostname == "127.0.0.1" and port else None


def unreachable(port: int, why: object) -> Unreachable:
    """The error for a call without an answer."""
    hint = _SLOW if why == _LATE else _GONE
    return Unreachable("unreachable", f"No control plane answers at http://127.0.0.1:{port}: {why}.", hint)


def json_fault(value: object) -> str | None:
    """Why a value cannot be sent: it has NaN, an infinity or an object that JSON does not have. None if it can."""
    strangers: list[object] = []
    try:
        json.dumps(value, allow_nan=False, default=strangers.append)
    except (TypeError, ValueError, RecursionError) as error:
        if "Out of range float" in str(error):
            return "must be finite: NaN and infinities cannot be sent"
        return f"cannot be sent: {error}"
    return f"must consist of text, numbers, lists and dicts, but contains a {type(strangers[0]).__name__}" if strangers else None


def call(
    port: int,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = CALL_SECONDS_MAX,
) -> Any:
    """One call with a JSON answer. Raises ``Unreachable``, or the error in the answer."""
    sent = dict(headers or {})
    data = None
    if body is not None:
        data = json.dumps(body, allow_nan=False).encode()
        sent["Content-Type"] = "application/json"
    status, raw = _ask(port, method, path, data, sent, seconds)
    token = _token() if status == 401 else None
    if token is not None:
        status, raw = _ask(port, method, path, data, {**sent, "Authorization": f"Bearer {token}"}, seconds)
    return _parsed(status, raw)


def _ask(port: int, method: str, path: str, data: bytes | None, headers: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, path, body=data, headers=dict(headers))
        response = connection.getresponse()
        raw = response.read(ANSWER_BYTES_MAX)
        if response.length and len(raw) < ANSWER_BYTES_MAX:
            raise http.client.IncompleteRead(raw, response.length)
        return response.status, raw
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(port, _reason(error)) from error
    finally:
        connection.close()


def _token() -> str | None:
    """The bearer token of the home, if it has one."""
    try:
        return (home() / "token").read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


class ByteStream:
    """An open answer that is read as it arrives; ``close`` from another thread wakes the reader."""

    def __init__(self, port: int, path: str, idle_seconds: float) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=idle_seconds)
        self._socket: socket.socket | None = None
        try:
            self._response = self._open(path, {})
            token = _token() if self._response.status == 401 else None
            if token is not None:
                self._connection.close()
                self._response = self._open(path, {"Authorization": f"Bearer {token}"})
            if self._response.status >= 300:
                raise _failure(self._response.status, self._response.read(ANSWER_BYTES_MAX))
            self._left = self._response.length
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise unreachable(port, _reason(error)) from error
        except BaseException:
            self._connection.close()
            raise

    def _open(self, path: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        self._connection.request("GET", path, headers=dict(headers))
        self._socket = self._connection.sock
        return self._connection.getresponse()

    def read(self) -> bytes | None:
        """Received bytes, at least one; empty at the end; None if nothing arrived for ``idle_seconds``, after which
        the connection cannot be used any more. Raises ``Unreachable`` when it is cut."""
        if self._left == 0:
            return b""
        try:
            part = self._response.read1(65_536)
            if self._left is not None:
                # The response itself treats a cut connection as the end of the announced body.
                if not part:
                    raise http.client.IncompleteRead(b"", self._left)
                self._left -= len(part)
            return part
        except TimeoutError:
            return None
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            # A response that was closed meanwhile raises ValueError or AttributeError.
            raise unreachable(self._port, _reason(error)) from error

    def patience(self, seconds: float) -> None:
        """How long the next ``read`` may wait."""
        held = self._socket
        if held is not None:
            try:
                held.settimeout(seconds)
            except OSError:  # closed by another thread: the next `read` reports it
                pass

    def has_more(self) -> bool:
        """Whether bytes or the end of the answer have arrived that were not read. Does not wait."""
        if self._socket is None:
            return True
        try:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        except OSError:
            return True

    def abandon(self) -> None:
        """Closes this process's end and leaves the connection, which a parent process shares, open."""
        self._socket = None
        self._connection.close()

    def close(self) -> None:
        """Ends the connection. Safe to repeat."""
        held, self._socket = self._socket, None
        if held is not None:
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:  # it had ended already
                pass
        self._connection.close()


def _parsed(status: int, raw: bytes) -> Any:
    if status >= 300:
        raise _failure(status, raw)
    try:
        return json.loads(raw) if raw else None
    except ValueError as error:
        raise SvcError("bad_answer", "The control plane's answer is not JSON.", "Is another program on that port?") from error


def _failure(status: int, raw: bytes) -> SvcError:
    try:
        return from_problem(status, json.loads(raw))
    except ValueError:
        return from_problem(status, None)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return _LATE
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
