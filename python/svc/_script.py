"""The half of the package that training scripts use: metrics and checkpoints.

S1. Python 3.8 or newer, standard library only, and only modules that cost next to nothing to import.
S2. ``log`` and ``checkpoint`` never raise and never block longer than a second: training comes first.
S3. A record is one ``os.write`` of at most 4096 bytes, which pipes and append-only files take whole. Unbuffered ``print``
    writes text and newline apart, and lines of several processes then mix.
S4. The mark in front of a record is random per run, so that data that is printed cannot pass for a metric.
S5. What was dropped leaves a gap in ``n`` and one line on stderr.
"""

from __future__ import annotations

import _thread
import os
import select
import sys
import time
from itertools import count

try:
    from _json import encode_basestring_ascii as _quote
except ImportError:  # an interpreter without the C helper
    from json.encoder import py_encode_basestring_ascii as _quote


TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, List, Mapping, Optional, SupportsFloat, Tuple, Type, Union

    StrPath = Union[str, "os.PathLike[str]"]

_LINE_BYTES_MAX = 4096
_WAIT_SECONDS_MAX = 1.0
_NAMES_MAX = 4096
_INDEX = ".svc-checkpoints.json"
_LOCAL_DIR = "checkpoints-local"
_FINITE_MAX = 1.7976931348623157e308
_SAFE_INT_MAX = 2**53


class _State:
    """What one process knows; made anew in a forked child, which counts for itself."""

    def __init__(self) -> None:
        mark = os.environ.get("SVC_METRICS_MARK", "")
        # A mark with a space or a line end in it could not be found again by the reader.
        self.head = ("\x1esvc1:" + mark + " ") if mark and mark.isprintable() and " " not in mark else ""
        rank = os.environ.get("RANK", "").strip()
        self.rank = int(rank) if rank.isdecimal() else 0
        # Counters of C: one step each, so threads never share a number.
        self.next_n = count(1).__next__
        self.next_step = count(0).__next__
        self.off = False
        self.torn = False
        self.dropped = 0
        self.names = {}  # type: dict[str, str]
        self.warned = set()  # type: set[str]


_state = None  # type: Optional[_State]
_making = _thread.allocate_lock()


def _forget() -> None:
    global _state, _making
    _state = None
    _making = _thread.allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _this() -> _State:
    global _state
    with _making:
        if _state is None:
            _state = _State()
        return _state


def _writable(fd: int, seconds: float) -> bool:
    """Whether a write to ``fd`` would not block, waiting for it at most so long. (A poll object is not for several threads.)"""
    try:
        return bool(select.select((), (fd,), (), seconds)[1])
    except (OSError, ValueError):  # closed, or no socket on Windows: the write itself tells
        return True


def log(values: Mapping[str, SupportsFloat], step: Optional[int] = None, all_ranks: bool = False) -> None:
    """Record metrics of the run: they are stored, charted on the run's page and kept out of its log.

    :param values: name to number. ``bool`` becomes 0 or 1, NumPy scalars and one-element tensors are read by ``.item()``;
        NaN and infinities are kept. Anything else is left out, with one warning per name on stderr.
    :param step: where the values belong on the x axis; ``None`` counts this process's own calls from 0.
    :param all_ranks: in a data-parallel job only rank 0 (``RANK``) records, unless this is true.

    Never raises and never blocks longer than a second; some 5 µs a call. Outside a job it prints a short line instead.
    """
    try:
        state = _state or _this()
        if state.rank and not all_ranks:
            return
        if step is None:
            at_text = str(state.next_step())
        else:
            at_text = _step_text(state, step)
        if state.head:
            _log_in_job(state, values, at_text)
        else:
            _log_outside(state, values, at_text)
    except Exception as error:  # S2
        _warn("log", "svc.log: the call was left out: {!r}".format(error))


