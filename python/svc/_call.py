"""Calls of the control plane of this home (``SVC_HOME``), and the checks that many functions share.

C1. If no control plane runs, ``call`` starts one; it ends with the last process that uses it, like an interrupted control plane.
C2. A call whose answer was lost is retried: submissions carry a key, so that a retry never starts a second run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from svc import _http, _registry
from svc._control_plane import PLANES
from svc._errors import ConfigError
from svc._records import Job

LOST_SECONDS_MAX = 60.0
# The pause between two questions, in seconds: the first one, and the longest one.
POLL_SECONDS = (0.05, 0.5)


def call(
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = _http.CALL_SECONDS_MAX,
) -> Any:
    """One call, whose answer may take ``seconds``; retried (C2) while the control plane does not answer, for at most a minute."""
    check_json(body or {})
    deadline = time.monotonic() + LOST_SECONDS_MAX
    while True:
        port = PLANES.port()
        try:
            _registry.tell(port)
            return _http.call(port, method, path, body, headers, seconds)
        except _http.Unreachable:
            PLANES.forget(port)
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS[0])


def quoted(job_id: str) -> str:
    """The id for a path of the API."""
    return quote(checked_id(job_id), safe="")


def checked_id(job_id: str) -> str:
    if isinstance(job_id, Job):
        raise bad_field("job_id", f'must be the id of a job, not the Job: "{job_id.id}", as job.id is')
    if not isinstance(job_id, str) or not job_id:
        raise bad_field("job_id", "must be the id of a job, as job.id is")
    return job_id


def word_list(name: str, given: Sequence[str]) -> list[str]:
    """A list; a plain text, which is a sequence of letters, was meant as one word."""
    if isinstance(given, str):
        raise ConfigError("invalid_request", f'{name} must be a list: {name}=["{given}"].')
    try:
        return list(given)
    except TypeError:
        raise bad_field(name, f"must be a list, not {type(given).__name__}") from None


def is_finite(value: object) -> bool:
    """Whether it is a number that a limit can have."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_json(fields: Mapping[str, Any]) -> None:
    """Raises ``ConfigError`` for the first field that cannot be sent."""
    for name, value in fields.items():
        fault = _http.json_fault(value)
        if fault is not None:
            raise bad_field(name, fault)


def bad_field(field: str, message: str) -> ConfigError:
    return ConfigError("invalid_request", f"{field} {message}.", "Nothing was started or changed.", [(field, message)])
