"""The four commands: start, stop, status and sweep."""

from __future__ import annotations

import os
import time

from .files import Lock, read_json, unlink, write_file, write_status
from .json_text import to_json
from .left_behind import kill_marked, marked
from .processes import Process, boot_id, named, process, remaining, send, start_time, unended
from .run import UNENDED_SECONDS, Run
from .spool import spool_end
from .system import LINUX, complain, now_ms, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def lost(status: dict[str, Any], left: list[dict[str, Any]]) -> dict[str, Any]:
    """The final status of a run whose runner died without a report."""
    if status.get("boot_id") and status["boot_id"] != boot_id():
        why = "the machine was restarted while the script ran"
    else:
        why = "the runner that supervised the script was killed, and the output and metrics that it had not read yet are lost"
    if left:
        why += "; processes that cannot be killed: %s" % named(left)
    return dict(
        status,
        phase="failed",
        ended_at_ms=now_ms(),
        error=why,
        log_bytes=spool_end(),
        exit_code=None,
        signal=None,
        stopped=(read_json("stop") or {}).get("nonce") == status.get("nonce"),
    )


def sweep_locked(grace: float) -> tuple[list[int], bool]:
    """Call it with the lock held, which proves that no runner is alive: ends the processes that it left, and
    records that in status.json. Returns the survivors, and whether they are recorded: then no later sweep waits for
    them."""
    status = read_json("status.json")
    spec = read_json("spec.json") or {}
    before = remaining(status)
    left = unended(kill_marked({n for n in ((status or {}).get("nonce"), spec.get("nonce")) if n}, grace, before))
    recorded = not left
    if status and (left or status.get("phase") == "running"):
        last = lost(status, left) if status.get("phase") == "running" else status
        try:
            write_status(dict(last, boot_id=boot_id(), left=before + left) if left else last)
            recorded = True
        except OSError as e:
            complain("writing status.json: %s" % e)  # a caller that asks for the status finds the runner dead anyway
    return [p["pid"] for p in left], recorded


def say(value: object, code: int = 0) -> NoReturn:
    data = memoryview((to_json(value) + "\n").encode())
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        pass
    os._exit(code)


def fail(words: str, code: int = 1) -> NoReturn:
    complain(words)
    os._exit(code)


def close_inherited() -> None:
    try:
        names = os.listdir("/proc/self/fd" if LINUX else "/dev/fd")
        numbers = [int(n) for n in names if n.isdigit()]
    except OSError:
        numbers = list(range(3, 256))
    for fd in numbers:
        if fd > 2:
            try:
                os.close(fd)
            except OSError:
                pass


