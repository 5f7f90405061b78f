"""The errors a caller may see: one family, each with a code for programs and a hint for people."""

from __future__ import annotations

import functools
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def plain(words: str) -> str:
    """Text for one line of a terminal, without characters that it obeys: some text is from a provider or a machine."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+", " ", words).strip()


class SvcError(Exception):
    """A failed call.

    :ivar code: stable, snake_case; the control plane's own code if it answered.
    :ivar message: what happened, and what it means for the machine and the money.
    :ivar hint: what to do.
    :ivar errors: for a refused request, ``(field, message)`` pairs that name what to correct.
    """

    code: str
    message: str
    hint: str
    errors: tuple[tuple[str, str], ...]

    def __init__(self, code: str, message: str, hint: str = "", errors: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(code, message, hint, tuple(errors))
        self.code = code
        self.message = message
        self.hint = hint
        self.errors = tuple(errors)

    def __str__(self) -> str:
        # The control plane's summary may already contain a field's error.
        said_of = {(f, t) for f, t in self.errors if t == self.message or (f in self.message and t in self.message)}
        fields = "; ".join(f"{field}: {text}" for field, text in self.errors if (field, text) not in said_of)
        said = f"{self.message} ({fields})" if fields else self.message
        return plain(f"{said} {self.hint}") + f" [{self.code}]"

    def _render_traceback_(self) -> list[str]:
        """The traceback in a notebook: the caller's lines alone; ``SVC_DEBUG=1`` shows all."""
        lines = "".join(traceback.format_exception(type(self), self, self.__traceback__)).splitlines()
        if os.environ.get("SVC_DEBUG") == "1":
            return lines
        own = (os.path.dirname(os.path.abspath(__file__)) + os.sep, f"{os.sep}IPython{os.sep}")
        frames = [frame for frame in traceback.extract_tb(self.__traceback__) if not any(part in frame.filename for part in own)]
        shown = "".join(traceback.format_list(frames)) + "".join(traceback.format_exception_only(type(self), self))
        return ["Traceback (most recent call last):", *shown.splitlines()]


class ConfigError(SvcError):
    """A parameter, the registry or the home is invalid. Nothing was started."""


class CredentialError(SvcError):
    """A credential is missing or was refused."""


class PriceCapExceeded(SvcError):
    """Everything on offer costs more than ``price_cap``: ``plan`` and the record of a run say so. Nothing was rented."""


class UnsupportedError(SvcError):
    """The provider, or this version, cannot do this. Nothing was started."""


class ProvisionError(SvcError):
    """The provider failed to give a machine, or its answer was lost."""


class JobNotFound(SvcError):
    """There is no such job in this home."""


class ExtraMissing(SvcError):
    """An optional part is not installed; the hint names the pip extra."""


class WaitTimeout(SvcError, TimeoutError):
    """``wait`` timed out. The run continues, and its machine may cost money."""


# A traceback shows the name that a caller catches: ``svc.JobNotFound``.
for _kind in (SvcError, *SvcError.__subclasses__()):
    _kind.__module__ = "svc"

_CLASSES: dict[str, type[SvcError]] = {
    "job_not_found": JobNotFound,
    "job_removed": JobNotFound,
    "price_cap_exceeded": PriceCapExceeded,
    "unauthorized": CredentialError,
    "provider_unavailable": CredentialError,
    "account_unproven": CredentialError,
    "nodes_unsupported": UnsupportedError,
    "gpus_unsupported": UnsupportedError,
    "spot_unsupported": UnsupportedError,
    "feature_unavailable": UnsupportedError,
    "provider_error": ProvisionError,
    "provider_refused": ProvisionError,
    "outcome_unknown": ProvisionError,
    "extra_missing": ExtraMissing,
    "hub_token_refused": CredentialError,
    "hub_gated": CredentialError,
    "hub_folder_refused": ConfigError,
    "hub_nothing_matches": ConfigError,
    "job_ambiguous": ConfigError,
    "usage": ConfigError,
    "home_unusable": ConfigError,
    "user_home_unknown": ConfigError,
    "idempotency_conflict": ConfigError,
    "project_dir_refused": ConfigError,
    "budget_too_small": ConfigError,
    "budget_rate_unknown": ConfigError,
    "limit_never_fits": ConfigError,
    "limit_cost_unknown": ConfigError,
    "resume_unavailable": ConfigError,
    "data_unavailable": ConfigError,
    "python_refused": ConfigError,
    "unknown_gpu": ConfigError,
}
_BEGINNINGS: dict[str, type[SvcError]] = {
    "credential_": CredentialError,
    "entrypoint_": ConfigError,
    "invalid_": ConfigError,
    "extra_": ExtraMissing,
}


def short_traceback(function: _F) -> _F:
    """A refusal shows the caller's line and not the frames of this package; ``SVC_DEBUG=1`` shows all."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest leaves this frame out as well
        try:
            return function(*args, **kwargs)
        except SvcError as error:
            if os.environ.get("SVC_DEBUG") == "1":
                raise
            raise error.with_traceback(None) from None

    return call  # type: ignore[return-value]


def error_class(code: str) -> type[SvcError]:
    """The class for a code; codes of a newer control plane fall back to ``SvcError``."""
    known = _CLASSES.get(code)
    if known is not None:
        return known
    return next((kind for start, kind in _BEGINNINGS.items() if code.startswith(start)), SvcError)


def make_error(code: str, message: str, hint: str = "", errors: Sequence[tuple[str, str]] = ()) -> SvcError:
    """The error of the right class for ``code``."""
    return error_class(code)(code, message, hint, errors)


def from_problem(status: int, problem: object) -> SvcError:
    """An error from an ``application/problem+json`` body, or from any other answer."""
    if not isinstance(problem, Mapping):
        return SvcError("bad_answer", f"The control plane answered with status {status} and no usable body.", "See its log.")
    body: Mapping[str, Any] = problem
    fields = [
        (str(entry.get("field", "")), str(entry.get("message", ""))) for entry in body.get("errors") or [] if isinstance(entry, Mapping)
    ]
    code = str(body.get("code") or f"http_{status}")
    message = str(body.get("detail") or body.get("message") or body.get("title") or f"Status {status}.")
    return make_error(code, message, str(body.get("hint") or ""), fields)
