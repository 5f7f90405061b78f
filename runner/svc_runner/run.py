"""The run: its script, its pipes, and the loop that supervises both until its end is written."""

from __future__ import annotations

import errno
import os
import select
import time

from .files import read_json, unlink, write_file, write_status
from .keeper import keeper_of
from .notice import notice_of
from .processes import Process, all_processes, below, boot_id, named, oom_kills, remaining, send, start_time, unended
from .ranks import Ranks
from .records import Records, bytes_in
from .samples import Sampler
from .script import NotStarted, start_script
from .spool import CHUNK, REST, Spool, read_pipe
from .system import LINUX, complain, directory_gone, now_ms, prctl, show_name, signal, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# How long a process may survive KILL before the run ends without it. The kernel takes up to some ten seconds to free the memory of a large
# process and its GPU; what takes longer waits for a device, or belongs to another user. `stop` waits this long, too, and its callers wait
# for a minute.
UNENDED_SECONDS = 20.0
# The same where none of them takes the signal: they had the grace, and more time does not help. It is less than the five seconds that the
# machine's guard and a budget add to the grace.
REFUSED_SECONDS = 2.0


class Run:
    def __init__(self, spec: dict[str, Any], secrets: dict[str, str | None]) -> None:
        self.spec, self.secrets = spec, secrets
        self.nonce = spec["nonce"]
        self.reader: int | None = None
        # Since when the spool ends inside a record from stdout, or None; no other record may be inserted then.
        self.inside_record: float | None = None
        self.pid: int | None = None
        self.wait_status: int | None = None
        self.alone = False
        self.stopped = False
        self.killed_by_us = False
        self.ending_at: float | None = None
        self.kill_at = self.unended_at = float("inf")
        self.next_kill = self.next_look = 0.0
        self.stat: dict[str, Any] = {
            "phase": "running",
            "nonce": self.nonce,
            "runner_pid": os.getpid(),
            "runner_start": start_time(os.getpid()),
            "boot_id": boot_id(),
            "pid": None,
            "started_at_ms": now_ms(),
            "ended_at_ms": None,
            "exit_code": None,
            "signal": None,
            "stopped": False,
            "preempted": False,
            "oom": False,
            "log_bytes": None,
            "error": None,
            "not_runnable": False,
            "left": [],
        }

    def start(self) -> None:
        """Claims the nonce, then starts the script; returns once it was exec'ed, or why that failed."""
        self.wake_r, self.wake_w = os.pipe()
        os.set_blocking(self.wake_r, False)
        os.set_blocking(self.wake_w, False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self.wake_w, warn_on_full_buffer=False)
        # Before the claim: without disk space for it, nothing has begun, and the nonce may be tried again.
        self.spool = Spool(int(self.spec["spool_cap_bytes"]))
        self.records = Records()
        ranks = self.spec.get("ranks") or {}
        self.ranks = Ranks(int(ranks.get("first", 0)), min(256, int(ranks.get("count", 0))))
        unlink("stopping")
        self.stat["left"] = remaining(read_json("status.json"))
        write_status(self.stat)  # R1; an order to stop may arrive from here on
        self.oom_before = oom_kills() if LINUX else None
        if LINUX:
            prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans of the script become our children
            show_name()
        try:
            self.pid, self.reader = start_script(self.spec, self.secrets, self.records.usable)
            self.stat["pid"] = self.pid
        except NotStarted as e:
            self.stat.update(phase="failed", error=str(e), not_runnable=True, ended_at_ms=now_ms(), log_bytes=self.spool.end)
        self.secrets = {}
        write_status(self.stat)

    # -- the loop

    def supervise(self) -> None:
        self.sampler = Sampler(float(self.spec["sample_seconds"]), self.nonce, self.stat["boot_id"])
        keeper = keeper_of(self.spec)
        self.sampler.keeper = keeper
        notice = notice_of(self.spec)
        ack_delay = 0.002
        poll = select.poll()
        poll.register(self.wake_r, select.POLLIN)
        listening: int | None = None
        watching_gpus: int | None = None
        listening_to_records: set[int] = set()
        while True:
            now = time.monotonic()
            self.reap()
            self.look_for_stop()
            if self.wait_status is not None and self.ending_at is None:
                self.end(float(self.spec["stop_grace_seconds"]))
            if self.ending_at is not None:
                self.press(now)
                if self.alone:
                    break
            if keeper is not None:
                keeper.look(now, self.spool.end)
            if notice is not None and self.ending_at is None and notice.look(now):
                self.taken_back(notice.grace)
            if now >= self.sampler.due and self.ending_at is None:
                try:
                    self.sampler.begin()
                except OSError:
                    pass  # out of descriptors or memory: that costs a sample, not the run
            if self.sampler.gpus.end is not None and now >= self.sampler.gpus.end:
                self.sampler.kill_gpus()

            # At the end of a run, sampling stops and remaining processes are checked often.
            wait = 0.02 if self.ending_at is not None else min(1.0, max(0.0, self.sampler.due - now))
            if notice is not None and self.ending_at is None:
                wait = min(wait, max(0.0, notice.due - now))
            self.records.look(now)
            wait = min(wait, self.ranks.due(now))
            if not self.insert(self.records) or not self.insert(self.ranks):
                wait = min(wait, 0.02)
            wanted = self.reader
            takes_records = not self.records.ready and not self.ranks.ready
            if self.spool.pending:
                wanted = None
                if now >= self.spool.retry_at:
                    self.spool.flush()
                    wait = 0.0 if not self.spool.pending else wait
                wait = min(wait, max(0.0, self.spool.retry_at - now))
            elif self.spool.room(self.ending_at is not None) <= 0:
                self.spool.refresh_ack()
                if self.spool.room(self.ending_at is not None) <= 0:
                    if directory_gone():
                        raise RuntimeError("the run directory was removed")
                    wanted, wait = None, min(wait, ack_delay)
                    ack_delay = min(0.02, ack_delay * 2)
                else:
                    ack_delay = 0.002
            if self.spool.pending or self.spool.room(self.ending_at is not None) <= 0:
                takes_records = False
            wanted_records = {*self.records.held, *self.ranks.by_fd} if takes_records else set()
            for fd in listening_to_records - wanted_records:
                poll.unregister(fd)
            for fd in wanted_records - listening_to_records:
                poll.register(fd, select.POLLIN)
            listening_to_records = wanted_records
            if wanted != listening:
                if listening is not None:
                    poll.unregister(listening)
                if wanted is not None:
                    poll.register(wanted, select.POLLIN)
                listening = wanted
            if self.sampler.gpus.fd != watching_gpus:
                if watching_gpus is not None:
                    poll.unregister(watching_gpus)
                if self.sampler.gpus.fd is not None:
                    poll.register(self.sampler.gpus.fd, select.POLLIN)
                watching_gpus = self.sampler.gpus.fd
            for fd, _ in poll.poll(int(wait * 1000 + 0.999)):
                if fd == self.wake_r:
                    self.heard()
                elif fd in self.ranks.by_fd:
                    self.ranks.read(fd)
                    self.insert(self.ranks)
                elif fd in listening_to_records:
                    # Records first, then stdout: so a record follows the text before it.
                    if not self.records.read(fd) and fd not in self.records.held:
                        poll.unregister(fd)
                        listening_to_records.discard(fd)
                    self.pump_what_is_there()
                    for rank in self.ranks.by_fd:
                        self.ranks.read(rank)
                    self.insert(self.ranks)
                    self.insert(self.records)
                elif fd == self.reader:
                    self.pump()
                elif fd == self.sampler.gpus.fd:
                    self.sampler.read_gpus()
                    if self.sampler.gpus.fd is None:
                        poll.unregister(fd)
                        watching_gpus = None
            if self.reader is None and listening is not None:
                poll.unregister(listening)
                listening = None
        self.sampler.kill_gpus()
        self.finish()

    def pump_what_is_there(self) -> None:
        left = bytes_in(self.reader) if self.reader is not None else 0
        while left > 0 and self.reader is not None:
            before = self.spool.end + len(self.spool.pending)
            if not self.pump():
                return
            left -= self.spool.end + len(self.spool.pending) - before

    def insert(self, source: Records | Ranks) -> bool:
        """Writes whole records, or whole lines of ranks, into the log at a safe position; False if they have to
        wait."""
        if not source.ready:
            return True
        if self.spool.pending or (not self.alone and self.spool.room(self.ending_at is not None) <= 0):
            return False
        # Only a partial read splits a record of stdout, and its rest arrives at once.
        if self.inside_record is not None and time.monotonic() < self.inside_record + 1.0 and self.reader is not None:
            return False
        self.inside_record = None
        data, source.ready = source.ready, b""
        self.spool.put(data)
        return True

    def pump(self) -> bool:
        ending = self.ending_at is not None
        room = CHUNK if self.alone else min(CHUNK, self.spool.room(ending))
        if room <= 0 or self.spool.pending or self.reader is None:
            return False
        # Lines of ranks that were complete before these bytes arrived also go into the log before them.
        if self.ranks.ready and self.inside_record is None and (not self.insert(self.ranks) or self.spool.pending):
            return False
        try:
            data = read_pipe(self.reader, room)
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EINTR):
                return False
            data = b""
        if data:
            inside = self.inside_record is not None
            start = data.rfind(b"\x1e")
            if start >= 0:
                self.inside_record = time.monotonic() if data.find(b"\n", start) < 0 else None
            elif self.inside_record is not None and b"\n" in data:
                self.inside_record = None
            self.spool.put(self.ranks.beside(data, inside) if self.ranks.by_fd else data)
            return True
        os.close(self.reader)
        self.reader = None
        return False

    def heard(self) -> None:
        try:
            numbers = os.read(self.wake_r, 4096)
        except OSError:
            return
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self.look_for_stop()
            if not self.stopped:
                self.stop(float(self.spec["stop_grace_seconds"]))

    def look_for_stop(self) -> None:
        try:
            os.stat("stop")
        except OSError:
            return
        order = read_json("stop")
        if order and order.get("nonce") == self.nonce:
            self.stop(float(order.get("grace", self.spec["stop_grace_seconds"])))

    def taken_back(self, grace: float) -> None:
        """The provider announced the end of the machine: the script gets a last chance to save."""
        self.stat["preempted"] = True
        try:
            write_status(self.stat)
        except OSError:
            pass  # the end of the run writes it again
        self.stop(grace)

    def stop(self, grace: float) -> None:
        if self.wait_status is None:
            if not self.stopped:
                self.announce_stop()
            self.stopped = True
        self.end(grace)

    def announce_stop(self) -> None:
        """For `svc.should_stop()` in processes that no signal reaches, or that do not listen to it."""
        try:
            write_file("stopping", b"", False)
        except OSError:
            pass  # TERM says the same

    def end(self, grace: float) -> None:
        """Ends the run: TERM once, KILL after the grace. A later order may only shorten it."""
        now = time.monotonic()
        if self.ending_at is None:
            self.ending_at = now
            self.kill_at = now + max(0.0, grace)
            self.sampler.kill_gpus()
            self.reap()
            if not self.alone and grace > 0:
                self.signal_tree(signal.SIGTERM)
        else:
            self.kill_at = min(self.kill_at, self.ending_at + max(0.0, grace))

    def press(self, now: float) -> None:
        if not self.alone and now >= self.kill_at and now >= self.next_kill:
            if self.wait_status is None:
                self.killed_by_us = True
            self.unended_at = min(self.unended_at, now + UNENDED_SECONDS)
            if now >= self.unended_at:
                self.leave()
                return
            if not self.signal_tree(signal.SIGKILL):
                self.unended_at = min(self.unended_at, now + REFUSED_SECONDS)
            # A process that survives KILL is waiting for a device; a thousand signals a second do not help.
            self.next_kill = now + min(1.0, 0.005 + (now - self.kill_at) / 10)

    def leave(self) -> None:
        """KILL has had its time: the run ends without the processes that survived it. What they write from now on
        is not read."""
        # A dead process counts if that is all: a tracer, or a thread in the kernel, keeps it from being collected.
        left = self.tree() or [p for p in below([os.getpid()], all_processes()) if p.pid != self.sampler.gpus.pid]
        self.reap()
        if self.alone:
            return
        survivors = unended(left)
        self.stat["left"] = remaining(self.stat) + survivors
        complain("processes of the run could not be ended: %s" % named(survivors))
        for fd in [*self.ranks.by_fd, *self.records.held, *([] if self.reader is None else [self.reader])]:
            REST[fd] = bytes_in(fd)
        self.alone = True

    def tree(self) -> list[Process]:
        table = all_processes()
        found = below([os.getpid()], table)
        if not LINUX and self.pid:
            seen = {p.pid for p in found}
            found += [p for p in table if p.group == self.pid and p.pid not in seen]
        return [p for p in found if p.pid != self.sampler.gpus.pid and p.state not in (b"Z", b"X")]

    def signal_tree(self, sig: int) -> bool:
        """False if every process that is there refuses the signal."""
        tree = self.tree()
        taken = not tree
        for p in tree:
            taken = send(p, sig) or taken
            if sig == signal.SIGTERM and p.state in (b"T", b"t"):
                send(p, signal.SIGCONT)
        return taken

    def reap(self) -> None:
        """Collects dead children. With the subreaper bit, "no child" proves that every process of the run is gone
        (R3)."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                if LINUX:
                    self.alone = True
                elif self.ending_at is not None and time.monotonic() >= self.next_look:
                    self.next_look = time.monotonic() + 0.05
                    self.alone = not self.tree()
                return
            if pid == 0:
                break
            if pid == self.sampler.gpus.pid:
                self.sampler.gpus.pid = None
                continue
            self.sampler.reaped_cpu += usage.ru_utime + usage.ru_stime
            if pid == self.pid:
                self.wait_status = status
        # A GPU query that hangs in its driver cannot be killed; it does not belong to the run.
        if self.ending_at is not None and self.sampler.gpus.pid is not None and self.wait_status is not None:
            self.alone = not self.tree()

    def finish(self) -> None:
        """No process of the run is alive, or none that is waited for: the pipe's content is final."""
        while True:
            # Bytes that wait for a full disk come first: `pump` reads nothing while it waits, and that is not the
            # pipe's end.
            while self.spool.pending:
                time.sleep(max(0.0, self.spool.retry_at - time.monotonic()))
                self.spool.flush()
            if self.reader is not None:
                if self.ranks.ready and self.inside_record is None:
                    self.insert(self.ranks)
                    continue
                if not self.pump() and self.reader is not None:
                    os.close(self.reader)
                    self.reader = None
            elif self.ranks.drain():
                self.insert(self.ranks)
            elif self.records.drain():
                self.insert(self.records)
            else:
                break
        status = self.wait_status
        if status is None:
            words = "the script could not be ended: %s" % named(self.stat["left"])
            self.stat.update(phase="failed", error=words + "; it belongs to another user, or waits for a device")
        elif os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            self.stat.update(phase="exited", exit_code=128 + number, signal=signal_name(number))
        else:
            self.stat.update(phase="exited", exit_code=os.WEXITSTATUS(status))
        if self.stat["exit_code"] == 137 and not self.killed_by_us and self.oom_before is not None:
            after = oom_kills()
            self.stat["oom"] = after is not None and after > self.oom_before
        self.stat.update(ended_at_ms=now_ms(), stopped=self.stopped, log_bytes=self.spool.end)
        while True:
            try:
                self.spool.sync()
                write_status(self.stat)
                return
            except OSError as e:
                if directory_gone():
                    return
                complain("writing the end of the run: %s" % e)
                self.spool.relieve()
                time.sleep(0.5)
