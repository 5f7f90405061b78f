"""Metrics of training scripts, and the channel out of the process that checkpoints share. See also
``_checkpoints``.

S1. Python 3.8 or newer, standard library only, and only modules that cost next to nothing to import.
S2. ``log``, ``alert`` and ``checkpoint`` never raise and never block longer than a second: training comes first.
S3. A record is one ``os.write`` of at most 4096 bytes, which pipes and append-only files accept atomically.
    Unbuffered ``print`` writes text and newline separately, and lines of several processes then mix.
S4. The mark in front of a record is random per run, so that printed data cannot pass for a metric.
S5. A dropped record leaves a gap in ``n`` and one line on stderr. Until the reader accepts one again, metrics do not wait: it
    costs the training one second, not one for each step. Announcements and alerts are kept until then.
S6. Records go to the pipe that ``SVC_RECORDS`` names, wherever stdout goes. If it cannot be opened they use stdout.
    A record is sent only once.
"""

from __future__ import annotations

import _thread
import os
import select
import sys
import time
from _collections_abc import Mapping as _Mapping
from itertools import count

try:
    from _json import encode_basestring_ascii
except ImportError:  # an interpreter without the C helper
    from json.encoder import py_encode_basestring_ascii as encode_basestring_ascii

_quote = encode_basestring_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

_LINE_BYTES_MAX = 4096
_WAIT_SECONDS_MAX = 1.0
_NAMES_MAX = 4096
_ALERT_MAX = 2000
_ALERTS_MAX = 10
_OWED_MAX = 100
# The reader's limit: a record with a longer or an empty name would be shown as text.
_NAME_UNITS_MAX = 512
_FINITE_MAX = 1.7976931348623157e308
_INFINITE = float("inf")
_SAFE_INT_MAX = 2**53
# For dicts in dicts: ends the walk of a dict that contains itself.
_DEPTH_MAX = 16


class _State:
    """The state of one process; created again in a forked child, which has its own counters."""

    def __init__(self) -> None:
        mark = os.environ.get("SVC_METRICS_MARK", "")
        # The reader could not recognise a mark with a space or a line end in it.
        self.head = ("\x1esvc1:" + mark + " ") if mark and mark.isprintable() and " " not in mark else ""
        rank = os.environ.get("RANK", "").strip()
        node = os.environ.get("SVC_NODE_RANK", "").strip()
        # With one process per node and no launcher, the node's number serves as the rank, and each process records
        # for itself.
        self.rank = int(rank) if rank.isdecimal() else int(node) if node.isdecimal() else 0
        self.leaves_it_to_rank_0 = rank.isdecimal() and self.rank > 0
        # Counters in C: each step is atomic, so threads never share a number.
        self.next_n = count(1).__next__
        self.next_step = count(0).__next__
        self.channel = os.environ.get("SVC_RECORDS", "")
        # Descriptor, device and inode of the open channel. A script may close descriptors that are not its own.
        self.channel_at: tuple[int, int, int] | None = None
        self.channel_retry_at = 0.0
        self.off = False
        self.torn = False
        self.dropped = 0
        self.stalled = False
        self.owed: list[str] = []  # S5
        self.names: dict[str, str] = {}
        # Passes the same records to the tracker, if one is configured; False until the first of them.
        self.forward: Any = False
        self.warned: set[str] = set()
        self.alerts = 0
        self.alerts_since = 0.0


_state: _State | None = None
_making = _thread.allocate_lock()


def _forget() -> None:
    global _state, _making
    if _state is not None and _channel_is_open(_state):
        _close_channel(_state)
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
    """Whether a write to ``fd`` would not block; waits at most ``seconds``. (A poll object cannot be shared by
    threads.)"""
    try:
        return bool(select.select((), (fd,), (), seconds)[1])
    except (OSError, ValueError):  # closed, or no socket on Windows: the write itself reports it
        return True


