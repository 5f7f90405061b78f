"""Stores the runner's source and calls it, to start and to stop a run."""

from __future__ import annotations

import json
import os
import sys
import threading

from .environment import base_environment
from .files import read_object, replace_file, unlink
from .refusal import NoAnswer, Refusal
from .run_folder import read_status, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

BASE = ".svc-machine"


def runner_path(digest: object) -> str:
    if not (isinstance(digest, str) and len(digest) == 64 and all(c in "0123456789abcdef" for c in digest)):
        raise Refusal("refused", "that is not a digest")
    return "%s/%s/.runtime/%s/svc_runner.py" % (os.path.expanduser("~"), BASE, digest)


def op_runner(ask: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Stores the runner's source under its digest."""
    import hashlib

    if hashlib.sha256(body).hexdigest() != ask["digest"]:
        raise Refusal("refused", "the runner's text does not match its digest")
    path = runner_path(ask["digest"])
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    replace_file(path, body)
    return {}, b""


# Python caches a compiled module.
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); m = __import__('svc_runner'); m.main(sys.argv[1:])"


def call_runner(ask: dict[str, Any], command: str, seconds: float, more: Sequence[str] = ()) -> tuple[int, str, str]:
    import subprocess

    run, path = ask["dir"], runner_path(ask["runner"])
    if not os.path.exists(path):
        raise Refusal("runner_missing", "the runner is not on the machine")
    env = base_environment()
    if command == "start":
        env["SVC_RUN_DIR"] = run
    argv = [sys.executable, "-I", "-S", "-c", BOOT, os.path.dirname(path), command, run, *list(more)]
    # In its own session, and never killed here (A1): half a `stop` is useless.
    child = subprocess.Popen(
        argv, cwd=run, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as e:
        raise NoAnswer("runner", "`%s` gave no answer in %d s" % (command, seconds)) from e
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


RUNNER_KINDS = (
    ("No space left on device", "disk_full"),
    ("Disk quota exceeded", "disk_full"),
    ("Read-only file system", "read_only"),
    ("File too large", "file_limit"),
)


def runner_refusal(code: int, err: str) -> Refusal:
    for text, kind in RUNNER_KINDS:
        if text in err:
            return Refusal(kind, text)
    rows = err.strip().split("\n")
    return Refusal("runner", rows[-1][-2000:] or "it ended with code %s" % code)


STARTING = threading.Lock()


def op_start(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    run, spec = ask["dir"], ask["spec"]
    with STARTING:
        before = status_of(run)
        same = before is not None and before.get("nonce") == spec["nonce"]
        # A claim without a process: the call that made it will report in a moment, and the runner waits for that.
        claimed = before is not None and before.get("phase") == "running" and before.get("pid") is None
        if same and not claimed:
            return {"status": before}, b""
        if before is not None and before.get("phase") == "running" and not same:
            raise Refusal("runner", "another run uses %s" % run)
        if not os.path.exists(runner_path(ask["runner"])):
            raise Refusal("runner_missing", "the runner is not on the machine")
        for folder in (run, spec["checkpoint_dir"]):
            os.makedirs(folder, 0o700, exist_ok=True)
        os.chmod(run, 0o700)
        secrets = run + "/env.json"
        try:
            # The secrets first: a launcher of an earlier call that is still running must not find the spec without
            # them.
            replace_file(secrets, json.dumps(ask["secrets"]).encode())
            replace_file(run + "/spec.json", json.dumps(spec).encode())
            code, out, err = call_runner(ask, "start", 30)
        except NoAnswer:
            raise  # the runner unlinks the secrets after reading them; a script must not start without them
        except BaseException:
            unlink(secrets)
            raise
        if code != 0 or not out:
            unlink(secrets)
            raise runner_refusal(code, err)
        return {"status": json.loads(out)}, b""


def op_stop(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    run, grace = ask["dir"], max(0.0, float(ask["grace"]))
    try:
        status = read_status(run)
    except Refusal:
        status = None
    spec, _ = read_object(run + "/spec.json")
    if status and spec and status.get("phase") == "exited" and status.get("nonce") == spec.get("nonce"):
        return {}, b""
    if not os.path.isdir(run):
        return {}, b""
    code, out, err = call_runner(ask, "stop", grace + 60, ["--grace", repr(grace)])
    if code != 0:
        raise runner_refusal(code, err or out)
    return {}, b""