def _log_in_job(state: _State, values: Mapping[str, Any], at: str) -> None:
    n = state.next_n()
    head = '%s{"k":"m","n":%d,"s":%s,"t":%.3f,"r":%d,"m":{' % (state.head, n, at, time.time(), state.rank)
    room = _LINE_BYTES_MAX - len(head) - 3
    names = state.names
    parts = []  # type: List[str]
    used = 0
    for name, value in values.items():
        quoted = names.get(name) if type(name) is str else None
        if quoted is None:
            quoted = _name(state, name)
            if quoted is None:
                continue
        if type(value) is float and -_FINITE_MAX <= value <= _FINITE_MAX:
            number = repr(value)
        else:
            text = _number(value)
            if text is None:
                _warn(
                    "value " + quoted,
                    "svc.log: {} is left out: a number is needed, not {}".format(quoted, type(value).__name__),
                )
                continue
            number = text
        part = quoted + ":" + number
        if used + len(part) + 1 > room:
            if len(part) + 1 > room:
                _warn("long " + quoted[:64], "svc.log: {}… is left out: the name is too long".format(quoted[:64]))
                continue
            if parts:
                _emit(state, head + ",".join(parts) + "}}\n")
            parts = []
            used = 0
        parts.append(part)
        used += len(part) + 1
    if parts:
        _emit(state, head + ",".join(parts) + "}}\n")


def _log_outside(state: _State, values: Mapping[str, Any], at: str) -> None:
    words = []
    for name, value in values.items():
        number = _number(value)
        if number is None:
            _warn("value " + str(name), "svc.log: {!r} is left out: a number is needed, not {}".format(name, type(value).__name__))
        else:
            words.append("{}={}".format(name, number.strip('"') if len(number) < 9 else "{:.5g}".format(float(number.strip('"')))))
    sys.stdout.write("[svc] step {}: {}\n".format(at, " ".join(words)))
    sys.stdout.flush()


def _name(state: _State, name: Any) -> Optional[str]:
    """The name as a JSON string, in ASCII: a line never ends inside a character."""
    if not isinstance(name, str):
        _warn("name " + repr(name)[:200], "svc.log: {!r} is left out: names must be strings".format(name))
        return None
    quoted = _quote(name.encode("utf-8", "replace").decode("utf-8"))  # lone surrogates have no place in UTF-8
    if len(state.names) < _NAMES_MAX:
        state.names[str(name)] = quoted
    return quoted


def _number(value: Any) -> Optional[str]:
    """The number as strict JSON, or None where there is none."""
    if not isinstance(value, (bool, int, float)):
        item = getattr(value, "item", None)
        if item is None:
            return None
        try:
            value = item()
        except Exception:  # several elements, a tensor without data, …
            return None
        if not isinstance(value, (bool, int, float)):
            return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        if -_SAFE_INT_MAX <= value <= _SAFE_INT_MAX:
            return int.__repr__(value)
        try:
            value = float(value)
        except OverflowError:
            return '"Infinity"' if value > 0 else '"-Infinity"'
    if value != value:
        return '"NaN"'
    if value > _FINITE_MAX:
        return '"Infinity"'
    if value < -_FINITE_MAX:
        return '"-Infinity"'
    return float.__repr__(value)


def _step_text(state: _State, step: Any) -> str:
    text = int.__repr__(step) if type(step) is int else _number(step)
    if text is None or text[0] == '"' or len(text) > 20:
        _warn("step", "svc: step {!r} is not a usable number; calls are counted instead".format(step))
        text = str(state.next_step())
    return text


def _emit(state: _State, line: str) -> None:
    """One record in one write (S3), after what the script printed before it."""
    if state.off:
        return
    if state.torn:
        line = "\n" + line
    data = line.encode("ascii", "replace")
    if not _writable(1, 0) and not _writable(1, _WAIT_SECONDS_MAX):
        state.dropped += 1
        return
    try:
        sys.stdout.flush()
    except Exception:  # closed, replaced, or interrupted in the middle: the record has its own way out
        pass
    deadline = 0.0
    while data:
        try:
            data = data[os.write(1, data) :]
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + _WAIT_SECONDS_MAX
            if now >= deadline:
                state.dropped += 1
                state.torn = state.torn or len(data) < len(line)
                return
            _writable(1, deadline - now)
        except OSError as error:
            if isinstance(error, BrokenPipeError) or error.errno == 9:  # EBADF: nobody will ever read this
                state.off = True
            else:
                state.dropped += 1
                state.torn = state.torn or len(data) < len(line)
            return
    state.torn = False
    if state.dropped:
        lost, state.dropped = state.dropped, 0
        _say("svc.log: {} record(s) were dropped, because nobody took the output in time or the disk was full".format(lost))