def log(values: Mapping[str, Any], step: int | None = None, all_ranks: bool = False) -> None:
    """Record metrics of the run: they are stored, charted on the run's page and kept out of its log.

    :param values: name to anything that ``float()`` accepts: NumPy scalars, arrays and tensors of one element on
        any device, ``Decimal``, ``Fraction``, ``bool`` (0 or 1), text such as ``"0.5"``. NaN and infinities are
        kept. A dict in it is flattened: ``{"val": {"loss": 1}}`` is ``val/loss``. Anything else is skipped, with
        one warning per name on stderr that gives the reason.
    :param step: the position of the values on the x axis; ``None`` counts this process's own calls from 0.
    :param all_ranks: in a data-parallel job only rank 0 (``RANK``) records, unless this is true. If several nodes
        run one process each without a launcher, each records, with its node's number as the rank.

    Never raises and never blocks longer than a second; about 6 µs of processor time per call. Outside a job it
    prints a short line instead.
    """
    try:
        state = _state or _this()
        if state.leaves_it_to_rank_0 and not all_ranks:
            return
        at_text = str(state.next_step()) if step is None else _step_text(state, step)
        if state.head:
            _log_in_job(state, values, at_text)
        else:
            _log_outside(values, at_text)
    except Exception as error:  # S2
        why = repr(error)
        if not hasattr(type(values), "items"):
            why = f'values must be a dict, not {type(values).__name__}; write svc.log({{"loss": 0.5}})'
        _warn("log", f"svc.log: the call was skipped: {why}")


