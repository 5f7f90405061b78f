#!/usr/bin/env python3
"""Supervises one run in one directory: starts the script, spools its output, samples the machine, writes its end.

docs/internals/runner.md tells the protocol; the rules below are cited by code and tests.

R1. One nonce starts at most once, whatever is repeated and whoever dies in between: the claim is on disk before the fork.
R2. A byte that the script wrote is never dropped and never written twice; without room for it, the script waits.
R3. `exited` is written only when no process of the run is left, and after the whole log.
R4. No process is signalled for its name or its bare number: it is a descendant, carries the nonce, or has the recorded
    start time of this boot.
R5. What cannot be measured is null, never 0.

Python 3.8 or newer and its standard library. Run with `python3 -I -S`; imports are few because they are most of the time
between `start` and the script's first instruction (`json` and `signal` alone would cost 9 ms).
"""

import errno
import fcntl
import os
import select
import sys
import time

try:
    import _signal as signal
except ImportError:  # another Python than CPython
    import signal

LINUX = sys.platform.startswith("linux") and not os.environ.get("SVC_RUNNER_PORTABLE")
SEGMENT_MAX = 64 << 20
CHUNK = 256 << 10
INDEX_MS = 50
# While the run is being ended its last words may go this far over the cap: a blocked script could not save its state.
ENDING_ROOM = 64 << 20
# No file that is read as a whole is larger.
FILE_BYTES_MAX = 64 << 20
# The named pipe of the run directory for records (docs/adr/0022), and how many that a script has removed are still read.
RECORDS = "records"
RECORD_BYTES_MAX = 64 << 10
REMOVED_MAX = 32
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


# ---- JSON, without the 6 ms that importing `json` takes -------------------------------------------------------------

def parse_json(data):
    text = data.decode("utf-8")
    try:
        from _json import make_scanner

        class Context:
            strict, memo = True, {}
            object_hook = object_pairs_hook = None
            parse_float, parse_int, parse_constant = float, int, float

        value, end = make_scanner(Context)(text.strip(), 0)
        if end != len(text.strip()):
            raise ValueError("trailing data")
        return value
    except (ImportError, AttributeError, TypeError, StopIteration, SystemError):  # of a text that is cut off, it may raise any
        import json

        return json.loads(text)


def quote(text):
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json import dumps as encode_basestring_ascii
    return encode_basestring_ascii(text)