def _warn(key: str, text: str) -> None:
    """Once per key."""
    try:
        warned = _this().warned
        if key not in warned and len(warned) < _NAMES_MAX:
            warned.add(key)
            _say(text)
    except Exception:  # S2
        pass


def _say(text: str) -> None:
    try:
        if not _writable(2, _WAIT_SECONDS_MAX):
            return
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except Exception:  # no stderr, no words
        pass


def checkpoint_dir() -> str:
    """The directory whose files are brought home during the run and at its end; it is created.

    Equal to ``SVC_CHECKPOINT_DIR``. Outside a job it is ``checkpoints-local`` in the current directory, as an absolute path,
    so that a script behaves the same when you try it by hand. Raises ``OSError`` where it cannot be created.
    """
    path = os.environ.get("SVC_CHECKPOINT_DIR")
    if not path:
        path = os.path.abspath(_LOCAL_DIR)
        if not os.path.isdir(path):
            _warn("local", "svc: not in a job, so checkpoints go to {}".format(path))
    os.makedirs(path, exist_ok=True)
    return path


def _inside(path: StrPath) -> Tuple[str, Optional[str]]:
    """The full path (relative ones lie in the checkpoint directory), and its name there or None when it is outside."""
    root = checkpoint_dir()
    full = os.path.normpath(os.path.join(root, os.fspath(path)))
    name = os.path.relpath(os.path.realpath(full), os.path.realpath(root))
    outside = name == os.pardir or name == os.curdir or name.startswith(os.pardir + os.sep) or os.path.isabs(name)
    return full, None if outside else name.replace(os.sep, "/")


def checkpoint(path: StrPath, step: Optional[int] = None) -> None:
    """Say that the checkpoint at ``path`` (a file or a directory) is complete: it is fetched at once and may be resumed from.

    :param path: inside ``checkpoint_dir()``; a relative path is taken from there.
    :param step: the training step that it belongs to.

    Never raises; what cannot be announced (missing, outside) is said once on stderr.
    """
    try:
        full, name = _inside(path)
        if name is None:
            _warn("outside", "svc.checkpoint: {} is outside of {}, so it is not saved".format(full, checkpoint_dir()))
            return
        if not os.path.exists(full):
            _warn("missing", "svc.checkpoint: there is nothing at {}".format(full))
            return
        state = _this()
        at = "null" if step is None else _step_text(state, step)
        quoted = _quote(name.encode("utf-8", "replace").decode("utf-8"))
        _write_index(quoted, at)
        if not state.head:
            return
        line = '%s{"k":"c","n":%d,"s":%s,"t":%.3f,"r":%d,"path":%s}\n' % (
            state.head, state.next_n(), at, time.time(), state.rank, quoted,
        )
        if len(line) > _LINE_BYTES_MAX:
            _warn("long path", "svc.checkpoint: the path {} is too long to announce".format(full))
        else:
            _emit(state, line)
    except Exception as error:  # S2
        _warn("checkpoint", "svc.checkpoint: the call was left out: {!r}".format(error))


def _write_index(quoted: str, at: str) -> None:
    """Remember the last announced checkpoint beside it, for a later process that resumes."""
    index = os.path.join(checkpoint_dir(), _INDEX)
    temporary = "{}.{}.tmp".format(index, os.getpid())
    with open(temporary, "w", encoding="ascii") as file:
        file.write('{"path":%s,"step":%s}\n' % (quoted, at))
    os.replace(temporary, index)


