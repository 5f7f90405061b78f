"""Models of the hub: downloaded into a folder of this computer, or adopted from the disk.

The control plane of this home does the work (one is started if none runs): identical requests share one pull, which
survives lost connections and resumes where it stopped. See docs/reference/models.md.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO
from urllib.parse import quote

from svc._call import call
from svc._errors import ConfigError, make_error, short_traceback

__all__ = ["Model", "from_local", "models", "pull", "remove"]

_POLL_SECONDS = (0.05, 0.5)


@dataclass(frozen=True)
class Model:
    """A model on this computer. ``bytes`` is its size; ``source`` is ``folder``, ``cache`` or ``adopted``."""

    model_id: str | None
    path: str
    revision: str | None
    files: int
    bytes: int
    pulled_at: str | None
    source: str


@short_traceback
def pull(
    model_id: str,
    *,
    revision: str | None = None,
    local_dir: str | os.PathLike[str] | None = None,
    allow_patterns: Sequence[str] | str | None = None,
    token: str | None = None,
) -> str:
    """Download a model and return its folder when it is complete.

    :param model_id: ``owner/name``, as on the model's page.
    :param revision: a branch, a tag or a commit; the main branch by default.
    :param local_dir: the folder of the model; by default the configured cache directory, else ``models/<model_id>``
    in the home.
    :param allow_patterns: shell patterns on whole paths (``*`` crosses ``/``); files that match any are downloaded.
    :param token: replaces the configured token for this pull. It is not stored.

    Existing files are not downloaded again. Raises ``SvcError``: ``hub_model_not_found`` (also for a private one),
    ``hub_gated``, ``hub_token_refused``, ``hub_no_room`` and others of docs/reference/errors.md; ``ExtraMissing``
    without the hub extra.
    """
    body: dict[str, Any] = {"model_id": model_id, "revision": revision, "token": token}
    if local_dir is not None:
        body["local_dir"] = _absolute("local_dir", local_dir)
    if allow_patterns is not None:
        body["allow_patterns"] = allow_patterns if isinstance(allow_patterns, str) else list(allow_patterns)
    inside = _working_folder_in(body.get("local_dir"))
    state: Mapping[str, Any] = call("POST", "/v1/hub/pull", body)["pull"]
    line = _Line(sys.stderr)
    pause, pause_max = _POLL_SECONDS
    try:
        while state["status"] == "running":
            line.show(state)
            time.sleep(pause)
            pause = min(pause * 1.5, pause_max)
            state = call("GET", f"/v1/hub/pulls/{quote(str(state['id']), safe='')}")["pull"]
    finally:
        line.close()
    if state["status"] == "succeeded":
        if inside is not None:
            _return_to(inside)
        return str(state["path"])
    error = state.get("error") or {}
    raise make_error(
        str(error.get("code") or "hub_pull_ended"),
        str(error.get("message") or f"The pull of {model_id} ended as {state['status']}."),
        str(error.get("hint") or "Pull it again: the downloaded part is kept."),
    )


@short_traceback
def from_local(path: str | os.PathLike[str]) -> str:
    """Adopt a model on the disk and return its folder, absolute and with symlinks resolved.

    Its files are checked first. Raises ``SvcError`` (``hub_model_unusable``), which names everything that is
    missing: weights, parts of them, the configuration, pointers of git-lfs in place of files. Nothing is copied or
    changed.
    """
    found = call("POST", "/v1/hub/models", {"path": _absolute("path", path)})
    for warning in found.get("warnings", ()):
        print(f"svc: {found['path']}: {warning}", file=sys.stderr)
    return str(found["path"])


@short_traceback
def models() -> list[Model]:
    """The models on this computer: downloaded, cached and adopted."""
    known = Model.__dataclass_fields__
    return [
        Model(**{name: record.get(name) for name in known})  # a newer control plane may send more fields
        for record in call("GET", "/v1/hub/models")["models"]
    ]


@short_traceback
def remove(model_id: str) -> list[str]:
    """Delete svc's copies of a model and return the deleted folders. A ``local_dir`` that you chose yourself stays.

    Raises ``SvcError``: ``hub_model_not_here``, or ``hub_model_in_use`` during a pull.
    """
    if not isinstance(model_id, str) or not model_id:
        message = "must be the name of a model, as svc.hub.models() lists it"
        raise ConfigError("invalid_request", f"model_id {message}.", "Nothing was deleted.", [("model_id", message)])
    return list(call("DELETE", f"/v1/hub/models/{quote(model_id)}")["removed"])


def _working_folder_in(folder: str | None) -> str | None:
    """The current folder, if it is this one or below it."""
    try:
        here = os.getcwd()
        return here if folder is not None and os.path.commonpath([here, os.path.realpath(folder)]) == os.path.realpath(folder) else None
    except (OSError, ValueError):  # gone already, or on another drive
        return None


def _return_to(here: str) -> None:
    """A pull puts a new folder in the place of the former one: a caller that works there would be left in a deleted folder."""
    try:
        if not os.path.samefile(os.curdir, here):
            os.chdir(here)
    except OSError:
        pass


def _absolute(field: str, path: str | os.PathLike[str]) -> str:
    try:
        return os.path.abspath(os.path.expanduser(os.fsdecode(path)))
    except (TypeError, OSError) as error:
        message = f"cannot be used: {error}"
        raise ConfigError("invalid_request", f"{field} {message}.", "Nothing was started.", [(field, message)]) from error


class _Line:
    """One progress line on a terminal; elsewhere one line for each problem, such as a hub that refuses the
    connection."""

    def __init__(self, stream: TextIO | None) -> None:
        quiet = os.environ.get("SVC_PROGRESS", "").lower() in ("0", "off", "no", "false")
        self._stream = stream if stream is not None and not quiet else None
        self._terminal = self._stream is not None and self._stream.isatty()
        self._shown = False
        self._trouble = ""

    def show(self, pull: Mapping[str, Any]) -> None:
        if self._stream is None:
            return
        try:
            if not self._terminal:
                trouble = str((pull.get("note") or {}).get("message") or "")
                if trouble and trouble != self._trouble:
                    self._trouble = trouble
                    self._stream.write(f"svc: {_words(pull)[:400]}\n")
                    self._stream.flush()
                return
            self._stream.write("\r\x1b[K" + _words(pull)[:200])
            self._stream.flush()
            self._shown = True
        except (OSError, ValueError):
            self._stream = None

    def close(self) -> None:
        if self._stream is not None and self._shown:
            try:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            except (OSError, ValueError):
                pass


def _words(pull: Mapping[str, Any]) -> str:
    note = pull.get("note")
    words = f"{pull['model_id']}: {note['message'] if note else pull.get('phase') or ''}"
    if note and note.get("retry_in_seconds"):
        words += f" Retrying in {note['retry_in_seconds']} s."
    total, done, speed = pull.get("bytes_total"), pull.get("bytes_done") or 0, pull.get("bytes_per_second")
    if total:
        words += f"  {done / 1e9:.2f} of {total / 1e9:.2f} GB ({100 * done // total} %)"
    if speed:
        words += f"  {speed / 1e6:.1f} MB/s"
    return "".join(c for c in words if c.isprintable())