def to_json(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(quote(k) + ":" + to_json(v) for k, v in value.items()) + "}"
    return "[" + ",".join(to_json(v) for v in value) + "]"


# ---- Files of the run directory (the current directory) -------------------------------------------------------------

def read_file(path):
    """The file's bytes, or None when there is none. A pipe that the script put in its place is not waited for, and is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENXIO):
            return None
        raise
    try:
        if os.fstat(fd).st_mode & 0o170000 != 0o100000:
            return None
        parts, left = [], FILE_BYTES_MAX
        while left > 0:
            part = os.read(fd, min(65536, left))
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def read_json(path):
    data = read_file(path)
    if not data:
        return None
    try:
        value = parse_json(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_file(path, data, durable):
    """Replaces the file as a whole: a reader sees the old or the new one."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    unlink(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view):]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        unlink(temporary)
        raise
    if durable:
        sync_directory(".")


def sync_directory(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


def unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def write_status(status):
    write_file("status.json", to_json(status).encode() + b"\n", True)


def complain(words):
    try:
        os.write(2, ("%s %s\n" % (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), words)).encode("utf-8", "replace"))
    except OSError:
        pass


def directory_gone():
    """Whether somebody removed the run directory: then nobody will read what is written, and nobody will come."""
    try:
        os.getcwd()
        return False
    except OSError as e:
        return e.errno == errno.ENOENT


def now_ms():
    return time.time_ns() // 1000000


def segments():
    """Start offsets of the spool's segments, ascending."""
    try:
        return sorted(int(name) for name in os.listdir("spool") if name.isdigit())
    except OSError:
        return []


def segment_path(start):
    return "spool/%012d" % start


def spool_end():
    starts = segments()
    if not starts:
        return 0
    try:
        return starts[-1] + os.stat(segment_path(starts[-1])).st_size
    except OSError:
        return starts[-1]


class Lock:
    """`runner.lock`: held for life by a runner, briefly by stop and sweep. The kernel drops it with its last holder."""

    def __init__(self):
        self.fd = os.open("runner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self):
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise


# ---- Processes ------------------------------------------------------------------------------------------------------

class Process:
    __slots__ = ("pid", "ppid", "group", "state", "start", "cpu")

    def __init__(self, pid, ppid, group, state, start, cpu):
        self.pid, self.ppid, self.group, self.state, self.start, self.cpu = pid, ppid, group, state, start, cpu


def process(pid):
    """One process, or None. `cpu` is in clock ticks and includes children that it has waited for."""
    try:
        data = read_file("/proc/%d/stat" % pid)
    except OSError:
        return None
    if not data:
        return None
    f = data[data.rindex(b")") + 2:].split()
    return Process(pid, int(f[1]), int(f[2]), f[0], int(f[19]), int(f[11]) + int(f[12]) + int(f[13]) + int(f[14]))


def all_processes():
    if LINUX:
        found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())
        return [p for p in found if p]
    rows = []
    looker, output = run_and_read(["ps", "-A", "-o", "pid=,ppid=,pgid=,state="])
    for row in output.split(b"\n"):
        f = row.split()
        if len(f) >= 4 and int(f[0]) != looker:
            rows.append(Process(int(f[0]), int(f[1]), int(f[2]), f[3][:1], 0, 0))
    return rows


def run_and_read(argv):
    """Number and output of a short command; for systems without /proc only."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(w, 1)
            os.execvp(argv[0], argv)
        finally:
            os._exit(127)
    os.close(w)
    parts = []
    while True:
        part = os.read(r, 65536)
        if not part:
            break
        parts.append(part)
    os.close(r)
    try:
        os.waitpid(pid, 0)
    except OSError:
        pass
    return pid, b"".join(parts)


def start_time(pid):
    p = process(pid) if LINUX else None
    return p.start if p else 0


def boot_id():
    try:
        return (read_file("/proc/sys/kernel/random/boot_id") or b"").decode().strip() if LINUX else ""
    except OSError:
        return ""


def below(roots, table):
    """Those of `table` whose chain of parents leads to one of `roots` (which are not included)."""
    children = {}
    for p in table:
        children.setdefault(p.ppid, []).append(p)
    found, todo, seen = [], list(roots), set(roots)
    while todo:
        for p in children.get(todo.pop(), ()):
            if p.pid not in seen:
                seen.add(p.pid)
                found.append(p)
                todo.append(p.pid)
    return found


def send(p, sig):
    """Signals exactly this process (R4): between the look and the signal its number may have changed hands."""
    fd = None
    try:
        if LINUX and hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            try:
                fd = os.pidfd_open(p.pid)
            except OSError as e:
                if e.errno == errno.ESRCH:
                    return
        if LINUX and start_time(p.pid) != p.start:
            return
        if fd is None:
            os.kill(p.pid, sig)
        else:
            signal.pidfd_send_signal(fd, sig)
    except OSError as e:
        if e.errno not in (errno.ESRCH, errno.EPERM):
            raise
    finally:
        if fd is not None:
            os.close(fd)


def marked(nonces):
    """Living processes that belong to a run whose runner is gone: by nonce, by recorded identity, and all below those."""
    table = [p for p in all_processes() if p.state not in (b"Z", b"X") and p.pid != os.getpid()]
    if not LINUX:
        status = read_json("status.json") or {}
        return [p for p in table if status.get("pid") and p.group == status["pid"]]
    marks = [b"SVC_RUN_NONCE=" + n.encode() for n in nonces if n]
    known = set()
    members = read_json("members.json") or {}
    if members.get("nonce") in nonces and members.get("boot_id") == boot_id():
        known = {(m[0], m[1]) for m in members.get("processes", [])}
    found = {}
    for p in table:
        hit = (p.pid, p.start) in known
        if not hit:
            try:
                names = (read_file("/proc/%d/environ" % p.pid) or b"").split(b"\0")
            except OSError:
                continue
            hit = any(m in names for m in marks)
        if hit:
            found[p.pid] = p
    for p in below(list(found), table):
        found[p.pid] = p
    return list(found.values())


def kill_marked(nonces, grace):
    """TERM, grace, KILL for what a dead runner left; returns what is still there after that."""
    left = marked(nonces)
    if left and grace > 0:
        for p in left:
            send(p, signal.SIGTERM)
            if p.state in (b"T", b"t"):
                send(p, signal.SIGCONT)
        end = time.monotonic() + grace
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = marked(nonces)
    end = time.monotonic() + 10
    while left and time.monotonic() < end:
        for p in left:
            send(p, signal.SIGKILL)
        time.sleep(0.01)
        left = marked(nonces)
    return left


def prctl(option, value):
    """Linux only. `_ctypes` alone loads in a tenth of the time of `ctypes`."""
    try:
        import _ctypes

        return _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"), (option, value, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        try:
            import ctypes

            return ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
        except (ImportError, AttributeError, OSError):
            return -1


def signal_name(number):
    for name in dir(signal):
        if name.startswith("SIG") and name[3] != "_" and name not in ("SIGCLD", "SIGIOT", "SIGPOLL"):
            if getattr(signal, name) == number:
                return name
    return "SIG%d" % number


def oom_kills():
    """How many processes the kernel's out-of-memory killer has ended here, or None."""
    try:
        for row in (read_file("/proc/self/cgroup") or b"").decode().split("\n"):
            number, _, rest = row.partition(":")
            controllers, _, path = rest.partition(":")
            if number == "0" and not controllers:
                place, field = "/sys/fs/cgroup%s/memory.events" % path, b"oom_kill "
            elif "memory" in controllers.split(","):
                place, field = "/sys/fs/cgroup/memory%s/memory.oom_control" % path, b"oom_kill "
            else:
                continue
            for line in (read_file(place) or b"").split(b"\n"):
                if line.startswith(field):
                    return int(line.split()[1])
        for line in (read_file("/proc/vmstat") or b"").split(b"\n"):
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


# ---- The spool ------------------------------------------------------------------------------------------------------

class Spool:
    """Appends bytes by absolute offset. `pwrite` makes a write that failed half-way harmless to repeat (R2)."""

    def __init__(self, cap):
        if not os.path.isdir("spool"):
            os.mkdir("spool", 0o700)
        self.cap = max(1, cap)
        self.segment = min(SEGMENT_MAX, max(65536, self.cap // 4))
        self.fd = None
        self.start = self.end = spool_end()
        self.pending = b""
        self.acked = 0
        self.retry_at = 0.0
        self.retry_delay = 0.0
        self.complained = False
        self.index_fd = os.open("spool.idx", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.index_end = os.fstat(self.index_fd).st_size // 16 * 16
        self.index_ms = 0
        if not os.path.exists("acked"):
            # Made now and overwritten later: on a full disk an acknowledgement must not need room, for it makes room.
            write_file("acked", b"%020d %020d\n" % (0, 0), False)
        self.refresh_ack()

    def refresh_ack(self):
        """Reads how far the log is safe at home and drops segments wholly below that."""
        try:
            numbers = [int(word) for word in (read_file("acked") or b"0").split()]
        except (ValueError, OSError):
            return
        acked = numbers[0] if numbers else 0
        if numbers[1:] not in ([], [acked]):
            return  # seen in the middle of being overwritten
        if acked <= self.acked:
            return
        self.acked = min(acked, self.end)
        starts = segments()
        for start, following in zip(starts, starts[1:]):
            if following <= self.acked:
                unlink(segment_path(start))

    def room(self, ending):
        return self.cap + (ENDING_ROOM if ending else 0) - (self.end + len(self.pending) - self.acked)

    def put(self, data):
        self.pending = memoryview(data)
        self.stamp()
        self.flush()

    def flush(self):
        """Writes what is pending; on a full or failing disk keeps it and names the time to try again."""
        try:
            while self.pending:
                if self.fd is None or self.end - self.start >= self.segment:
                    self.roll()
                take = self.pending[: self.start + self.segment - self.end]
                n = os.pwrite(self.fd, take, self.end - self.start)
                self.end += n
                self.pending = self.pending[n:]
            self.retry_delay = 0.0
            if self.complained:
                self.complained = False
                complain("the log can be written again")
        except OSError as e:
            if directory_gone():
                raise RuntimeError("the run directory was removed")
            if e.errno not in FULL_DISK:
                complain("writing the log: %s" % e)
            elif not self.complained:
                complain("the log waits for the disk: %s" % os.strerror(e.errno))
            self.complained = True
            self.relieve()
            self.retry_delay = min(0.5, max(0.02, self.retry_delay * 2))
            self.retry_at = time.monotonic() + self.retry_delay

    def roll(self):
        fd = os.open(segment_path(self.end), os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        if self.fd is not None:
            os.close(self.fd)
            if len(segments()) > 2:
                self.acked, seen = -1, self.acked
                self.refresh_ack()
                self.acked = max(self.acked, seen)
        self.fd, self.start = fd, self.end

    def relieve(self):
        """On a full disk: when everything so far is safe at home, its room can be had at once."""
        self.refresh_ack()
        if self.fd is not None and self.acked >= self.end > self.start:
            os.close(self.fd)
            self.fd = None
            unlink(segment_path(self.start))
            try:
                # Its name keeps the end of the log findable for whoever comes after this runner.
                self.fd = os.open(segment_path(self.end), os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
                self.start = self.end
            except OSError:
                pass

    def stamp(self):
        ms = now_ms()
        if ms - self.index_ms < INDEX_MS and ms >= self.index_ms:
            return
        record = self.end.to_bytes(8, "little") + ms.to_bytes(8, "little")
        try:
            if os.pwrite(self.index_fd, record, self.index_end) == 16:
                self.index_end += 16
                self.index_ms = ms
        except OSError:
            pass  # times are a convenience; the bytes are not

    def sync(self):
        if self.fd is not None:
            os.fsync(self.fd)
        sync_directory("spool")


# ---- Records --------------------------------------------------------------------------------------------------------

def bytes_in(fd):
    """How many bytes a pipe holds now."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, 0x541B if LINUX else 0x4004667F, b"\0\0\0\0"), sys.byteorder)  # FIONREAD
    except OSError:
        return 0


class Records:
    """A named pipe that takes metrics and announcements of any process of the run, wherever its stdout goes.

    A record is one line, written at once. The runner copies whole lines from here into the spool, between what it reads
    from stdout, so the control plane needs to know of one stream only.
    """

    def __init__(self):
        self.held = {}  # by descriptor: bytes of a line whose end has not come
        self.ready = b""
        self.writer = None
        self.identity = None
        self.looked_at = 0.0
        self.given_up = False
        self.make()

    def make(self):
        """Makes the pipe anew. Without one (a file system that has none) records use stdout."""
        try:
            if not os.path.isdir(RECORDS):
                unlink(RECORDS)
            os.mkfifo(RECORDS, 0o600)
            reader = os.open(RECORDS, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # While the runner has an end to write at, the pipe has no end of file.
            self.writer = os.open(RECORDS, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as e:
            complain("making the pipe for records: %s; metrics use stdout" % e)
            self.given_up = True
            return
        try:
            fcntl.fcntl(reader, 1031, 1 << 20)  # F_SETPIPE_SZ
        except OSError:
            pass
        found = os.fstat(reader)
        self.identity = (found.st_dev, found.st_ino)
        self.held[reader] = b""

    @property
    def usable(self):
        return self.writer is not None

    def look(self, now):
        """Once a second: a pipe that the script removed or replaced is made again; who has the old one open is still read."""
        if self.given_up or now < self.looked_at + 1.0:
            return
        self.looked_at = now
        try:
            found = os.lstat(RECORDS)
            if (found.st_dev, found.st_ino) == self.identity:
                return
        except OSError:
            if directory_gone():
                return
        complain("the pipe for records (%s/%s) was removed or replaced; it is made again" % (os.getcwd(), RECORDS))
        os.close(self.writer)
        self.writer = None
        if len(self.held) >= REMOVED_MAX:
            self.given_up = True
            return
        self.make()

    def read(self, fd):
        """Takes what is there; True where something was."""
        try:
            data = os.read(fd, RECORD_BYTES_MAX)
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EINTR):
                return False
            data = b""
        line = self.held[fd] + data
        end = line.rfind(b"\n") + 1
        if not data or len(line) - end > RECORD_BYTES_MAX:
            end = len(line)
        self.ready += line[:end]
        self.held[fd] = line[end:]
        if not data:  # removed, and the last process that had it open has ended
            del self.held[fd]
            os.close(fd)
        return bool(data)

    def drain(self):
        """Nothing of the run lives: all that is left, also the half of a line."""
        for fd in list(self.held):
            while len(self.ready) < CHUNK and self.read(fd):
                pass
        if not self.ready:
            self.ready = b"".join(self.held.values())
            self.held = dict.fromkeys(self.held, b"")
        return bool(self.ready)


# ---- Lines of several ranks -----------------------------------------------------------------------------------------

class Rank:
    """What one rank has written and has not been put into the log yet: less than a line."""

    __slots__ = ("number", "fd", "held", "since", "prefix")

    def __init__(self, number, fd):
        self.number, self.fd, self.held, self.since = number, fd, b"", 0.0
        self.prefix = b"[rank%d] " % number


class Ranks:
    """A pipe for each rank of this node: the launcher gives it to the rank as stdout and stderr.

    Whole lines go into the log, each with its rank before it, so no line has bytes of two processes. A state of a progress
    bar (what follows a carriage return) goes there when the next one comes, or after a moment. Text without a line end waits
    longer, and 64 KiB at most. No byte of a rank is left out.
    """

    BAR_SECONDS, TEXT_SECONDS = 0.3, 5.0

    def __init__(self, first, count):
        self.by_fd = {}
        self.writers = []
        self.ready = b""
        # Whose line is open at the end of the log: None where it ends with a whole line, -1 for stdout.
        self.owner = None
        try:
            if count > 0 and not os.path.isdir("ranks"):
                os.mkdir("ranks", 0o700)
            for number in range(first, first + count):
                path = "ranks/%d" % number
                unlink(path)
                os.mkfifo(path, 0o600)
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    fcntl.fcntl(fd, 1031, 1 << 20)  # F_SETPIPE_SZ
                except OSError:
                    pass
                self.by_fd[fd] = Rank(number, fd)
                self.writers.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as e:
            complain("making the pipes of the ranks: %s; those without one use stdout" % e)

    def read(self, fd):
        rank = self.by_fd[fd]
        try:
            data = os.read(fd, RECORD_BYTES_MAX)
        except OSError:
            return False
        if not rank.held:
            rank.since = time.monotonic()
        rank.held += data
        self.cut(rank)
        return bool(data)

    def cut(self, rank):
        """Puts lines and states that are whole into `ready`."""
        while True:
            end = rank.held.find(b"\n") + 1
            record = rank.held.find(b"\x1esvc1:", 0, end or len(rank.held))
            if record >= 0:
                # A record of a process without the pipe for records: it stands alone, and the text before it is joined.
                if not end and len(rank.held) - record <= RECORD_BYTES_MAX:
                    return
                end = end or len(rank.held)
                self.ready += rank.held[record:end]
                rank.held = rank.held[:record] + rank.held[end:]
                continue
            bar = rank.held.find(b"\r", 1, (end or len(rank.held)) - (2 if end else 1))
            if bar > 0:
                self.put(rank, rank.held[:bar])
                rank.held = rank.held[bar:]
            elif end or len(rank.held) > RECORD_BYTES_MAX:
                end = end or RECORD_BYTES_MAX
                self.put(rank, rank.held[:end])
                rank.held = rank.held[end:]
            else:
                return
            rank.since = time.monotonic()

    def put(self, rank, text):
        if self.owner not in (None, rank.number):
            self.ready += b"\n"
            self.owner = None
        bare = text.lstrip(b"\r")
        starts = self.owner is None or len(bare) < len(text)
        # torch puts the rank before the lines of a traceback by itself.
        if starts and bare and not bare.startswith(rank.prefix.rstrip()):
            text = text[: len(text) - len(bare)] + rank.prefix + bare
        self.ready += text
        self.owner = None if text.endswith(b"\n") else rank.number

    def due(self, now, final=False):
        """Puts what has waited long enough; returns how long the next may wait."""
        wait = 1.0
        for rank in self.by_fd.values():
            if not rank.held or rank.held.find(b"\x1esvc1:") >= 0 and not final:
                continue
            left = rank.since + (self.BAR_SECONDS if rank.held[:1] == b"\r" else self.TEXT_SECONDS) - now
            if left <= 0 or final:
                self.put(rank, rank.held)
                rank.held = b""
            else:
                wait = min(wait, left)
        return wait

    def beside(self, data, inside_record):
        """What stdout has, as it goes into the log: not into the open line of a rank."""
        if inside_record:
            return data
        if self.owner is not None and self.owner >= 0:
            data = b"\n" + data
        self.owner = None if data.endswith(b"\n") else -1
        return data

    def drain(self):
        for fd in list(self.by_fd):
            while len(self.ready) < CHUNK and self.read(fd):
                pass
        if not self.ready:
            self.due(time.monotonic(), True)
        return bool(self.ready)


# ---- Samples --------------------------------------------------------------------------------------------------------

def terminal_idle():
    """Seconds since a key was pressed at the terminal that was used last; None where there is no terminal.

    By the time of the last read, as `w` tells it: what a forgotten `watch` prints is nobody's presence.
    """
    least = None
    try:
        for name in os.listdir("/dev/pts") if LINUX else []:
            if name.isdigit():
                idle = max(0.0, time.time() - os.stat("/dev/pts/" + name).st_atime)
                least = idle if least is None else min(least, idle)
    except OSError:  # closed meanwhile, or none of ours to see
        pass
    return least if least is None else round(least, 1)


class Sampler:
    """What the run uses. The first sample follows after a second, then one every `seconds`."""

    def __init__(self, seconds, nonce, boot):
        self.seconds = max(0.1, seconds)
        self.nonce, self.boot = nonce, boot
        self.tick = os.sysconf("SC_CLK_TCK")
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.at = time.monotonic()
        self.due = self.at + min(1.0, self.seconds)
        self.cpu = 0.0
        self.reaped_cpu = 0.0
        self.disk = 0
        self.net = self.net_bytes()
        self.members = None
        self.keeper = None
        self.fd = None
        self.sample = None
        self.smi_pid = self.smi_fd = self.smi_end = None
        self.smi_out = b""
        self.smi_path = None
        usual = ["/usr/bin", "/opt/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"]
        for folder in os.environ.get("PATH", "").split(":") + usual:
            if folder and os.access(folder + "/nvidia-smi", os.X_OK):
                self.smi_path = folder + "/nvidia-smi"
                break

    def net_bytes(self):
        try:
            rows = (read_file("/proc/net/dev") or b"").split(b"\n")[2:] if LINUX else []
            total, seen = 0, False
            for row in rows:
                name, colon, rest = row.partition(b":")
                if colon and name.strip() != b"lo":
                    f = rest.split()
                    total, seen = total + int(f[0]) + int(f[8]), True
            return total if seen else None
        except (OSError, ValueError, IndexError):
            return None

    def begin(self):
        now = time.monotonic()
        self.due = now + self.seconds
        s = {"at_ms": now_ms(), "cpu_cores": None, "memory_bytes": None, "disk_bytes_per_s": None,
             "net_bytes_per_s": None, "processes": None, "terminal_idle_seconds": terminal_idle(), "gpus": None}
        seconds = max(0.001, now - self.at)
        if LINUX:
            tree = [p for p in below([os.getpid()], all_processes()) if p.pid != self.smi_pid and p.state != b"Z"]
            s["processes"] = len(tree)
            self.remember(tree)
            cpu = sum(p.cpu for p in tree) / self.tick + self.reaped_cpu
            if cpu >= self.cpu:
                s["cpu_cores"] = round((cpu - self.cpu) / seconds, 4)
            self.cpu = cpu
            s["memory_bytes"] = self.memory(tree)
            disk = self.disk_bytes(tree)
            if disk is not None and self.disk is not None and disk >= self.disk:
                s["disk_bytes_per_s"] = round((disk - self.disk) / seconds, 1)
            self.disk = disk
            net = self.net_bytes()
            if net is not None and self.net is not None and net >= self.net:
                s["net_bytes_per_s"] = round((net - self.net) / seconds, 1)
            self.net = net
        self.at = now
        if self.smi_path and self.smi_pid is None:
            self.sample = s
            self.ask_gpus()
        else:
            self.write(s)

    def remember(self, tree):
        """Identities of the run's processes, for a sweep that finds neither this runner nor their environment."""
        members = sorted((p.pid, p.start) for p in tree)
        if members != self.members:
            self.members = members
            record = {"nonce": self.nonce, "boot_id": self.boot, "processes": [list(m) for m in members]}
            try:
                write_file("members.json", to_json(record).encode(), False)
            except OSError:
                self.members = None

    def memory(self, tree):
        total, seen = 0, False
        for p in tree:
            try:
                f = (read_file("/proc/%d/statm" % p.pid) or b"").split()
            except OSError:
                continue
            if len(f) > 1:
                total, seen = total + int(f[1]) * self.page, True
        return total if seen else None

    def disk_bytes(self, tree):
        total, seen = 0, False
        for p in tree:
            try:
                rows = (read_file("/proc/%d/io" % p.pid) or b"").split(b"\n")
            except OSError as e:
                if e.errno == errno.ESRCH:
                    continue
                return None
            for row in rows:
                if row.startswith((b"read_bytes:", b"write_bytes:")):
                    total, seen = total + int(row.split()[1]), True
        return total if seen else None

    def ask_gpus(self):
        r, w = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(r)
            os.close(w)
            return self.finish_gpus(None)
        if pid == 0:
            try:
                os.setsid()
                os.dup2(w, 1)
                null = os.open("/dev/null", os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 2)
                default_signals()
                os.execv(self.smi_path, [self.smi_path, "--format=csv,noheader,nounits", "--query-gpu=index,"
                         "utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu"])
            finally:
                os._exit(127)
        os.close(w)
        os.set_blocking(r, False)
        self.smi_pid, self.smi_fd, self.smi_out, self.smi_end = pid, r, b"", time.monotonic() + 10

    def read_gpus(self):
        try:
            data = os.read(self.smi_fd, 65536)
        except OSError as e:
            if e.errno == errno.EAGAIN:
                return
            data = b""
        self.smi_out += data
        if not data or len(self.smi_out) > 1 << 20:
            self.finish_gpus(self.parse_gpus())

    def parse_gpus(self):
        def number(text):
            try:
                value = float(text)
                return value if abs(value) < 1e12 else None
            except ValueError:
                return None

        gpus = []
        for row in self.smi_out.decode("utf-8", "replace").split("\n"):
            f = [x.strip() for x in row.split(",")]
            if len(f) == 6 and f[0].isdigit():
                v = [number(x) for x in f[1:]]
                gpus.append({"index": int(f[0]), "util_percent": v[0], "memory_used_mib": v[1],
                             "memory_total_mib": v[2], "power_watts": v[3], "temperature_c": v[4]})
        return gpus or None

    def finish_gpus(self, gpus):
        if self.smi_fd is not None:
            os.close(self.smi_fd)
            self.smi_fd = self.smi_end = None
        if self.sample is not None:
            self.sample["gpus"] = gpus
            self.write(self.sample)
            self.sample = None

    def kill_gpus(self):
        """Over time, or the run ends: the reading is unknown. The process is ours until it is reaped."""
        if self.smi_pid is not None:
            try:
                os.kill(self.smi_pid, signal.SIGKILL)
            except OSError:
                pass
        self.finish_gpus(None)

    def write(self, sample):
        if self.keeper is not None:
            self.keeper.note(sample)
        data = to_json(sample).encode() + b"\n"
        try:
            if self.fd is None:
                self.fd = os.open("samples.jsonl", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            end = os.fstat(self.fd).st_size
            try:
                whole = os.pwrite(self.fd, data, end) == len(data)
            except OSError:
                whole = False
            if not whole:
                os.ftruncate(self.fd, end)
        except OSError:
            pass  # a full disk costs a sample, not the run


# ---- The machine's own deadline (docs/internals/guard.md) -----------------------------------------------------------------------

def move_keep(path, until):
    """Moves the second of uptime until which the machine is kept forward, never back.

    In place: that needs no room on a full disk and no right to the folder, and so few bytes are seen old or new.
    """
    text = b"%d\n" % until
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    try:
        old = os.pread(fd, 64, 0).strip()
        if not (old.isdigit() and len(old) <= 9 and int(old) >= until):
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
    finally:
        os.close(fd)


class Keeper:
    """Keeps a guarded machine for as long as the run works; nothing that goes wrong here is the run's concern."""

    def __init__(self, order, sample_seconds):
        self.path, self.grace = order["file"], float(order["grace_seconds"])
        self.idle = float(order["idle_seconds"])
        self.every = min(10.0, self.grace / 3)
        self.gap = max(60.0, 3 * sample_seconds)
        self.due = 0.0
        self.worked_at = self.sampled_at = time.monotonic()
        self.log_end = 0
        self.complained = False

    def note(self, sample):
        """A sample that tells neither CPU nor GPU proves nothing, and counts as work."""
        self.sampled_at = time.monotonic()
        cpu = sample["cpu_cores"]
        use = [g["util_percent"] for g in sample["gpus"] or () if g["util_percent"] is not None]
        if (cpu is None and not use or (cpu or 0) >= 0.05 or max(use, default=0) >= 5
                or (sample["disk_bytes_per_s"] or 0) >= 1e6 or (sample["net_bytes_per_s"] or 0) >= 1e5):
            self.worked_at = self.sampled_at
        if sample["terminal_idle_seconds"] is not None:
            self.worked_at = max(self.worked_at, self.sampled_at - sample["terminal_idle_seconds"])

    def look(self, now, log_end):
        if log_end != self.log_end:
            self.log_end, self.worked_at = log_end, now
        if now < self.due:
            return
        if self.idle > 0 and now - self.worked_at > self.idle and now - self.sampled_at <= self.gap:
            return
        self.due = now + self.every
        try:
            move_keep(self.path, int(float(read_file("/proc/uptime").split()[0]) + self.grace))
        except (OSError, ValueError, AttributeError, IndexError) as e:
            if not self.complained:
                self.complained = True
                complain("keeping the machine: %s" % e)


def keeper_of(spec):
    try:
        return Keeper(spec["keep"], float(spec["sample_seconds"])) if spec.get("keep") and LINUX else None
    except (KeyError, TypeError, ValueError) as e:
        complain("keeping the machine: %r" % e)
        return None


# ---- The run --------------------------------------------------------------------------------------------------------

def default_signals():
    for number in range(1, getattr(signal, "NSIG", 65)):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError, RuntimeError):
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


class Run:
    def __init__(self, spec, secrets):
        self.spec, self.secrets = spec, secrets
        self.nonce = spec["nonce"]
        self.reader = None
        # Whether the spool ends inside a record that came by stdout, and since when: no other goes in between.
        self.inside_record = None
        self.pid = None
        self.wait_status = None
        self.alone = False
        self.stopped = False
        self.killed_by_us = False
        self.ending_at = None
        self.kill_at = None
        self.next_kill = self.next_look = 0.0
        self.stat = {
            "phase": "running", "nonce": self.nonce, "runner_pid": os.getpid(), "runner_start": start_time(os.getpid()),
            "boot_id": boot_id(), "pid": None, "started_at_ms": now_ms(), "ended_at_ms": None, "exit_code": None,
            "signal": None, "stopped": False, "oom": False, "log_bytes": None, "error": None,
        }

    def start(self):
        """Claims the nonce, then starts the script; returns once it was exec'ed, or why it could not be."""
        self.wake_r, self.wake_w = os.pipe()
        os.set_blocking(self.wake_r, False)
        os.set_blocking(self.wake_w, False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self.wake_w, warn_on_full_buffer=False)
        # Before the claim: where there is no room for it, nothing was begun, and the nonce may be tried again.
        self.spool = Spool(int(self.spec["spool_cap_bytes"]))
        self.records = Records()
        ranks = self.spec.get("ranks") or {}
        self.ranks = Ranks(int(ranks.get("first", 0)), min(256, int(ranks.get("count", 0))))
        write_status(self.stat)  # R1; from here on an order to stop may come
        self.oom_before = oom_kills() if LINUX else None
        if LINUX:
            prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: whatever the script leaves behind becomes our child
        error = self.launch()
        self.stat["pid"] = self.pid
        if error:
            self.stat.update(phase="failed", error=error, ended_at_ms=now_ms(), log_bytes=self.spool.end)
        write_status(self.stat)

    def environment(self):
        env = dict(os.environb)
        for changes in (self.spec.get("env") or {}, self.secrets):
            for name, value in changes.items():
                key = name.encode("utf-8", "surrogateescape")
                if value is None:
                    env.pop(key, None)
                else:
                    env[key] = value.encode("utf-8", "surrogateescape")
        env[b"SVC_RUN_NONCE"] = self.nonce.encode()
        env[b"SVC_RUN_DIR"] = os.fsencode(os.getcwd())
        env.pop(b"SVC_RECORDS", None)
        if self.records.usable:
            env[b"SVC_RECORDS"] = env[b"SVC_RUN_DIR"] + b"/" + RECORDS.encode()
        return env

    def launch(self):
        try:
            argv = [a.encode("utf-8", "surrogateescape") for a in self.spec["argv"]]
            env = self.environment()
        except UnicodeError:
            return "exec: an argument or a variable is not well-formed Unicode"
        if any(b"\0" in a for a in argv) or any(b"\0" in k + v for k, v in env.items()):
            return "exec: an argument or a variable holds a NUL character"
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
            return "exec: no new process can be made: %s" % os.strerror(e.errno)
        if pid == 0:
            self.become_script(argv, env, out_w, fail_w, runner)
        os.close(out_w)
        os.close(fail_w)
        failure = b""
        while True:
            part = os.read(fail_r, 4096)
            if not part:
                break
            failure += part
        os.close(fail_r)
        self.secrets = {}
        if failure:
            os.close(out_r)
            os.waitpid(pid, 0)
            return failure.decode("utf-8", "replace")
        self.pid, self.reader = pid, out_r
        os.set_blocking(out_r, False)
        return None

    def become_script(self, argv, env, out_w, fail_w, runner):
        words = "exec: "
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
            words = "cwd: the working directory %s " % self.spec["cwd"]
            os.chdir(self.spec["cwd"].encode("utf-8", "surrogateescape"))
            if isinstance(self.spec.get("umask"), int):
                os.umask(self.spec["umask"])
            words = "exec: %s " % self.spec["argv"][0]
            os.execvpe(argv[0], argv, env)
        except OSError as e:
            why = {errno.ENOENT: "does not exist", errno.EACCES: "may not be executed", errno.ENOTDIR: "is not a folder",
                   errno.ENOEXEC: "is not a program that this system can run",
                   errno.E2BIG: "cannot start: its arguments and environment are too long"}.get(e.errno)
            if e.errno == errno.ENOENT and words.startswith("exec") and os.path.exists(argv[0]):
                why = "begins with `%s`, and there is no such interpreter on this machine" % first_line(argv[0])
            if e.errno == errno.EACCES and words.startswith("cwd"):
                why = "may not be entered"
            os.write(fail_w, (words + (why or os.strerror(e.errno))).encode("utf-8", "replace"))
        except BaseException as e:  # nothing of this process may go on as a second runner
            os.write(fail_w, (words + str(e)).encode("utf-8", "replace"))
        finally:
            os._exit(127)

    # -- the loop

    def supervise(self):
        self.sampler = Sampler(float(self.spec["sample_seconds"]), self.nonce, self.stat["boot_id"])
        keeper = self.sampler.keeper = keeper_of(self.spec)
        ack_delay = 0.002
        poll = select.poll()
        poll.register(self.wake_r, select.POLLIN)
        listening = watching_gpus = None
        listening_to_records = set()
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
            if now >= self.sampler.due and self.ending_at is None:
                try:
                    self.sampler.begin()
                except OSError:
                    pass  # no descriptor or memory is left: that costs a sample, not the run
            if self.sampler.smi_end is not None and now >= self.sampler.smi_end:
                self.sampler.kill_gpus()

            # While the run is being ended nothing is sampled, and what is left is looked for often.
            wait = 0.02 if self.ending_at is not None else min(1.0, max(0.0, self.sampler.due - now))
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
            if self.sampler.smi_fd != watching_gpus:
                if watching_gpus is not None:
                    poll.unregister(watching_gpus)
                if self.sampler.smi_fd is not None:
                    poll.register(self.sampler.smi_fd, select.POLLIN)
                watching_gpus = self.sampler.smi_fd
            for fd, _ in poll.poll(int(wait * 1000 + 0.999)):
                if fd == self.wake_r:
                    self.heard()
                elif fd in self.ranks.by_fd:
                    self.ranks.read(fd)
                    self.insert(self.ranks)
                elif fd in listening_to_records:
                    # First what was sent, then what was printed before it: so a record follows the text before it.
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
                elif fd == self.sampler.smi_fd:
                    self.sampler.read_gpus()
                    if self.sampler.smi_fd is None:
                        poll.unregister(fd)
                        watching_gpus = None
            if self.reader is None and listening is not None:
                poll.unregister(listening)
                listening = None
        self.sampler.kill_gpus()
        self.finish()

    def pump_what_is_there(self):
        left = bytes_in(self.reader) if self.reader is not None else 0
        while left > 0 and self.reader is not None:
            before = self.spool.end + len(self.spool.pending)
            if not self.pump():
                return
            left -= self.spool.end + len(self.spool.pending) - before

    def insert(self, source):
        """Puts whole records, or whole lines of ranks, into the log where it may be cut; False where they have to wait."""
        if not source.ready:
            return True
        if self.spool.pending or (not self.alone and self.spool.room(self.ending_at is not None) <= 0):
            return False
        # Only a read cuts a record of stdout in two, and its rest comes at once.
        if self.inside_record is not None and time.monotonic() < self.inside_record + 1.0 and self.reader is not None:
            return False
        self.inside_record = None
        data, source.ready = source.ready, b""
        self.spool.put(data)
        return True

    def pump(self):
        ending = self.ending_at is not None
        room = CHUNK if self.alone else min(CHUNK, self.spool.room(ending))
        if room <= 0 or self.spool.pending:
            return False
        # Lines of ranks that were cut before these bytes came also go into the log before them.
        if self.ranks.ready and self.inside_record is None and (not self.insert(self.ranks) or self.spool.pending):
            return False
        try:
            data = os.read(self.reader, room)
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

    def heard(self):
        try:
            numbers = os.read(self.wake_r, 4096)
        except OSError:
            return
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self.look_for_stop()
            if not self.stopped:
                self.stop(float(self.spec["stop_grace_seconds"]))

    def look_for_stop(self):
        try:
            os.stat("stop")
        except OSError:
            return
        order = read_json("stop")
        if order and order.get("nonce") == self.nonce:
            self.stop(float(order.get("grace", self.spec["stop_grace_seconds"])))

    def stop(self, grace):
        if self.wait_status is None:
            self.stopped = True
        self.end(grace)

    def end(self, grace):
        """From here on: TERM once, KILL when the grace is over. A later order may only shorten it."""
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

    def press(self, now):
        if not self.alone and now >= self.kill_at and now >= self.next_kill:
            if self.wait_status is None:
                self.killed_by_us = True
            self.signal_tree(signal.SIGKILL)
            # What cannot be killed now waits for a device; asking a thousand times a second does not help it.
            self.next_kill = now + min(1.0, 0.005 + (now - self.kill_at) / 10)

    def tree(self):
        table = all_processes()
        found = below([os.getpid()], table)
        if not LINUX and self.pid:
            seen = {p.pid for p in found}
            found += [p for p in table if p.group == self.pid and p.pid not in seen]
        return [p for p in found if p.pid != self.sampler.smi_pid and p.state not in (b"Z", b"X")]

    def signal_tree(self, sig):
        for p in self.tree():
            send(p, sig)
            if sig == signal.SIGTERM and p.state in (b"T", b"t"):
                send(p, signal.SIGCONT)

    def reap(self):
        """Collects the dead. With the subreaper bit, "no child" proves that nothing of the run is left (R3)."""
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
            if pid == self.sampler.smi_pid:
                self.sampler.smi_pid = None
                continue
            self.sampler.reaped_cpu += usage.ru_utime + usage.ru_stime
            if pid == self.pid:
                self.wait_status = status
        # A GPU query that hangs in its driver cannot be killed; it is not of the run.
        if self.ending_at is not None and self.sampler.smi_pid is not None and self.wait_status is not None:
            self.alone = not self.tree()

    def finish(self):
        """Nothing of the run lives: what is in the pipe is all there will be."""
        while True:
            # What waits for a full disk comes first: `pump` takes nothing while it waits, and that is not the pipe's end.
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
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            self.stat.update(exit_code=128 + number, signal=signal_name(number))
        else:
            self.stat["exit_code"] = os.WEXITSTATUS(status)
        if self.stat["exit_code"] == 137 and not self.killed_by_us and self.oom_before is not None:
            after = oom_kills()
            self.stat["oom"] = after is not None and after > self.oom_before
        self.stat.update(phase="exited", ended_at_ms=now_ms(), stopped=self.stopped, log_bytes=self.spool.end)
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


# ---- Commands -------------------------------------------------------------------------------------------------------

def lost(status, left):
    """What status.json has to say when its runner died without a word."""
    if status.get("boot_id") and status["boot_id"] != boot_id():
        why = "the machine was restarted while the script ran"
    else:
        why = "the runner that supervised the script was killed, and what it had not read yet of output and metrics is lost"
    if left:
        why += "; processes that cannot be killed: %s" % ", ".join(str(p.pid) for p in left)
    return dict(status, phase="failed", ended_at_ms=now_ms(), error="lost: " + why, log_bytes=spool_end(),
                exit_code=None, signal=None, stopped=(read_json("stop") or {}).get("nonce") == status.get("nonce"))


def sweep_locked(grace):
    """With the lock in hand no runner lives: ends what it left, and says so in status.json. Returns what is left."""
    status = read_json("status.json")
    spec = read_json("spec.json") or {}
    left = kill_marked({n for n in ((status or {}).get("nonce"), spec.get("nonce")) if n}, grace)
    if status and status.get("phase") == "running":
        try:
            write_status(lost(status, left))
        except OSError as e:
            complain("writing status.json: %s" % e)  # who asks for the status finds the runner dead all the same
    return left


def say(value, code=0):
    data = memoryview((to_json(value) + "\n").encode())
    try:
        while data:
            data = data[os.write(1, data):]
    except OSError:
        pass
    os._exit(code)


def fail(words, code=1):
    complain(words)
    os._exit(code)


def close_inherited():
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


def command_start():
    lock = Lock()
    spec = read_json("spec.json")
    if not spec or not isinstance(spec.get("nonce"), str):
        fail("spec.json is missing or damaged")
    nonce = spec["nonce"]
    end = time.monotonic() + 20
    while not lock.take():
        status = read_json("status.json")
        # A claim without a process: the call that claimed it is about to start the script, and knows more in a moment.
        if status and status.get("nonce") == nonce and (status.get("pid") or status.get("phase") != "running"):
            unlink("env.json")
            say(status)
        if status and status.get("nonce") != nonce and status.get("phase") == "running" and time.monotonic() > end - 18:
            fail("another run (%s) lives in this directory" % status.get("nonce"), 3)
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
        unlink("stop")  # of another run; one that comes now is heard by the runner

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


def become_runner(spec, secrets, ready_w):
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
        pass  # who called `start` was killed; the run is not
    os.close(ready_w)
    if run.stat["phase"] == "running":
        try:
            run.supervise()
        except BaseException:
            import traceback

            complain(traceback.format_exc())
            os._exit(1)  # PDEATHSIG ends the script; whoever looks next sweeps the rest and calls the run lost
    os._exit(0)


def first_line(path):
    try:
        with open(path, "rb") as file:
            return file.readline(256).decode("utf-8", "replace").strip()
    except OSError:
        return "#!"


def never_started(nonce):
    return {
        "phase": "failed", "nonce": nonce, "runner_pid": os.getpid(), "runner_start": start_time(os.getpid()),
        "boot_id": boot_id(), "pid": None, "started_at_ms": now_ms(), "ended_at_ms": now_ms(), "exit_code": None,
        "signal": None, "stopped": True, "oom": False, "log_bytes": spool_end(), "error": "stopped: before it was started",
    }


def command_status():
    status = read_json("status.json")
    if status and status.get("phase") == "running":
        lock = Lock()
        if lock.take():
            # Read again: the runner may have written its last word and gone between the two looks.
            status = read_json("status.json")
            if status.get("phase") == "running":
                status = lost(status, [])
    say(status)


def command_sweep(grace):
    lock = Lock()
    if not lock.take():
        fail("the runner of this directory is alive; use stop", 3)
    left = sweep_locked(grace)
    say({"left": [p.pid for p in left], "status": read_json("status.json")}, 1 if left else 0)


def command_stop(grace):
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
    end = time.monotonic() + grace + 15
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
                if not marked({nonce, status.get("nonce")}):
                    say({"left": [], "status": status})  # it only waits for the disk to take the end of the log
                send(runner, signal.SIGKILL)
        if now > end + 10:
            fail("runner.lock is held by a program that does not answer")
        time.sleep(delay)
        delay = min(0.02, delay * 1.5)
    left = sweep_locked(grace)
    status = read_json("status.json")
    if not status or status.get("nonce") != nonce:
        write_status(never_started(nonce))
    say({"left": [p.pid for p in left], "status": read_json("status.json")}, 1 if left else 0)


def main(argv):
    usage = "usage: svc_runner.py start|stop|status|sweep RUN_DIR [--grace SECONDS]"
    if len(argv) not in (3, 5) or argv[1] not in ("start", "stop", "status", "sweep") or sys.version_info < (3, 8):
        fail(usage if sys.version_info >= (3, 8) else "Python 3.8 or newer is needed", 2)
    grace = None
    if len(argv) == 5:
        try:
            grace = max(0.0, float(argv[4]))
        except ValueError:
            fail(usage, 2)
        if argv[3] != "--grace" or grace != grace:
            fail(usage, 2)
    close_inherited()
    try:
        os.chdir(argv[2])
        if argv[1] == "start":
            command_start()
        elif argv[1] == "stop":
            command_stop(grace)
        elif argv[1] == "status":
            command_status()
        else:
            command_sweep(grace or 0.0)
    except OSError as e:
        fail("%s: %s" % (argv[2], e))


if __name__ == "__main__":
    main(sys.argv)
