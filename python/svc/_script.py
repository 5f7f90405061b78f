"""Metrics of training scripts, and the way out of the process that checkpoints share. See also ``_checkpoints``.

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
    from typing import Any, List, Mapping, Optional, SupportsFloat

_LINE_BYTES_MAX = 4096
_WAIT_SECONDS_MAX = 1.0
_NAMES_MAX = 4096
# What the reader takes: a record with a longer name, or an empty one, would be shown as text.
_NAME_UNITS_MAX = 512
_FINITE_MAX = 1.7976931348623157e308
_SAFE_INT_MAX = 2**53


class _State:
    """What one process knows; made anew in a forked child, which counts for itself."""

    def __init__(self) -> None:
        mark = os.environ.get("SVC_METRICS_MARK", "")
        # A mark with a space or a line end in it could not be found again by the reader.
        self.head = ("\x1esvc1:" + mark + " ") if mark and mark.isprintable() and " " not in mark else ""
        rank = os.environ.get("RANK", "").strip()
        node = os.environ.get("SVC_NODE_RANK", "").strip()
        # One process a node and no launcher between them: each is told apart by its node, and speaks for itself.
        self.rank = int(rank) if rank.isdecimal() else int(node) if node.isdecimal() else 0
        self.leaves_it_to_rank_0 = rank.isdecimal() and self.rank > 0
        # Counters of C: one step each, so threads never share a number.
        self.next_n = count(1).__next__
        self.next_step = count(0).__next__
        self.off = False
        self.torn = False
        self.dropped = 0
        self.names = {}  # type: dict[str, str]
        # Takes the same records to the tracker, where one is configured; False until the first of them.
        self.forward = False  # type: Any
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
    :param all_ranks: in a data-parallel job only rank 0 (``RANK``) records, unless this is true. Where several nodes run one
        process each without a launcher, each records, as the rank that its node has.

    Never raises and never blocks longer than a second; some 5 µs a call. Outside a job it prints a short line instead.
    """
    try:
        state = _state or _this()
        if state.leaves_it_to_rank_0 and not all_ranks:
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
    room = _LINE_BYTES_MAX - len(head) - 4  # "}}\n", and the line end before it where a torn record went out
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
            if len(part) + 1 > room:  # 512 characters, all of them escaped
                _warn("long " + quoted[:64], "svc.log: {}… is left out: the name is too long".format(quoted[:64]))
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
        _say("svc.log: metrics do not go to the tracker: {!r}".format(error))
        return None


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
    plain = name.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no place in UTF-8
    if not 0 < len(plain.encode("utf-16-le")) // 2 <= _NAME_UNITS_MAX:
        _warn("long " + plain[:64], "svc.log: {!r} is left out: a name has 1 to {} characters".format(plain[:64], _NAME_UNITS_MAX))
        return None
    quoted = _quote(plain)
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
