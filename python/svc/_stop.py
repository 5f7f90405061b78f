"""Whether svc has asked the run to stop: at a budget, a time limit, a kill or the end of the control plane. See ``should_stop``.

Python 3.8 or newer, standard library only, as ``_script``.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A training loop asks in every step.
_LOOK_SECONDS = 0.25


class _Stop:
    def __init__(self) -> None:
        folder = os.environ.get("SVC_RUN_DIR", "")
        self.paths = [os.path.join(folder, "stopping")] if folder else []
        self.asked = False
        self.due = 0.0
        self.pid = os.getpid()
        # Handlers of the script's own, which `listen` keeps.
        self.more: list[Any] = []
        self.catches()

    def catches(self) -> None:
        """From the first call on, TERM no longer ends this process at once: the script ends itself when it has saved."""
        import signal
        import threading

        if not self.paths or threading.current_thread() is not threading.main_thread():
            return
        # A handler of the script's own stays, and the runner's file says the same.
        if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, _heard_by_child):
            signal.signal(signal.SIGTERM, self.heard)

    def heard(self, *given: Any) -> None:
        self.asked = True
        for handler in self.more:
            handler(*given)

    def look(self) -> bool:
        now = time.monotonic()
        if not self.asked and now >= self.due:
            self.due = now + _LOOK_SECONDS
            self.asked = any(os.path.exists(path) for path in self.paths)
        return self.asked


# The one of this process; a forked child makes its own.
_made: list[_Stop] = []


def _forked() -> None:
    """A forked child inherits the handler, but its parent may end it by TERM and wait for its end: a worker of ``multiprocessing``."""
    if not _made:
        return
    import signal

    if signal.getsignal(signal.SIGTERM) == _made[0].heard:
        signal.signal(signal.SIGTERM, _heard_by_child)


def _heard_by_child(*_: Any) -> None:
    """Ignores one TERM when svc asks the run to stop, which every process of the run receives: the parent may need this one to save."""
    stop = _made[0]
    if not stop.asked:
        stop.due = 0.0
        if stop.look():
            return
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def should_stop() -> bool:
    """True once svc has asked the run to stop: save what is needed to continue, and end the script.

    Call it once per step; it costs next to nothing. The first call also keeps TERM from ending the process, so the script has the
    run's ``stop_grace_seconds`` to save. Every rank gets the same answer within a second, but not in the same step: in a loop with
    collective operations, let rank 0 decide and broadcast it. Always False outside a run.
    """
    if not _made or _made[0].pid != os.getpid():
        try:
            _made[:] = [_Stop()]
        except (OSError, ValueError) as e:
            print("svc: should_stop cannot listen to TERM: %s" % e, file=sys.stderr)
            return False
    return _made[0].look()


def listen(more: list[Any]) -> None:
    """Takes TERM for ``should_stop`` from a framework whose own handler would end the training before it has saved. ``more`` are
    handlers of the script's own, which are called as well. Does nothing outside a run."""
    import signal
    import threading

    should_stop()
    if not _made or not _made[0].paths or threading.current_thread() is not threading.main_thread():
        return
    stop = _made[0]
    stop.more = [handler for handler in more if handler not in (stop.heard, _heard_by_child)]
    signal.signal(signal.SIGTERM, stop.heard)