def latest_checkpoint() -> Optional[str]:
    """The full path of the checkpoint to continue from (a file or a directory), or None when the run starts afresh.

    First what was last announced in this checkpoint directory; then the newest of what ``resume_from`` put there and of the
    checkpoints that common frameworks complete by themselves (``.ckpt``, ``.pt``, ``.keras`` and ``.safetensors`` files,
    directories with ``.metadata`` or ``trainer_state.json``). Files with temporary names are never returned.
    """
    root = checkpoint_dir()
    announced = _announced(root)
    if announced is not None:
        return announced
    candidates = []
    resumed = os.environ.get("SVC_RESUME_FROM")
    if resumed:
        full = os.path.join(root, resumed)
        if os.path.exists(full):
            candidates.append(full)
    with os.scandir(root) as entries:
        for entry in entries:
            if _looks_complete(entry):
                candidates.append(entry.path)
    return max(candidates, key=_changed_at, default=None)


def _announced(root: str) -> Optional[str]:
    import json

    try:
        with open(os.path.join(root, _INDEX), encoding="ascii") as file:
            full, name = _inside(json.load(file)["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return full if name is not None and os.path.exists(full) else None


def _looks_complete(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if name.startswith(("tmp-", ".svc-")) or name.endswith((".tmp", ".partial")):
        return False
    if entry.is_file():
        return name.endswith((".ckpt", ".pt", ".keras", ".safetensors"))
    if not entry.is_dir() or os.path.exists(os.path.join(entry.path, "checkpoint-is-incomplete.txt")):
        return False
    return any(os.path.exists(os.path.join(entry.path, sign)) for sign in (".metadata", "trainer_state.json"))


def _changed_at(path: str) -> float:
    newest = os.stat(path).st_mtime
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            newest = max([newest] + [entry.stat(follow_symlinks=False).st_mtime for entry in entries])
    return newest


class atomic_save:
    """Save a checkpoint that is either whole or not there, and announce it.

    ::

        with svc.atomic_save("epoch-3.pt", step=3) as path:
            torch.save(model.state_dict(), path)

    The body writes to ``path``, a temporary name with the same ending in the same folder, a file or a directory. When it
    ends well, everything is flushed to disk, renamed to its real name and announced by ``checkpoint``. When it raises,
    nothing of it is left and the former checkpoint stays. A relative name lies in ``checkpoint_dir()``; its folders are made.
    Raises ``OSError`` where the disk refuses, ``FileNotFoundError`` when the body wrote nothing.
    """

    def __init__(self, path: StrPath, step: Optional[int] = None) -> None:
        self._target, self._name = _inside(path)
        self._step = step
        folder, name = os.path.split(self._target)
        self._folder = folder
        self._temporary = os.path.join(folder, "tmp-{}-{}-{}".format(os.getpid(), time.monotonic_ns(), name))

    def __enter__(self) -> str:
        os.makedirs(self._folder, exist_ok=True)
        return self._temporary

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            if kind is not None:
                return
            if not os.path.exists(self._temporary):
                raise FileNotFoundError(2, "atomic_save: the body wrote nothing to", self._temporary)
            _sync_tree(self._temporary)
            self._put()
            _sync_path(self._folder)
        finally:
            _remove(self._temporary)
        if self._name is not None:
            checkpoint(self._target, self._step)

    def _put(self) -> None:
        if not os.path.isdir(self._temporary) or not os.path.isdir(self._target):
            os.replace(self._temporary, self._target)
            return
        # A directory cannot replace one that holds files: for a moment the old one has another name.
        old = self._temporary + ".old.tmp"
        os.replace(self._target, old)
        try:
            os.replace(self._temporary, self._target)
        except OSError:
            os.replace(old, self._target)
            raise
        _remove(old)


def _sync_path(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:  # a folder cannot be opened everywhere
        if os.path.isdir(path):
            return
        raise
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_tree(path: str) -> None:
    if os.path.isdir(path):
        for folder, _, names in os.walk(path, topdown=False):
            for name in names:
                _sync_path(os.path.join(folder, name))
            _sync_path(folder)
    else:
        _sync_path(path)


def _remove(path: str) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)
    except OSError:  # leftovers have a temporary name: nothing takes them for a checkpoint
        pass