def alert(message: str) -> None:
    """Send a message to the notification targets of the control plane, from any rank.

    :param message: what a person should read; at most 2,000 characters are kept. Secrets that svc knows are masked.

    The same message of several ranks is sent once a minute, and at most ten different ones. Never raises and never
    blocks longer than a second. Outside a job it prints a short line instead.
    """
    try:
        state = _state or _this()
        text = str(message).encode("utf-8", "replace").decode("utf-8").strip()[:_ALERT_MAX]
        if not text:
            return
        now = time.monotonic()
        if now - state.alerts_since >= 60:
            state.alerts_since, state.alerts = now, 0
        state.alerts += 1
        if state.alerts > _ALERTS_MAX:
            _warn("alert", "svc.alert: more than ten alerts in a minute; the others are not sent")
            return
        if not state.head:
            sys.stdout.write("[svc] alert: " + text + "\n")
            sys.stdout.flush()
            return
        head = '%s{"k":"a","r":%d,"text":' % (state.head, state.rank)
        room = _LINE_BYTES_MAX - len(head) - 4
        while len(_quote(text)) > room:
            text = text[: len(text) * 3 // 4]
        _emit(state, head + _quote(text) + "}\n", keep=True)
    except Exception as error:  # S2
        _warn("alert failed", f"svc.alert: the call was skipped: {error!r}")


def _log_in_job(state: _State, values: Mapping[str, Any], at: str) -> None:
    n = state.next_n()
    head = '%s{"k":"m","n":%d,"s":%s,"t":%.3f,"r":%d,"m":{' % (state.head, n, at, time.time(), state.rank)
    room = _LINE_BYTES_MAX - len(head) - 4  # "}}\n", and the line end before it after a torn record
    names = state.names
    parts: list[str] = []
    used = 0
    for name, value in _flat(values):
        quoted = names.get(name) if type(name) is str else None
        if quoted is None:
            quoted = _name(state, name)
            if quoted is None:
                continue
        if type(value) is float and -_FINITE_MAX <= value <= _FINITE_MAX:
            number = repr(value)
        else:
            try:
                number = _number(value)
            except _NoNumber as why:
                _warn("value " + quoted, f"svc.log: {quoted} is skipped: {why}")
                continue
        part = quoted + ":" + number
        if used + len(part) + 1 > room:
            if len(part) + 1 > room:  # 512 characters, all of them escaped
                _warn("long " + quoted[:64], f"svc.log: {quoted[:64]}… is skipped: the name is too long")
                continue
            if parts:
                _record(state, head + ",".join(parts) + "}}\n")
            parts = []
            used = 0
        parts.append(part)
        used += len(part) + 1
    if parts:
        _record(state, head + ",".join(parts) + "}}\n")


def _record(state: _State, line: str) -> None:
    """One record of metrics to svc and, without its mark, to the tracker."""
    _emit(state, line)
    if state.forward is False:
        state.forward = _forwarding(state)
    if state.forward is not None:
        state.forward(line[len(state.head) :].encode("ascii", "replace"))


def _forwarding(state: _State) -> Any:
    env = os.environ
    if state.rank or not (env.get("TRACKER_API_KEY") or env.get("WANDB_MODE")):
        return None
    try:
        from svc import _tracker

        return _tracker.start(_say)
    except Exception as error:  # S2
        _say(f"svc.log: metrics do not go to the tracker: {error!r}")
        return None


def _log_outside(values: Mapping[str, Any], at: str) -> None:
    words = []
    for name, value in _flat(values):
        try:
            number = _number(value)
        except _NoNumber as why:
            _warn("value " + str(name), f"svc.log: {name!r} is skipped: {why}")
        else:
            words.append("{}={}".format(name, number.strip('"') if len(number) < 9 else "{:.5g}".format(float(number.strip('"')))))
    sys.stdout.write("[svc] step {}: {}\n".format(at, " ".join(words)))
    sys.stdout.flush()


def _name(state: _State, name: Any) -> str | None:
    """The name as a JSON string, in ASCII: a line never ends inside a character."""
    if not isinstance(name, str):
        _warn("name " + repr(name)[:200], f"svc.log: {name!r} is skipped: names must be strings")
        return None
    plain = name.encode("utf-8", "replace").decode("utf-8")  # lone surrogates do not exist in UTF-8
    if not 0 < len(plain.encode("utf-16-le")) // 2 <= _NAME_UNITS_MAX:
        _warn("long " + plain[:64], f"svc.log: {plain[:64]!r} is skipped: a name must have 1 to {_NAME_UNITS_MAX} characters")
        return None
    quoted = _quote(plain)
    if len(state.names) < _NAMES_MAX:
        state.names[str(name)] = quoted
    return quoted


def _flat(values: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The members of ``values``; of a dict in it, the members with both names and a ``/`` between them."""
    items = values.items()
    for _, value in items:
        if type(value) is not float and isinstance(value, _Mapping):
            break
    else:
        return items
    found: list[tuple[Any, Any]] = []
    _flatten(values, "", found, 0)
    return found


def _flatten(values: Mapping[Any, Any], before: str, found: list[tuple[Any, Any]], depth: int) -> None:
    for name, value in values.items():
        named = isinstance(name, (str, int))
        full = f"{before}/{name}" if before and named else name
        if named and isinstance(value, _Mapping) and depth < _DEPTH_MAX:
            _flatten(value, str(full), found, depth + 1)
        else:
            found.append((full, value))


class _NoNumber(Exception):
    """Gives the reason why a value is skipped."""


def _number(value: Any) -> str:
    """The number as strict JSON. Raises ``_NoNumber``."""
    if not isinstance(value, (bool, int, float)):
        value = _plain_number(value)
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


def _plain_number(value: Any) -> Any:
    """The result of ``.item()`` or ``float()``: an int or a float."""
    kind = type(value).__name__
    if value is None:
        raise _NoNumber("expected a number, not None")
    try:
        item = getattr(value, "item", None)
        found = item() if item is not None else None
        if isinstance(found, (bool, int, float)):
            return found
        if isinstance(found, complex):  # ``float`` would drop half of it
            value = found
    except Exception:  # an ``item`` of another kind, several elements, no data: ``float`` reports the problem
        pass
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction that is larger than any float
        return _INFINITE if value > 0 else -_INFINITE
    except Exception as error:
        raise _NoNumber(_why_no_number(value, kind, error)) from None


def _why_no_number(value: Any, kind: str, error: Exception) -> str:
    try:
        shape = getattr(value, "shape", None) or ()
        count = 1
        for length in shape:
            count *= int(length)
        if count != 1:
            return "expected one number, but this {} has {} (shape {}); log its mean, for example".format(
                kind, count, "x".join(str(int(length)) for length in shape)
            )
    except Exception:  # a shape of another kind
        pass
    if isinstance(value, str):
        return f"{value[:40]!r} is not a number"
    words = str(error).strip().split("\n")[0][:200]
    return f"expected a number, not {kind} ({words})" if words else f"expected a number, not {kind}"


def _step_text(state: _State, step: Any) -> str:
    try:
        text = int.__repr__(step) if type(step) is int else _number(step)
    except _NoNumber:
        text = ""
    if not text or text[0] == '"' or len(text) > 20:
        _warn("step", f"svc: step {step!r} is not a valid number; svc counts the calls instead")
        text = str(state.next_step())
    return text


def _emit(state: _State, line: str, keep: bool = False) -> None:
    """One record in one write (S3), after the script's earlier output. With ``keep`` it is sent again if it is not accepted (S5),
    and before any later one."""
    if keep and state.owed:
        if len(state.owed) < _OWED_MAX:
            state.owed.append(line)
        else:
            state.dropped += 1
        try:
            line = state.owed.pop(0)
        except IndexError:  # another thread sends them
            return
    data = line.encode("ascii", "replace")
    seconds = 0.0 if state.stalled and not keep else _WAIT_SECONDS_MAX
    left = _send(state, data, seconds) if state.channel else None
    if left is None:
        left = _send_by_stdout(state, data, seconds)
    if left:
        state.stalled = True
        if keep and len(state.owed) < _OWED_MAX:
            state.owed.insert(0, line)
        else:
            state.dropped += 1
    if left != 0:
        return
    lost, state.stalled, state.dropped = state.dropped, False, 0
    if lost:
        _say(f"svc.log: {lost} record(s) were dropped, because the output was not read in time or the disk was full")
    owed, state.owed = state.owed, []
    for again in owed:
        _emit(state, again, keep=True)


def _send_by_stdout(state: _State, data: bytes, seconds: float) -> int | None:
    if state.off or not (_writable(1, 0) or (seconds and _writable(1, seconds))):
        return None if state.off else len(data)
    _flush()
    if state.torn:
        data = b"\n" + data
    left = _write(1, data, seconds)
    state.off = left is None  # the pipe has no reader any more
    state.torn = bool(left and (state.torn or left < len(data)))
    return left


def _flush() -> None:
    try:
        sys.stdout.flush()
    except Exception:  # closed, replaced, or interrupted in the middle: the record has its own channel
        pass


def _write(fd: int, data: bytes, seconds: float) -> int | None:
    """Writes within ``seconds``, the rest of a record within one. Returns how many bytes were not accepted; None if no process reads."""
    deadline, whole = 0.0, len(data)
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + (seconds if len(data) == whole else _WAIT_SECONDS_MAX)
            if now >= deadline:
                break
            _writable(fd, deadline - now)
        except OSError as error:
            if isinstance(error, BrokenPipeError) or error.errno == 9:  # EBADF
                return None
            break
    return len(data)


def _send(state: _State, data: bytes, seconds: float) -> int | None:
    """Sends a record by the channel (S6). Returns as ``_write`` does; None: nothing was sent, and it has to use stdout."""
    fd = _channel(state)
    if fd is None:
        return None
    if _writable(1, 0):  # so that earlier output also comes before the record
        _flush()
    left = _write(fd, data, seconds)
    if left is None:
        _close_channel(state)
    return left


def _channel(state: _State) -> int | None:
    """The open channel; while it is missing, it is searched at most once a second."""
    at = state.channel_at
    if at is not None:
        if _channel_is_open(state):
            return at[0]
        state.channel_at = None  # the script has closed it, and the number may now belong to a file of its own
    if time.monotonic() < state.channel_retry_at:
        return None
    with _making:
        if state.channel_at is not None:
            return state.channel_at[0]
        why = "it is not a pipe"
        try:
            fd = os.open(state.channel, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            found = os.fstat(fd)
            if found.st_mode & 0o170000 == 0o010000:
                state.channel_at = (fd, found.st_dev, found.st_ino)
                return fd
            os.close(fd)
        except OSError as error:
            why = error.strerror or str(error)
        state.channel_retry_at = time.monotonic() + 1.0
    _warn("channel", f"svc.log: metrics are sent by stdout, because their pipe ({state.channel}) is not usable: {why}")
    return None


def _channel_is_open(state: _State) -> bool:
    try:
        at = state.channel_at
        found = os.fstat(at[0]) if at is not None else None
    except OSError:
        return False
    return at is not None and found is not None and (found.st_dev, found.st_ino) == at[1:]


def _close_channel(state: _State) -> None:
    at, state.channel_at = state.channel_at, None
    if at is not None:
        try:
            os.close(at[0])
        except OSError:
            pass


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
    except Exception:  # stderr is missing: print nothing
        pass
