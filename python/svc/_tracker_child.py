"""Forwards the records of ``svc.log`` to the tracker's own library, in a process next to the training script.

P1. A failure here never affects the training: one line on stderr reports it, and the pipe is read until it ends.
P2. The queue is bounded; when it is full, the oldest records stay and new ones are only counted.
P3. It outlives a TERM to the run's processes, because the last values are in transit then; it ends with the pipe,
    and in bounded time after it.
P4. The run at the tracker has the job's id. A record of the log stream tells svc the run's address there.

Started as a script; Python 3.8 or newer, and the tracker's library.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
import urllib.parse
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

QUEUE_MAX = 100_000
INIT_SECONDS = 30.0
# In addition to the library's own timeout, which it does not always obey.
INIT_SECONDS_MORE = 15.0
FAILURES_MAX = 20
# The library retries for INIT_SECONDS before it reports a failure.
KNOCK_SECONDS = 8.0
HOST = "https://api.wandb.ai"
STEP = "svc_step"


class Inbox:
    """Records in order, from the thread that reads the pipe to the one that forwards."""

    def __init__(self) -> None:
        self.records: deque[dict[str, Any]] = deque()
        self.changed = threading.Condition()
        self.ended = False
        self.closed = False
        self.code = 1  # the pipe ended without an end record: the script was killed
        self.dropped = 0

    def read(self, stream: Iterable[bytes]) -> None:
        for line in stream:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if not isinstance(record, dict):
                continue
            with self.changed:
                if record.get("k") == "end":
                    self.code = int(record.get("code") or 0)
                elif record.get("k") == "m" and isinstance(record.get("m"), dict) and not self.closed:
                    if len(self.records) < QUEUE_MAX:
                        self.records.append(record)
                    else:
                        self.dropped += 1
                self.changed.notify()
        with self.changed:
            self.ended = True
            self.changed.notify()

    def take(self) -> tuple[dict[str, Any], Any] | None:
        """The next call's values, with their step; None at the end. One call may have arrived in several records."""
        with self.changed:
            while not self.records and not self.ended:
                self.changed.wait()
            if not self.records:
                return None
            first = self.records.popleft()
            values = dict(first["m"])
            while self.records and self.records[0].get("n") == first.get("n"):
                values.update(self.records.popleft()["m"])
        return {name: number(value) for name, value in values.items()}, first.get("s")

    def close(self) -> None:
        """Stops forwarding; the pipe is still read, so that no writer gets a broken one."""
        with self.changed:
            self.closed = True
            self.records.clear()

    def wait_for_end(self) -> None:
        with self.changed:
            while not self.ended:
                self.changed.wait()


def number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


