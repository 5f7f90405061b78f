"""A small HTTP server that answers as a control plane does. Not a test double of its logic: tests set its answers.

As a program (``fake_control_plane.py serve …``) it takes the part of the CLI that starts a control plane.
"""

import json
import os
import select
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

INSTALLATION = "inst-1"


class FakeControlPlane(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, home, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.home = Path(home)
        self.installation = INSTALLATION
        self.requests = []
        self.jobs = {}
        self.answers = {}  # (method, path without query) -> (status, body)
        self.slow = {}  # path without query -> seconds before the answer
        self.log = b""
        self.token = None  # asked for where it is set
        self.ends_with_holders = False
        self.holders = {}  # id -> the open answer
        self.listening = []  # threads that still have an open answer
        self.over = threading.Event()
        self.cuts = []  # offsets at which a following connection is cut
        self.short = []  # lengths after which an answer with a length is cut
        self.url = "http://127.0.0.1:{}".format(self.server_address[1])
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def announce(self, pid=None, url=None, pid_start=0):
        self.home.mkdir(exist_ok=True)
        entry = {"url": url or self.url, "pid": pid or os.getpid(), "installation_id": INSTALLATION, "started_at": "", "pid_start": pid_start}
        (self.home / "control-plane.json").write_text(json.dumps(entry))

    def put(self, job_id, status="running", **more):
        self.jobs[job_id] = {"id": job_id, "status": status, "cost_usd": 0, "later_field": 1, **more}

    def is_ending(self):
        return self.ends_with_holders and not self.holders

    def handle_error(self, request, client_address):
        """A caller that did not wait for its answer is no fault."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            super().handle_error(request, client_address)

    def stop(self):
        self.over.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.handle_call(None)

    def do_POST(self):
        self.handle_call(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    do_PUT = do_POST

    def do_DELETE(self):
        self.handle_call(None)

    def handle_call(self, body):
        path, _, query = self.path.partition("?")
        self.server.requests.append((self.command, self.path, body, dict(self.headers)))
        if self.server.token and self.headers["Authorization"] != "Bearer " + self.server.token:
            return self.answer(401, {"code": "unauthorized", "detail": "The token is missing.", "hint": "Show it."})
        self.server.over.wait(self.server.slow.get(path, 0))
        fixed = self.server.answers.get((self.command, path))
        if fixed == "drop":
            del self.server.answers[(self.command, path)]
            self.close_connection = True
            return
        if fixed:
            return self.answer(*fixed)
        if path == "/v1/health":
            return self.answer(200, {"status": "ok", "installation_id": self.server.installation})
        if path == "/v1/hold":
            return self.hold()
        if path.startswith("/v1/hold/"):
            self.server.holders.pop(path.split("/")[3], None)
            ending = self.server.is_ending()
            self.answer(200, {"ending": ending, "holders": len(self.server.holders)})
            if ending:  # after the answer: the process ends with it
                self.server.over.set()
            return None
        if (self.command, path) == ("POST", "/jobs"):
            key = self.headers["Idempotency-Key"]
            if key not in self.server.jobs:
                self.server.put(key, spec=body["spec"], provider=body["spec"]["provider"], label=body["label"], args=body["spec"]["args"])
            return self.answer(201, self.server.jobs[key])
        if path == "/jobs":
            return self.answer(200, {"jobs": list(self.server.jobs.values()), "next_cursor": None})
        parts = path.split("/")
        job = self.server.jobs.get(parts[2]) if parts[1] == "jobs" and len(parts) > 2 else None
        if job is None:
            return self.answer(404, {"code": "job_not_found", "detail": "There is no job.", "hint": "See svc jobs."})
        if path.endswith("/logs"):
            return self.send_log(query)
        self.answer(200, job)

    def hold(self):
        if self.server.over.is_set():
            return self.answer(503, {"code": "shutting_down", "detail": "It is ending.", "hint": "Start it again."})
        name = "h{}".format(len(self.server.requests))
        self.server.holders[name] = self
        self.server.listening.append(threading.current_thread())
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"hold": name, "ends_with_holders": self.server.ends_with_holders}).encode() + b"\n")
        self.close_connection = True
        while not self.server.over.is_set():
            if select.select([self.connection], [], [], 0.05)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                self.server.holders.pop(name, None)
                if self.server.is_ending():
                    self.server.over.set()
                return
        try:
            self.wfile.write(b'{"unfinished": [], "kept": []}\n')
        except OSError:
            pass

    def send_log(self, query):
        asked = dict(part.split("=") for part in query.split("&"))
        at = int(asked["offset"])
        if "follow" not in asked and self.server.short:
            return self.answer_short(self.server.log[at:])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = self.server.cuts.pop(0) if "follow" in asked and self.server.cuts else None
        data = self.server.log[at:end]
        if end is None:
            if data:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.wfile.write(b"%x\r\n%s" % (len(data) + 50, data))  # a chunk that never comes whole
            self.wfile.flush()
            self.close_connection = True

    def answer_short(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: self.server.short.pop(0)])
        self.close_connection = True

    def answer(self, status, body):
        data = json.dumps(body).encode()
        if self.command == "POST" and self.server.short:
            return self.answer_short(data)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 300 else "application/problem+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    home = Path(os.environ["SVC_HOME"])
    with open(home / "starts", "a") as file:
        file.write(json.dumps({"argv": sys.argv[1:], "pid": os.getpid(), "cwd": os.getcwd()}) + "\n")
    if os.environ.get("FAKE_ERROR"):
        print(json.dumps({"error": {"code": os.environ["FAKE_ERROR"], "message": "m", "hint": "h"}}), file=sys.stderr)
        sys.exit(1)
    server = FakeControlPlane(home)
    server.ends_with_holders = True
    server.announce()
    print(json.dumps({"url": server.url, "pid": os.getpid()}), flush=True)
    sys.stdin.read()
    if server.holders:
        server.over.wait()
    server.over.set()
    for thread in list(server.listening):
        thread.join(20)
    (home / "ended").write_text("in order")
    (home / "control-plane.json").unlink()


if __name__ == "__main__":
    main()