def command_start() -> NoReturn:
    lock = Lock()
    spec = read_json("spec.json")
    if not spec or not isinstance(spec.get("nonce"), str):
        fail("spec.json is missing or damaged")
    nonce = spec["nonce"]
    end = time.monotonic() + 20
    while not lock.take():
        status = read_json("status.json")
        # A claim without a process: its caller is about to start the script, and will report in a moment.
        if status and status.get("nonce") == nonce and (status.get("pid") or status.get("phase") != "running"):
            unlink("env.json")
            say(status)
        if status and status.get("nonce") != nonce and status.get("phase") == "running" and time.monotonic() > end - 18:
            fail("another run (%s) uses this directory" % status.get("nonce"), 3)
        if time.monotonic() > end:
            fail("another program holds runner.lock")
        time.sleep(0.01)
    status = read_json("status.json")
    if status and status.get("nonce") == nonce:
        unlink("env.json")
        if status.get("phase") == "running":
            sweep_locked(0)
        say(read_json("status.json"))
    if status:
        sweep_locked(0)
    secrets = read_json("env.json") or {}
    unlink("env.json")
    order = read_json("stop")
    if order and order.get("nonce") == nonce:
        write_status(never_started(nonce))
        say(read_json("status.json"))
    if order:
        unlink("stop")  # from another run; the runner will notice a later one

    ready_r, ready_w = os.pipe()
    if os.fork() == 0:
        try:
            os.close(ready_r)
            os.setsid()
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            os.dup2(null, 0)
            os.dup2(null, 1)
            try:
                os.dup2(os.open("runner.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), 2)
            except OSError:
                os.dup2(null, 2)
            become_runner(spec, secrets, ready_w)
        finally:
            os._exit(1)
    os.close(ready_w)
    answer = b""
    while True:
        part = os.read(ready_r, 65536)
        if not part:
            break
        answer += part
    if not answer:
        fail("the runner died while it started; runner.err may say why")
    if answer.startswith(b"!"):
        fail(answer[1:].decode("utf-8", "replace"))
    os.write(1, answer)
    os._exit(0)


def become_runner(spec: dict[str, Any], secrets: dict[str, str | None], ready_w: int) -> NoReturn:
    try:
        run = Run(spec, secrets)
        run.start()
    except Exception as e:
        complain("starting: %r" % e)
        os.write(ready_w, ("!%s" % e).encode("utf-8", "replace"))
        os._exit(1)
    try:
        os.write(ready_w, (to_json(run.stat) + "\n").encode())
    except OSError:
        pass  # the caller of `start` was killed; the run is not
    os.close(ready_w)
    if run.stat["phase"] == "running":
        try:
            run.supervise()
        except BaseException:
            import traceback

            complain(traceback.format_exc())
            os._exit(1)  # PDEATHSIG ends the script; the next check sweeps the rest and marks the run as lost
    os._exit(0)


def never_started(nonce: str) -> dict[str, Any]:
    return {
        "phase": "failed",
        "nonce": nonce,
        "runner_pid": os.getpid(),
        "runner_start": start_time(os.getpid()),
        "boot_id": boot_id(),
        "pid": None,
        "started_at_ms": now_ms(),
        "ended_at_ms": now_ms(),
        "exit_code": None,
        "signal": None,
        "stopped": True,
        "oom": False,
        "log_bytes": spool_end(),
        "error": "it was stopped before it started",
        "not_runnable": False,
        "left": remaining(read_json("status.json")),
    }


def command_status() -> NoReturn:
    status = read_json("status.json")
    if status and status.get("phase") == "running":
        lock = Lock()
        if lock.take():
            # Read again: the runner may have written its last status and exited between the two checks.
            status = read_json("status.json")
            if status and status.get("phase") == "running":
                status = lost(status, [])
    say(status)


def command_sweep(grace: float) -> NoReturn:
    lock = Lock()
    if not lock.take():
        fail("the runner of this directory is alive; use stop", 3)
    left, _ = sweep_locked(grace)
    say({"left": left, "status": read_json("status.json")}, 1 if left else 0)


def command_stop(grace: float | None) -> NoReturn:
    spec = read_json("spec.json") or {}
    status = read_json("status.json") or {}
    nonce = spec.get("nonce") or status.get("nonce")
    unlink("env.json")
    if not nonce:
        say({"left": [], "status": None})
    if status.get("nonce") == nonce and grace is None:
        grace = spec.get("stop_grace_seconds")
    grace = 30.0 if grace is None else float(grace)
    try:
        write_file("stop", to_json({"nonce": nonce, "grace": grace}).encode(), False)
    except OSError as e:
        complain("writing the order to stop: %s" % e)  # a full disk must not keep a run alive: the signal goes anyway
    lock = Lock()
    end = time.monotonic() + grace + UNENDED_SECONDS + 15
    delay, asked_at = 0.005, -1.0
    while not lock.take():
        now = time.monotonic()
        status = read_json("status.json") or {}
        same_boot = status.get("boot_id") == boot_id()
        runner = process(status.get("runner_pid") or 0) if LINUX and same_boot else None
        if not LINUX and status.get("runner_pid"):
            runner = Process(status["runner_pid"], 0, 0, b"?", 0, 0)
        if runner and (not LINUX or runner.start == status.get("runner_start")):
            if now - asked_at > 1:
                asked_at = now
                if runner.state in (b"T", b"t"):
                    send(runner, signal.SIGCONT)
                send(runner, signal.SIGTERM)
            if now > end:
                if not marked({nonce, status.get("nonce") or nonce}):
                    say({"left": [], "status": status})  # it only waits until the disk accepts the end of the log
                send(runner, signal.SIGKILL)
        if now > end + 10:
            fail("runner.lock is held by a program that does not answer")
        time.sleep(delay)
        delay = min(0.02, delay * 1.5)
    left, recorded = sweep_locked(grace)
    last = read_json("status.json")
    if not last or last.get("nonce") != nonce:
        write_status(never_started(nonce))
    say({"left": left, "status": read_json("status.json")}, 0 if recorded else 1)
