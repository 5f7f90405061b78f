"""Reads requests from stdin and answers them, many at a time."""

from __future__ import annotations

import errno
import json
import os
import threading
import time

from .beside import op_beside
from .checkpoint_bytes import op_data_ranges, op_hash_file, op_read_file, op_read_pieces
from .checkpoints import op_list
from .gate import op_gate, op_gate_look
from .guard import op_guard, op_keep
from .log import op_ack, op_follow, op_read_log, op_read_samples, op_status
from .machine import op_hello
from .refusal import Refusal
from .runner_calls import op_runner, op_start, op_stop
from .trees import op_compare, op_mkdir, op_put, op_remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable

ALIVE_SECONDS = 5
# A silently cut connection leaves an agent behind; it ends after this time, and a control plane that needs one
# starts another.
UNASKED_SECONDS = 900
KINDS = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EROFS: "read_only",
    errno.EFBIG: "file_limit",
    errno.ENOENT: "missing",
}
QUICK = {
    "status": op_status,
    "read_log": op_read_log,
    "read_samples": op_read_samples,
    "ack": op_ack,
    "read_file": op_read_file,
    "read_pieces": op_read_pieces,
    "data_ranges": op_data_ranges,
    "mkdir": op_mkdir,
}
SLOW = {
    "hello": op_hello,
    "start": op_start,
    "stop": op_stop,
    "follow": op_follow,
    "list": op_list,
    "beside": op_beside,
    "hash_file": op_hash_file,
    "keep": op_keep,
    "remove_tree": op_remove_tree,
    "gate_look": op_gate_look,
}
BODIED = {"runner": op_runner, "guard": op_guard, "compare": op_compare, "put": op_put, "gate": op_gate}


class Channel:
    def __init__(self, out: int) -> None:
        self.out = out
        self.lock = threading.Lock()
        self.busy: set[int] = set()
        self.asked_at = time.monotonic()

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        if body:
            head["bytes"] = len(body)
        # Only ASCII, and no escape that the reader could interpret differently.
        data = json.dumps(head, allow_nan=False).encode() + b"\n"
        with self.lock:
            # Decided under the lock: a keepalive after the answer would belong to no request.
            if "alive" not in head:
                self.busy.discard(head["id"])
            elif head["id"] not in self.busy:
                return
            for part in (data, body):
                view = memoryview(part)
                while view:
                    view = view[os.write(self.out, view) :]

    def serve(self, number: int, work: Callable[..., tuple[dict[str, Any], bytes]], *args: Any) -> None:
        try:
            value, body = work(*args)
            head = {"id": number, "ok": value}
        except Refusal as e:
            head, body = {"id": number, "error": {"kind": e.kind, "why": str(e)[:4000]}}, b""
        except OSError as e:
            kind = KINDS.get(e.errno or 0, "failed")
            where = " (%s)" % os.fsdecode(e.filename) if isinstance(e.filename, (str, bytes)) else ""
            head, body = {"id": number, "error": {"kind": kind, "why": (os.strerror(e.errno or 0) + where)[:4000]}}, b""
        except Exception as e:
            head, body = {"id": number, "error": {"kind": "failed", "why": repr(e)[:4000]}}, b""
        try:
            self.send(head, body)
        except OSError:
            os._exit(0)  # the control plane no longer listens

    def say_alive(self) -> None:
        while True:
            time.sleep(ALIVE_SECONDS)
            if not self.busy and time.monotonic() - self.asked_at > UNASKED_SECONDS:
                os._exit(0)
            for number in list(self.busy):
                try:
                    self.send({"id": number, "alive": True})
                except OSError:
                    os._exit(0)

    def listen(self, source: BinaryIO) -> None:
        threading.Thread(target=self.say_alive, daemon=True).start()
        while True:
            row = source.readline(8 << 20)
            if not row.endswith(b"\n"):
                os._exit(0)
            self.asked_at = time.monotonic()
            ask = json.loads(row)
            body = source.read(ask.get("bytes", 0)) if ask.get("bytes") else b""
            number, op = ask["id"], ask["op"]
            if op in QUICK:
                self.serve(number, QUICK[op], ask)
                continue
            args = (BODIED[op], ask, body) if op in BODIED else (SLOW[op], ask) if op in SLOW else (unknown, ask)
            self.busy.add(number)
            threading.Thread(target=self.serve, args=(number, *args), daemon=True).start()


def unknown(ask: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    raise Refusal("refused", "there is no %s" % str(ask.get("op"))[:100])
