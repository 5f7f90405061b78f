"""Starts the script: its environment, its pipe, and why it could not be started."""

from __future__ import annotations

import errno
import fcntl
import os

from .files import first_line
from .records import RECORDS
from .system import LINUX, default_signals, prctl, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class NotStarted(Exception):
    """The script could not be started. The message becomes `error` of the status."""


def environment_of(spec: dict[str, Any], secrets: dict[str, str | None], has_records: bool) -> dict[bytes, bytes]:
    env = dict(os.environb)
    for changes in (spec.get("env") or {}, secrets):
        for name, value in changes.items():
            key = name.encode("utf-8", "surrogateescape")
            if value is None:
                env.pop(key, None)
            else:
                env[key] = value.encode("utf-8", "surrogateescape")
    env[b"SVC_RUN_NONCE"] = spec["nonce"].encode()
    env[b"SVC_RUN_DIR"] = os.fsencode(os.getcwd())
    env.pop(b"SVC_RECORDS", None)
    if has_records:
        env[b"SVC_RECORDS"] = env[b"SVC_RUN_DIR"] + b"/" + RECORDS.encode()
    return env


def start_script(spec: dict[str, Any], secrets: dict[str, str | None], has_records: bool) -> tuple[int, int]:
    """Returns the script's pid and the pipe of its output, once exec has succeeded. Raises `NotStarted`."""
    try:
        argv = [a.encode("utf-8", "surrogateescape") for a in spec["argv"]]
        env = environment_of(spec, secrets, has_records)
    except UnicodeError as e:
        raise NotStarted("an argument or a variable is not well-formed Unicode") from e
    if any(b"\0" in a for a in argv) or any(b"\0" in k + v for k, v in env.items()):
        raise NotStarted("an argument or a variable holds a NUL character")
    out_r, out_w = os.pipe()
    fail_r, fail_w = os.pipe()
    try:
        fcntl.fcntl(out_w, 1031, 1 << 20)  # F_SETPIPE_SZ: fewer wake-ups for a chatty script
    except OSError:
        pass
    runner = os.getpid()
    try:
        pid = os.fork()
    except OSError as e:
        raise NotStarted("no new process can be made: %s" % os.strerror(e.errno or 0)) from e
    if pid == 0:
        become_script(spec, argv, env, out_w, fail_w, runner)
    os.close(out_w)
    os.close(fail_w)
    failure = b""
    while True:
        part = os.read(fail_r, 4096)
        if not part:
            break
        failure += part
    os.close(fail_r)
    if failure:
        os.close(out_r)
        os.waitpid(pid, 0)
        raise NotStarted(failure.decode("utf-8", "replace"))
    os.set_blocking(out_r, False)
    return pid, out_r


def become_script(spec: dict[str, Any], argv: list[bytes], env: dict[bytes, bytes], out_w: int, fail_w: int, runner: int) -> NoReturn:
    what, words = "script", ""
    try:
        os.setsid()
        if LINUX:
            prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != runner:
                os._exit(127)
        os.dup2(out_w, 1)
        os.dup2(out_w, 2)
        signal.set_wakeup_fd(-1)
        default_signals()
        what, words = "folder", "the working directory %s " % spec["cwd"]
        os.chdir(spec["cwd"].encode("utf-8", "surrogateescape"))
        if isinstance(spec.get("umask"), int):
            os.umask(spec["umask"])
        what, words = "script", "%s " % spec["argv"][0]
        os.execvpe(argv[0], argv, env)
    except OSError as e:
        why = {
            errno.ENOENT: "does not exist",
            errno.EACCES: "may not be executed",
            errno.ENOTDIR: "is not a folder",
            errno.ENOEXEC: "is not a program that this system can run",
            errno.E2BIG: "cannot start: its arguments and environment are too long",
        }.get(e.errno or 0)
        if e.errno == errno.ENOENT and what == "script" and os.path.exists(argv[0]):
            why = "begins with `%s`, and there is no such interpreter on this machine" % first_line(argv[0])
        if e.errno == errno.EACCES and what == "folder":
            why = "may not be entered"
        os.write(fail_w, (words + (why or os.strerror(e.errno or 0))).encode("utf-8", "replace"))
    except BaseException as e:  # this process must not continue as a second runner
        os.write(fail_w, (words + str(e)).encode("utf-8", "replace"))
    finally:
        os._exit(127)