class Outlet:
    """The run's own stdout and stderr; the library's output is dropped."""

    def __init__(self) -> None:
        self.out, self.err = os.dup(1), os.dup(2)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        self.said: set[str] = set()

    def say(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.write(self.err, f"svc.log: {text}\n")

    def record(self, fields: dict[str, Any]) -> None:
        mark = os.environ.get("SVC_METRICS_MARK", "")
        if mark:
            self.write(self.out, "\x1esvc1:{} {}\n".format(mark, json.dumps(fields, separators=(",", ":"))))

    @staticmethod
    def write(fd: int, text: str) -> None:
        try:
            os.write(fd, text.encode("ascii", "backslashreplace"))
        except OSError:
            pass


def seconds_left() -> float:
    try:
        return min(3600.0, max(1.0, float(os.environ.get("SVC_TRACKER_FINISH_SECONDS", "20"))))
    except ValueError:
        return 20.0


def plain(error: BaseException) -> str:
    """An exception in one line without the key."""
    text = " ".join(str(error).split()) or type(error).__name__
    for name in ("TRACKER_API_KEY", "WANDB_API_KEY"):
        key = os.environ.get(name, "").strip()
        if key:
            text = text.replace(key, "***redacted***")
    return text[:300].rstrip(".")


def library(outlet: Outlet) -> Any:
    try:
        import wandb
    except ImportError:
        wandb = None
    if not hasattr(wandb, "init"):  # also a folder of that name, which it leaves behind
        outlet.say("metrics do not go to the tracker: its library is not installed on this machine (add `wandb` to requirements.txt)")
        return None
    return wandb


def knock(outlet: Outlet) -> None:
    """Reports at once if the tracker cannot be reached at all. It sends nothing, and the library keeps trying in any case."""
    env = {name.lower(): value for name, value in os.environ.items()}
    if env.get("https_proxy") or env.get("http_proxy") or env.get("all_proxy"):
        return  # The library knows the way; a connection of our own would not show it.
    try:
        place = urllib.parse.urlsplit(os.environ.get("WANDB_BASE_URL") or HOST)
        host, port = place.hostname or "", place.port or (443 if place.scheme == "https" else 80)
        with socket.create_connection((host, port), KNOCK_SECONDS) as connection:
            if place.scheme == "https":
                trusted().wrap_socket(connection, server_hostname=host).close()
        return
    except ssl.SSLCertVerificationError as error:
        why = f"its certificate is not trusted here ({error.verify_message})"
    except socket.gaierror:
        why = "its name cannot be resolved"
    except (ConnectionRefusedError, socket.timeout):
        why = f"nothing answers at {host}:{port}"
    except (OSError, ValueError) as error:
        why = plain(error)
    outlet.say(f"the tracker cannot be reached: {why}. Its library keeps trying; svc has all metrics")


def trusted() -> ssl.SSLContext:
    """The certificates that the library trusts."""
    context = ssl.create_default_context()
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        bundle = os.environ.get(name, "")
        if os.path.isfile(bundle):
            context.load_verify_locations(bundle)
    try:
        import certifi

        context.load_verify_locations(certifi.where())
    except ImportError:
        pass
    return context


def begin(wandb: Any, outlet: Outlet) -> Any:
    """The open run, or None. The library limits the time, and this code does so if the library hangs."""
    done = threading.Event()

    def give_up() -> None:
        if not done.wait(INIT_SECONDS + INIT_SECONDS_MORE):
            outlet.say(f"metrics do not go to the tracker: it did not answer within {INIT_SECONDS + INIT_SECONDS_MORE:g} s")
            os._exit(0)

    threading.Thread(target=give_up, daemon=True).start()
    job = os.environ.get("SVC_JOB_ID", "")
    given = {"id": job, "resume": "allow", "name": os.environ.get("WANDB_NAME") or job} if job else {}
    folder = os.path.join(os.environ.get("WANDB_DIR") or os.getcwd(), "wandb")
    existed = os.path.lexists(folder)
    try:
        run = wandb.init(config={"svc_job_id": job}, settings=wandb.Settings(init_timeout=INIT_SECONDS), **given)
        for name, more in ((STEP, {"hidden": True}), ("*", {"step_metric": STEP})):
            run.define_metric(name, **more)
        if not existed:
            mark(folder)
        return run
    except BaseException as error:
        outlet.say(f"metrics do not go to the tracker: {plain(error)}. svc keeps them")
        return None
    finally:
        done.set()


def mark(folder: str) -> None:
    """The library made this folder because svc started it: the mark keeps it out of the code of later runs
    (_checkpoints.py)."""
    try:
        if os.path.isdir(folder):
            open(os.path.join(folder, ".svc-made"), "a").close()
    except OSError:
        pass  # The folder is not writable.


def tell_where(run: Any, outlet: Outlet) -> None:
    url = getattr(run, "url", None)
    if isinstance(url, str) and url:
        outlet.say(f"metrics also go to {url}")
        outlet.record({"k": "t", "url": url, "r": 0})
    else:
        outlet.say("metrics also go to {}, for `wandb sync`".format(os.path.dirname(str(getattr(run, "dir", "")))))


def forward(run: Any, inbox: Inbox, outlet: Outlet) -> None:
    failures = 0
    while True:
        call = inbox.take()
        if call is None:
            return None
        values, step = call
        try:
            # The step is an ordinary value, and the axis of all others: steps may come in any order.
            run.log({**values, STEP: step})
            failures = 0
        except Exception as error:
            failures += 1
            outlet.say(f"the tracker refused values: {plain(error)}. svc keeps them")
            if failures >= FAILURES_MAX:
                return inbox.close()


def settings_of_the_library(folder: str | None) -> None:
    """Settings by the owner stay."""
    for name, value in (
        ("WANDB_API_KEY", os.environ.get("TRACKER_API_KEY", "").strip()),
        ("WANDB_CONSOLE", "off"),
        ("WANDB_SILENT", "true"),
        ("WANDB_DISABLE_GIT", "true"),
        ("WANDB_DISABLE_CODE", "true"),
        ("WANDB_ERROR_REPORTING", "false"),
        ("WANDB_DIR", folder),
    ):
        if value:
            os.environ.setdefault(name, value)


def main() -> None:
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # The folder of this file comes first on the path: modules of svc must not hide those of the library.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    outlet, inbox = Outlet(), Inbox()
    threading.Thread(target=inbox.read, args=(sys.stdin.buffer,), daemon=True).start()
    offline = os.environ.get("WANDB_MODE", "").strip().lower() == "offline"
    folder = None if offline or os.environ.get("WANDB_DIR") else tempfile.mkdtemp(prefix="svc-tracker-")
    threading.Thread(target=end_in_time, args=(inbox, folder), daemon=True).start()
    settings_of_the_library(folder)
    run = None
    wandb = library(outlet)
    if wandb is not None:
        if not offline:
            threading.Thread(target=knock, args=(outlet,), daemon=True).start()
        run = begin(wandb, outlet)
    if run is None:
        inbox.close()
        inbox.wait_for_end()
    else:
        tell_where(run, outlet)
        forward(run, inbox, outlet)
        inbox.wait_for_end()
        if inbox.dropped:
            outlet.say(f"{inbox.dropped} record(s) did not go to the tracker; svc keeps them")
        try:
            run.finish(exit_code=inbox.code)
        except Exception as error:
            outlet.say(f"the tracker's run was not finished: {plain(error)}")
    remove(folder)


def end_in_time(inbox: Inbox, folder: str | None) -> None:
    """P3: once the pipe has ended, the remaining time is limited."""
    inbox.wait_for_end()
    threading.Event().wait(seconds_left())
    remove(folder)
    os._exit(0)


def remove(folder: str | None) -> None:
    """Deletes the folder in which the library keeps its files of this run."""
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
