"""The control plane's hands on a machine: one process per SSH connection, fed over stdin, gone when that closes.

docs/internals/agent.md tells the protocol; the rules below are cited by code and tests.

A1. It owns nothing: runs belong to their runner, the machine's end to its guard. Killing it at any moment loses nothing.
A2. It reads and answers; the runner starts and stops. What both know of a run directory is in docs/internals/runner.md.
A3. Files of the script are opened without following links and by descriptor, below the checkpoint directory only. A link to a plain file
    there is listed with the path of that file, which is read in its place.
A4. Bytes are named by offset, files by size, time and inode: who asks again after a lost link gets the same or a refusal.

Python 3.8 or newer and its standard library. It is not a file on the machine: its text comes in before the first request.
"""

import errno
import json
import os
import stat
import struct
import sys
import threading
import time

BASE = ".svc-machine"
FILES_MAX = 100000
DEPTH_MAX = 32
LISTING_MAX = 32 << 20
RECORD = 16
RECORDS_MAX = 1 << 18
SAMPLES_MAX = 1 << 20
PIECE_MAX = 16 << 20
PIECES_MAX = 1000
RANGES_MAX = 10000
ALIVE_SECONDS = 5
# A connection that was cut without a word leaves an agent behind; who still wants one starts another.
UNASKED_SECONDS = 900
INODE_MASK = (1 << 53) - 1
FULL = (errno.ENOSPC, errno.EDQUOT)
# Of one file: whatever can be said of the others.
UNREADABLE = (errno.EACCES, errno.EPERM, errno.EIO)


class Refusal(Exception):
    """An answer that is no success; `kind` is for programs, the words for people."""

    def __init__(self, kind, why):
        Exception.__init__(self, why)
        self.kind = kind


class NoAnswer(Refusal):
    """The runner was called, and may still be about to do what it was called for."""


# ---- Small files ----------------------------------------------------------------------------------------------------

def open_plain(path, access=os.O_RDONLY):
    """Its descriptor. A pipe that the script put in its place is not waited for: what is no plain file counts as none."""
    try:
        fd = os.open(path, access | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        raise OSError(errno.ENOENT, "no plain file", path) if e.errno == errno.ENXIO else e
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.ENOENT, "no plain file", path)


def read_bytes(path, limit=16 << 20):
    """The file's bytes, or None when there is none."""
    try:
        with os.fdopen(open_plain(path), "rb") as f:
            return f.read(limit)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
            return None
        raise


def read_object(path):
    """(object, damaged)."""
    data = read_bytes(path)
    if data is None:
        return None, False
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None, True
    return (value, False) if isinstance(value, dict) else (None, True)


def replace_file(path, data, mode=0o600):
    """Replaces a small file as a whole; `mode` counts whatever was there before."""
    temporary = "%s.%d.%d.tmp" % (path, os.getpid(), threading.get_ident())
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view):]
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        unlink(temporary)
        raise


def unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def now_ms():
    return time.time_ns() // 1000000


def first_line(path):
    try:
        return (read_bytes(path, 4096) or b"").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def uptime():
    return float(first_line("/proc/uptime").split()[0])


# ---- One run directory ----------------------------------------------------------------------------------------------

def start_time(pid):
    """Field 22 of /proc/PID/stat of a living process; zombies count as dead."""
    try:
        data = read_bytes("/proc/%d/stat" % pid)
        if data is None:
            return None
        fields = data[data.rindex(b")") + 2:].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def runner_lives(status):
    return (status.get("boot_id") == first_line("/proc/sys/kernel/random/boot_id")
            and isinstance(status.get("runner_pid"), int)
            and start_time(status["runner_pid"]) == status.get("runner_start"))


def read_status(run):
    path = run + "/status.json"
    status, damaged = read_object(path)
    if damaged:
        raise Refusal("damaged", "%s is damaged" % path)
    return status


def status_of(run):
    """What status.json says, and that a runner which died without a word is lost."""
    status = read_status(run)
    if status is None or status.get("phase") != "running" or runner_lives(status):
        return status
    status = read_status(run)  # it may have written its last word and gone between the two looks
    if status is None or status.get("phase") != "running":
        return status
    here = first_line("/proc/sys/kernel/random/boot_id")
    restarted = status.get("boot_id") not in ("", here)
    why = "the machine was restarted while the script ran" if restarted else "the runner that supervised the script was killed, and what it had not read yet of output and metrics is lost"
    return dict(status, phase="failed", error="lost: " + why, log_bytes=spool_end(run), ended_at_ms=now_ms())


def segments(run):
    try:
        return sorted(int(name) for name in os.listdir(run + "/spool") if name.isdigit())
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise


def segment_path(run, start):
    return "%s/spool/%012d" % (run, start)


def spool_end(run):
    for start in reversed(segments(run)):
        try:
            return start + os.stat(segment_path(run, start)).st_size
        except OSError:
            continue
    return 0


def read_at(path, offset, most):
    """Bytes of a growing file; empty when it ends before `offset` or is gone."""
    try:
        fd = open_plain(path)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR):
            return b""
        raise
    try:
        return os.pread(fd, most, offset) if most > 0 else b""
    finally:
        os.close(fd)


def read_log(run, offset, most):
    starts = segments(run)
    if starts and offset < starts[0]:
        raise Refusal("runner", "log bytes before %d were acknowledged and dropped; %d was asked for" % (starts[0], offset))
    parts, at = [], offset
    index = max((i for i, s in enumerate(starts) if s <= at), default=len(starts))
    for i in range(index, len(starts)):
        if at - offset >= most or starts[i] > at:
            break  # a predecessor shorter than its name promised: not ours to skip
        data = read_at(segment_path(run, starts[i]), at - starts[i], most - (at - offset))
        if not data and (i + 1 >= len(starts) or starts[i + 1] != at):
            break
        parts.append(data)
        at += len(data)
    return b"".join(parts)


def read_times(run, begin, end):
    """Index records for the bytes in [begin, end), the first one covering `begin`; at most RECORDS_MAX."""
    try:
        fd = open_plain(run + "/spool.idx")
    except OSError:
        return [(begin, now_ms())]
    try:
        def record(i):
            return struct.unpack("<QQ", os.pread(fd, RECORD, i * RECORD))

        count = os.fstat(fd).st_size // RECORD
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            if record(middle)[0] <= begin:
                low = middle
            else:
                high = middle
        times = []
        while low < count and len(times) <= RECORDS_MAX:
            block = os.pread(fd, 4096 * RECORD, low * RECORD)
            got = len(block) // RECORD
            if got == 0:
                break
            for offset, ms in struct.iter_unpack("<QQ", block[: got * RECORD]):
                if offset >= end:
                    return times or [(begin, now_ms())]
                times.append((max(offset, begin), ms))
            low += got
        return times or [(begin, now_ms())]
    finally:
        os.close(fd)


def op_status(ask):
    return {"status": status_of(ask["dir"]), "disk_free": quiet(disk_free, ask["dir"])}, b""


def op_read_log(ask):
    run, offset = ask["dir"], int(ask["offset"])
    data = read_log(run, offset, min(int(ask["max"]), PIECE_MAX))
    times = read_times(run, offset, offset + len(data)) if data else []
    if len(times) > RECORDS_MAX:
        data = data[: times[RECORDS_MAX][0] - offset]
        times = times[:RECORDS_MAX]
    packed = b"".join(struct.pack("<QQ", o, t) for o, t in times)
    return {"log_bytes": len(data), "times": len(times), "now_ms": wall_ms()}, data + packed


def op_read_samples(ask):
    """Whole lines only."""
    data = read_at(ask["dir"] + "/samples.jsonl", int(ask["offset"]), SAMPLES_MAX)
    return {"now_ms": wall_ms()}, data[: data.rfind(b"\n") + 1]


def wall_ms():
    """By the clock of this machine, which stamps logs, samples and metrics: it may be off."""
    return time.time_ns() // 1000000


def op_ack(ask):
    """The runner made the file; overwriting it needs no room. The number twice tells a reader a half-written one."""
    number = "%020d" % int(ask["offset"])
    fd = open_plain(ask["dir"] + "/acked", os.O_WRONLY)
    try:
        os.pwrite(fd, ("%s %s\n" % (number, number)).encode(), 0)
    finally:
        os.close(fd)
    return {}, b""


def op_follow(ask):
    """Waits for news, then tells all of it in one answer. The status first: when it says "over", every byte it counts is there."""
    wait_for_news(ask["dir"], int(ask["seen"]), min(float(ask["wait_ms"]) / 1000, 600))
    look, _ = op_status(ask)
    log, body = op_read_log(ask)
    return dict(look, **log), body


def wait_for_news(run, seen, seconds):
    """Returns once the log has grown beyond what was seen, the run is over, or the time is up."""
    begin = time.monotonic()
    end = begin + seconds
    known, look_at = None, 0.0
    while True:
        if spool_end(run) > seen:
            return
        now = time.monotonic()
        try:
            s = os.stat(run + "/status.json")
            mark = (s.st_mtime_ns, s.st_ino)
        except OSError:
            mark = None
        if mark is not None and (mark != known or now >= look_at):
            known, look_at = mark, now + 1
            status = read_status(run)
            if status is not None and (status.get("phase") != "running" or not runner_lives(status)):
                return
        if now >= end:
            return
        # Seldom where little happens: a look costs some 50 microseconds of a machine that has other things to do.
        time.sleep(min(max(0.0, end - now), max(0.005, min(0.05, (now - begin) / 10))))


# ---- Starting and stopping, by the runner ---------------------------------------------------------------------------

# What rents machines or names one: a script has no use for it. The owner's own come by the run's specification.
DROPPED = ("SVC_", "PET_", "SSH_", "SUDO_")
PROVIDERS = ("RUNPOD", "VAST", "VASTAI", "PODHOST", "MARKET", "CONTAINER", "POD", "CLOUDVM", "NOTEBOOK")
PATHS = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH")
INIT = ("systemd", "init", "launchd", "runit", "openrc-init")


def is_dropped(name):
    return name.startswith(DROPPED) or (name.endswith("_API_KEY") and name[:-8] in PROVIDERS)


def first_process_variables():
    try:
        rows = (read_bytes("/proc/1/environ") or b"").split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(row).split("=", 1) for row in rows if row.find(b"=") > 0)


def first_process_environment():
    """What the container was started with: SSH sessions do not see it. Empty on a machine with an init of its own."""
    return {} if first_line("/proc/1/comm") in INIT else first_process_variables()


def base_environment():
    """What a run inherits: the session's, with what the container's image set; search paths of both."""
    session, first = dict(os.environ), first_process_environment()
    env = dict(first, **session)
    for name in PATHS:
        parts = [p for source in (first, session) for p in source.get(name, "").split(":") if p]
        if parts:
            env[name] = ":".join(dict.fromkeys(parts))
    keys = {value for name, value in env.items() if value and name.endswith("_API_KEY") and is_dropped(name)}
    return {name: value for name, value in env.items() if not is_dropped(name) and value not in keys}


def runner_path(digest):
    if not (isinstance(digest, str) and len(digest) == 64 and all(c in "0123456789abcdef" for c in digest)):
        raise Refusal("refused", "that is no digest")
    return "%s/%s/.runtime/%s/svc_runner.py" % (os.path.expanduser("~"), BASE, digest)


def op_runner(ask, body=b""):
    """Keeps the runner's text under its digest."""
    import hashlib

    if hashlib.sha256(body).hexdigest() != ask["digest"]:
        raise Refusal("refused", "the runner's text is not what its digest says")
    path = runner_path(ask["digest"])
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    replace_file(path, body)
    return {}, b""


# Imported as a module, Python keeps it compiled.
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); m = __import__('svc_runner'); m.main(sys.argv[1:])"


def call_runner(ask, command, seconds, more=()):
    import subprocess

    run, path = ask["dir"], runner_path(ask["runner"])
    if not os.path.exists(path):
        raise Refusal("runner_missing", "the runner is not on the machine")
    env = base_environment()
    if command == "start":
        env["SVC_RUN_DIR"] = run
    argv = [sys.executable, "-I", "-S", "-c", BOOT, os.path.dirname(path), command, run] + list(more)
    # A session of its own, and never killed here (A1): half a `stop` helps nobody.
    child = subprocess.Popen(argv, cwd=run, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise NoAnswer("runner", "`%s` gave no answer in %d s" % (command, seconds))
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def runner_refusal(code, err):
    if "Errno 28" in err or "No space left" in err:
        return Refusal("disk_full", "no space left on device")
    rows = err.strip().split("\n")
    return Refusal("runner", rows[-1][-2000:] or "it ended with code %s" % code)


STARTING = threading.Lock()


def op_start(ask):
    run, spec = ask["dir"], ask["spec"]
    with STARTING:
        before = status_of(run)
        same = before is not None and before.get("nonce") == spec["nonce"]
        # A claim without a process: the call that made it knows in a moment what became of it, and the runner waits for that.
        claimed = before is not None and before.get("phase") == "running" and before.get("pid") is None
        if same and not claimed:
            return {"status": before}, b""
        if before is not None and before.get("phase") == "running" and not same:
            raise Refusal("runner", "another run lives in %s" % run)
        if not os.path.exists(runner_path(ask["runner"])):
            raise Refusal("runner_missing", "the runner is not on the machine")
        for folder in (run, spec["checkpoint_dir"]):
            os.makedirs(folder, 0o700, exist_ok=True)
        os.chmod(run, 0o700)
        secrets = run + "/env.json"
        try:
            # The secrets first: a launcher of an earlier call that is on its way must not find the spec without them.
            replace_file(secrets, json.dumps(ask["secrets"]).encode())
            replace_file(run + "/spec.json", json.dumps(spec).encode())
            code, out, err = call_runner(ask, "start", 30)
        except NoAnswer:
            raise  # the runner unlinks the secrets when it has read them; a script must not start without
        except BaseException:
            unlink(secrets)
            raise
        if code != 0 or not out:
            unlink(secrets)
            raise runner_refusal(code, err)
        return {"status": json.loads(out)}, b""


def op_stop(ask):
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


# ---- Checkpoint files -----------------------------------------------------------------------------------------------

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LINKED = (errno.ELOOP, errno.ENOTDIR)


def mtime_ms(s):
    return s.st_mtime_ns / 1e6


def checkpoint_dir(run):
    spec, _ = read_object(run + "/spec.json")
    folder = (spec or {}).get("checkpoint_dir")
    if isinstance(folder, str) and folder.startswith("/"):
        return folder
    # A script may have removed the run directory, and left its checkpoints, which lie beside it.
    beside = os.path.join(os.path.dirname(run), "checkpoints")
    return beside if os.path.isdir(beside) else None


def why_unreadable(e):
    if e.errno in (errno.EACCES, errno.EPERM):
        return "it cannot be read: permission denied"
    if e.errno == errno.ENAMETOOLONG:
        return "its path is too long"
    return "its path leads through a link" if e.errno == errno.ELOOP else None


def led_to(top, fd, prefix, name):
    """The path below `top` that a link leads to, as its text says; None where it leads out."""
    target = os.readlink(name, dir_fd=fd)
    if os.path.isabs(target):
        # The script may know the folder by another name.
        below = (os.path.relpath(target, t) for t in (top, os.path.realpath(top)))
        path = next((p for p in below if not out_of(p)), "..")
    else:
        path = os.path.normpath(os.path.join(prefix, target))
    return None if out_of(path) else path


def out_of(path):
    return path == ".." or path.startswith("../")


def folder_below(top, names):
    """The folder at the end of `names`, opened without following any link (A3). The caller closes it."""
    fd = os.open(top, FOLDER)
    try:
        for name in names:
            fd, above = os.open(name, FOLDER, dir_fd=fd), fd
            os.close(above)
        return fd
    except OSError:
        os.close(fd)
        raise


def stat_below(top, path):
    names = path.split("/")
    fd = folder_below(top, names[:-1])
    try:
        return os.stat(names[-1], dir_fd=fd, follow_symlinks=False)
    finally:
        os.close(fd)


def linked(top, fd, prefix, name):
    """The numbers and the path of the plain file that a link leads to; or why it is not taken for one."""
    path = led_to(top, fd, prefix, name)
    if path is None:
        return "it is a link that leads out of the checkpoint directory"
    try:
        s = stat_below(top, path)
    except OSError as e:
        if e.errno == errno.ENOENT:
            return "it is a link that leads to nothing"
        if e.errno in LINKED:
            return "it is a link that leads through another link"
        raise
    if stat.S_ISDIR(s.st_mode):
        return "it is a link to a folder, whose files have their own names"
    if stat.S_ISLNK(s.st_mode):
        return "it is a link that leads through another link"
    if not stat.S_ISREG(s.st_mode):
        return "it is a link to what is no plain file"
    return numbers_of(s) + (path, stored_bytes(s))


def numbers_of(s):
    return s.st_size, mtime_ms(s), s.st_ino & INODE_MASK


def stored_bytes(s):
    """How much of a file the disk really holds: less than its size where it has holes."""
    return min(s.st_size, s.st_blocks * 512)


def op_list(ask):
    """
    Every plain file below the checkpoint directory, one JSON array per line: path, size, time, inode, the path of the file that a symlink
    points to (or null), and the bytes that the disk holds of it; or path and refusal. Bytes of a name that are not UTF-8 appear as
    surrogates (PEP 383), in which form the other requests take them back.
    """
    top = checkpoint_dir(ask["dir"])
    rows, count = [], [0, 0]

    def add(*row):
        data = json.dumps(row).encode() + b"\n"
        rows.append(data)
        count[0] += 1
        count[1] += len(data)

    def walk(fd, prefix, depth):
        """False once the bounds are reached."""
        with os.scandir(fd) as entries:
            entries = sorted(entries, key=lambda e: e.name)
        for entry in entries:
            path = prefix + entry.name
            try:
                s = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISDIR(s.st_mode):
                    if depth >= DEPTH_MAX:
                        add(path, "it lies more than %d folders deep" % DEPTH_MAX)
                        continue
                    inner = os.open(entry.name, FOLDER, dir_fd=fd)
                    try:
                        if not walk(inner, path + "/", depth + 1):
                            return False
                    finally:
                        os.close(inner)
                    continue
                is_link = stat.S_ISLNK(s.st_mode)
                if not stat.S_ISREG(s.st_mode) and not is_link:
                    continue
                if count[0] >= FILES_MAX or count[1] >= LISTING_MAX:
                    add(path, "it and what follows it are beyond the first %d files" % count[0])
                    return False
                if is_link:
                    found = linked(top, fd, prefix, entry.name)
                    add(path, *((found,) if isinstance(found, str) else found))
                elif os.geteuid() != 0 and not os.access(entry.name, os.R_OK, dir_fd=fd):
                    add(path, "it cannot be read: permission denied")
                else:
                    add(path, *(numbers_of(s) + ((None, stored_bytes(s)) if stored_bytes(s) < s.st_size else ())))
            except OSError as e:
                why = why_unreadable(e)
                if why is not None:
                    add(path, why)
                elif e.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise  # rotated away meanwhile is no failure; anything else is
        return True

    if top is not None:
        try:
            fd = os.open(top, FOLDER)
            try:
                walk(fd, "", 0)
            finally:
                os.close(fd)
        except OSError as e:
            if os.path.islink(top):
                add("(all)", "the checkpoint directory was replaced by a link")
            elif e.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
    return {"files": len(rows)}, b"".join(rows)


def open_below(top, path):
    """A file below the checkpoint directory, opened without following any symlink (A3). The caller closes it."""
    names = path.split("/")
    if top is None or "\0" in path or any(n in ("", ".", "..") for n in names):
        raise Refusal("missing", path)
    fd = None
    try:
        fd = folder_below(top, names[:-1])
        # NONBLOCK: opening a pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd, above = os.open(names[-1], flags, dir_fd=fd), fd
        os.close(above)
        return fd
    except OSError as e:
        if fd is not None:
            os.close(fd)
        if e.errno in (errno.ENOENT, errno.ENXIO) + LINKED:
            raise Refusal("missing", path)
        raise


def open_checkpoint(ask):
    """The file as it was listed. The caller closes it."""
    fd = open_below(checkpoint_dir(ask["dir"]), ask["path"])
    try:
        check_unchanged(fd, ask)
        return fd
    except Refusal:
        os.close(fd)
        raise


def check_unchanged(fd, ask):
    s = os.fstat(fd)
    if not stat.S_ISREG(s.st_mode) or numbers_of(s) != (ask["size"], ask["mtime"], ask["inode"]):
        raise Refusal("changed", "%s as it was listed" % ask["path"])


def reading(ask, read):
    """What `read` makes of the listed file, provided that the file is the same before and after."""
    try:
        fd = open_checkpoint(ask)
        try:
            answer = read(fd)
            check_unchanged(fd, ask)
            return answer
        finally:
            os.close(fd)
    except OSError as e:
        if e.errno in UNREADABLE:
            raise Refusal("unreadable", os.strerror(e.errno))
        raise


def op_read_file(ask):
    """One piece. Zeros are counted and not sent."""
    import hashlib

    data = reading(ask, lambda fd: os.pread(fd, min(int(ask["max"]), PIECE_MAX), int(ask["offset"])))
    zeros = len(data) if data[:1] == b"\0" and data.count(0) == len(data) else 0
    return {"sha256": hashlib.sha256(data).hexdigest(), "zeros": zeros}, b"" if zeros else data


def data_ranges(fd, size):
    """[start, end] of each range that is no hole, at most RANGES_MAX; the last one then ends with the file."""
    ranges, at = [], 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            end = min(size, os.lseek(fd, start, os.SEEK_HOLE))
        except OSError as e:
            if e.errno == errno.ENXIO:  # nothing but a hole from here on
                break
            start, end = at, size  # a file system that does not know its holes
        if start >= size:
            break
        if len(ranges) + 1 >= RANGES_MAX:
            end = size
        ranges.append([start, end])
        at = end
    return ranges


def op_data_ranges(ask):
    return {"ranges": reading(ask, lambda fd: data_ranges(fd, int(ask["size"])))}, b""


def hash_of(fd, start, end):
    import hashlib

    digest = hashlib.sha256()
    while start < end:
        data = os.pread(fd, min(1 << 20, end - start), start)
        if not data:
            break
        digest.update(data)
        start += len(data)
    return digest.hexdigest()


def op_hash_file(ask):
    return {"sha256": reading(ask, lambda fd: hash_of(fd, 0, int(ask["size"])))}, b""


def read_piece(top, piece, room):
    """
    What lies behind `offset` of a file that may be growing, and how long the file is now. `checks` are ranges that must still have the
    hashes which the copy of the caller has: a file that was written anew is "changed", whatever its name and length say. With `whole` the
    file must not change while it is read.
    """
    import hashlib

    fd = open_below(top, piece["path"])
    try:
        before, offset = os.fstat(fd), int(piece["offset"])
        if not stat.S_ISREG(before.st_mode) or before.st_ino & INODE_MASK != piece["inode"] or before.st_size < offset:
            return {"why": "changed"}, b""
        for start, end, digest in piece["checks"]:
            if hash_of(fd, int(start), int(end)) != digest:
                return {"why": "changed"}, b""
        data = os.pread(fd, max(0, min(int(piece["max"]), room, before.st_size - offset)), offset)
        after = os.fstat(fd)
        if after.st_size < offset + len(data) or (piece["whole"] and numbers_of(before) != numbers_of(after)):
            return {"why": "changed"}, b""
        found = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "size": before.st_size, "mtime": mtime_ms(before)}
        return found, data
    finally:
        os.close(fd)


def op_read_pieces(ask):
    """Pieces of many files in one answer: a line of its own for each, in the order of the request."""
    top, found, bodies, room = checkpoint_dir(ask["dir"]), [], [], PIECE_MAX
    for piece in ask["pieces"][:PIECES_MAX]:
        try:
            head, body = read_piece(top, piece, room)
        except Refusal as e:
            head, body = {"why": e.kind}, b""
        except OSError as e:
            head, body = {"why": os.strerror(e.errno)}, b""
        room -= len(body)
        found.append(head)
        bodies.append(body)
    return {"pieces": found}, b"".join(bodies)


def below_base(path):
    """`path` when it lies in a machine's folder below the home, by its text."""
    root = os.path.join(os.path.expanduser("~"), BASE) + "/"
    if os.path.normpath(path) != path or not path.startswith(root):
        raise Refusal("refused", "%s is not below %s" % (path, root))
    return path


def compare_file(root, row, ask):
    """None, or a few words on why the file is not what it must be; it is then removed where that was asked for."""
    import hashlib

    path, size, sha256 = row
    names = path.split("/")
    if "\0" in path or any(n in ("", ".", "..") for n in names):
        raise Refusal("refused", "a path leads out of the folder")
    full = "%s/%s" % (root, path)
    why = None
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR):
            return "is missing"
        why = "cannot be read (%s)" % errno.errorcode.get(e.errno, e.errno)
    else:
        try:
            s = os.fstat(fd)
            if not stat.S_ISREG(s.st_mode):
                why = "is no plain file"
            elif s.st_size != size:
                why = "has %d bytes, not %d" % (s.st_size, size)
            elif ask["digests"]:
                digest = hashlib.sha256()
                while True:
                    data = os.read(fd, 1 << 20)
                    if not data:
                        break
                    digest.update(data)
                if digest.hexdigest() != sha256:
                    why = "has another content"
        finally:
            os.close(fd)
    if why is not None and ask["drop"]:
        unlink(full)
    return why


def op_compare(ask, body=b""):
    """Which of the files below `root` are missing, or are not what they must be. Hashing leaves Python's lock to others."""
    from concurrent.futures import ThreadPoolExecutor

    root, rows = below_base(ask["root"]), json.loads(body)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda row: compare_file(root, row, ask), rows))
    wrong = [(row[0], why) for row, why in zip(rows, found) if why is not None]
    return {"wrong": len(wrong)}, json.dumps(wrong).encode()


def op_put(ask, body=b""):
    """Takes the next piece of a large file, and answers how much of it is here; the last piece puts it into its place."""
    import hashlib

    path, size, ms = below_base(ask["path"]), int(ask["size"]), int(ask["mtime"])
    folder, name = os.path.split(path)
    try:
        s = os.stat(path, follow_symlinks=False)
        # In whole numbers: a float of the nanoseconds may be the millisecond before.
        if stat.S_ISREG(s.st_mode) and s.st_size == size and s.st_mtime_ns // 1000000 == ms:
            return {"have": size, "whole": True}, b""
    except FileNotFoundError:
        os.makedirs(folder, 0o755, exist_ok=True)
    which_file = hashlib.sha256(("%s %d %d" % (name, size, ms)).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    part = "%s/.svc-part-%s" % (folder, which_file)
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        have = os.fstat(fd).st_size
        if body and have == int(ask["offset"]) and have + len(body) <= size:
            view = memoryview(body)
            os.lseek(fd, have, os.SEEK_SET)
            while view:
                view = view[os.write(fd, view):]
            have += len(body)
    finally:
        os.close(fd)
    if have < size:
        return {"have": have, "whole": False}, b""
    os.utime(part, ns=(ms * 1000000, ms * 1000000))
    os.rename(part, path)
    return {"have": size, "whole": True}, b""


def op_mkdir(ask):
    os.makedirs(below_base(ask["path"]), 0o700, exist_ok=True)
    return {}, b""


def op_remove_tree(ask):
    import shutil

    path = below_base(ask["path"])
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    return {}, b""


# ---- The machine ----------------------------------------------------------------------------------------------------

def which(name, path, more=()):
    for folder in [f for f in path.split(":") if f.startswith("/")] + list(more):
        candidate = "%s/%s" % (folder, name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def best_python(path):
    """The first Python on the run's own path, which is where an image keeps its packages; else the one at work here."""
    mine = (sys.executable, "%d.%d.%d" % sys.version_info[:3])
    for name in ("python3", "python"):
        found = which(name, path)
        if found is None:
            continue
        if os.path.realpath(found) == os.path.realpath(sys.executable):
            return found, mine[1]
        tail = os.path.basename(os.path.realpath(found))
        minor = tail[9:] if tail.startswith("python3.") else ""
        if minor.isdigit() and int(minor) >= 8:
            return found, "3." + minor
        out = output_of([found, "-I", "-S", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], 10)
        numbers = (out or "").strip().split(".")
        if len(numbers) == 3 and all(n.isdigit() for n in numbers) and (3, 8) <= (int(numbers[0]), int(numbers[1])) < (4,):
            return found, out.strip()
    return mine


def outcome_of(argv, seconds):
    """Exit code, standard output and standard error of a short command; the exit code is None where it does not end in time."""
    import subprocess

    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()  # a query that hangs in its driver cannot be killed; the agent does not wait for it
        return None, "", ""
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def output_of(argv, seconds):
    """What a short command prints; None where it fails or takes too long."""
    try:
        code, out, _ = outcome_of(argv, seconds)
    except OSError:
        return None
    return out if code == 0 else None


SMI_SECONDS = 20  # without persistence mode the first query of a machine with eight GPUs loads the driver for all of them
# What nvidia-smi writes in place of a value of a GPU that has failed (seen: NVIDIA forums and driver 535 to 570, 2024 to 2026).
LOST = ("gpu is lost", "unknown error", "err!", "requires reset")


def gpus(path):
    """GPUs, driver version, and the fault that the tool reports: all None where the machine has no such tool."""
    smi = which("nvidia-smi", path, ("/usr/bin", "/opt/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"))
    return nvidia_gpus(smi) if smi else rocm_gpus(which("rocm-smi", path, ("/opt/rocm/bin", "/usr/bin")))


def gpu_fault(tool, code, words):
    return {"tool": tool, "exit": code, "words": " ".join(words.split())[:300]}


def nvidia_gpus(smi):
    query = "--query-gpu=name,memory.total,driver_version"
    try:
        code, out, err = outcome_of([smi, query, "--format=csv,noheader,nounits"], SMI_SECONDS)
    except OSError as e:
        code, out, err = 127, "", str(e.strerror)
    if code != 0:
        words = out + " " + err if code is not None else "it gave no answer within %d seconds" % SMI_SECONDS
        return None, None, gpu_fault("nvidia-smi", code, words)
    found, driver = [], None
    for row in out.split("\n"):
        if any(word in row.lower() for word in LOST):
            return None, None, gpu_fault("nvidia-smi", code, row)
        parts = [part.strip() for part in row.rsplit(",", 2)]
        if len(parts) == 3 and len(found) < 64:
            found.append({"name": parts[0][:200], "memory_mib": int(parts[1]) if parts[1].isdigit() else None})
            driver = parts[2][:40] if parts[2][:1].isdigit() else driver
    return found or None, driver, None


def rocm_gpus(smi):
    if not smi:
        return None, None, None
    argv = [smi, "--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json"]
    try:
        code, out, err = outcome_of(argv, SMI_SECONDS)
    except OSError as e:
        code, out, err = 127, "", str(e.strerror)
    if code != 0:
        words = out + " " + err if code is not None else "it gave no answer within %d seconds" % SMI_SECONDS
        return None, None, gpu_fault("rocm-smi", code, words)
    found, driver = [], None
    told = json.loads(out[out.index("{"):])
    for card in sorted(told):
        values = {str(k).lower(): str(v) for k, v in told[card].items()} if isinstance(told[card], dict) else {}
        driver = values.get("driver version", driver or "")[:40] or None
        memory = values.get("vram total memory (b)", "")
        name = values.get("card series") or values.get("card model") or ""
        if card.startswith("card") and len(found) < 64:
            found.append({"name": name[:200], "memory_mib": int(memory) >> 20 if memory.isdigit() else None})
    return found or None, driver, None


def driver_pending():
    """GPUs of a maker whose driver does not answer: on a fresh machine it is installed after sshd has come up."""
    root = "/sys/bus/pci/devices"
    for device in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        device = "%s/%s" % (root, device)
        if first_line(device + "/vendor") == "0x10de" and first_line(device + "/class").startswith("0x03"):
            return True
    return False


def cgroup_numbers(name):
    """A limit file of this process's cgroup and those above it (v2), then of v1; as lists of words."""
    path = ""
    for row in (read_bytes("/proc/self/cgroup") or b"").decode("utf-8", "replace").split("\n"):
        if row.startswith("0::"):
            path = row[3:].strip()
    while True:
        words = first_line("/sys/fs/cgroup%s/%s" % (path.rstrip("/"), name)).split()
        if words:
            yield words
        if path in ("", "/"):
            return
        path = os.path.dirname(path)


def cpus():
    try:
        most = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        most = float(os.cpu_count() or 0)
    limits = list(cgroup_numbers("cpu.max"))
    limits.append([first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us")])
    for words in limits:
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            most = min(most, int(words[0]) / int(words[1]))
    return round(most, 2) if most > 0 else None


def memory():
    most = None
    for row in (read_bytes("/proc/meminfo") or b"").split(b"\n"):
        if row.startswith(b"MemTotal:"):
            most = int(row.split()[1]) * 1024
    limits = list(cgroup_numbers("memory.max")) + [[first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes")]]
    for words in limits:
        if words[0].isdigit() and (most is None or int(words[0]) < most):
            most = int(words[0])
    return most


def user_name():
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return os.environ.get("USER") or str(os.geteuid())


def quiet(look, *args):
    """What cannot be found out is unknown."""
    try:
        return look(*args)
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def disk_free(home):
    s = os.statvfs(home)
    return s.f_bavail * s.f_frsize


def beside(folder, name):
    """Names of the other machines that this one was, or is, at the same time."""
    names = (n for n in os.listdir(folder) if n.startswith("svc-") and n != name and n.isascii() and n.isprintable())
    return sorted(names)[:1000]


def op_hello(ask):
    path = base_environment().get("PATH", os.defpath)
    python, version = best_python(path)
    home = os.path.expanduser("~")
    name = first_process_variables().get("SVC_MACHINE")
    cards, driver, fault = quiet(gpus, path) or (None, None, None)
    return {
        "facts": {
            "home": home, "user": user_name(), "python": python, "python_version": version, "cpus": quiet(cpus),
            "memory_bytes": quiet(memory), "disk_free_bytes": quiet(disk_free, home), "gpus": cards,
            "gpu_driver": driver, "gpu_fault": fault,
            "driver_pending": cards is None and bool(quiet(driver_pending)),
            "rsync": which("rsync", os.environ.get("PATH", os.defpath)) is not None, "boot_id": first_line("/proc/sys/kernel/random/boot_id"),
            "beside": quiet(beside, "%s/%s" % (home, BASE), ask["name"]) or [],
        },
        "machine": name or None,
        "marked": os.path.isdir("/var/lib/svc/%s" % ask["name"]),
    }, b""


# ---- The machine's guard --------------------------------------------------------------------------------------------

def move_keep(path, until):
    """Moves the second of uptime until which the machine is kept forward, never back; as the runner does it."""
    text = b"%d\n" % until
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        try:
            old = os.pread(fd, 64, 0).strip()
            if not (old.isdigit() and len(old) <= 9 and int(old) >= until):
                os.pwrite(fd, text, 0)
                os.ftruncate(fd, len(text))
        finally:
            os.close(fd)
        return True
    except OSError:
        return False


def guard_lives(folder):
    """Whether its shell runs. Its pid file is a hint: on a full disk it is empty."""
    script = (folder + "/guard.sh").encode()

    def is_guard(pid):
        try:
            words = (read_bytes("/proc/%s/cmdline" % pid) or b"").split(b"\0")
        except OSError:
            return False
        return script in words[1:3] and start_time(int(pid)) is not None

    pid = first_line(folder + "/pid")
    if pid.isdigit() and is_guard(pid):
        return True
    return any(is_guard(name) for name in os.listdir("/proc") if name.isdigit())


def op_keep(ask):
    folder = ask["folder"]
    return {"lives": guard_lives(folder), "moved": move_keep(folder + "/keep", int(uptime() + float(ask["grace"])))}, b""


def op_guard(ask, body=b""):
    """Starts the guard where none lives. As root, or by sudo where that asks nothing."""
    import subprocess

    folder = ask["folder"]
    if not guard_lives(folder):
        argv = ["sh"] if os.geteuid() == 0 else ["sudo", "-n", "sh"]
        try:
            child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     cwd="/", start_new_session=True)
            _, err = child.communicate(body, timeout=20)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise Refusal("guard", "`%s` failed: %s" % (" ".join(argv), e))
        end = time.monotonic() + 5
        while not guard_lives(folder):
            if time.monotonic() > end:
                rows = err.decode("utf-8", "replace").strip().split("\n")
                raise Refusal("guard", rows[-1][-500:] or "it did not start")
            time.sleep(0.01)
    return op_keep(ask)


# ---- The channel ----------------------------------------------------------------------------------------------------

QUICK = {"status": op_status, "read_log": op_read_log, "read_samples": op_read_samples, "ack": op_ack,
         "read_file": op_read_file, "read_pieces": op_read_pieces, "data_ranges": op_data_ranges, "hash_file": op_hash_file,
         "mkdir": op_mkdir}
SLOW = {"hello": op_hello, "start": op_start, "stop": op_stop, "follow": op_follow, "list": op_list,
        "keep": op_keep, "remove_tree": op_remove_tree}
BODIED = {"runner": op_runner, "guard": op_guard, "compare": op_compare, "put": op_put}


class Channel:
    def __init__(self, out):
        self.out = out
        self.lock = threading.Lock()
        self.busy = set()
        self.asked_at = time.monotonic()

    def send(self, head, body=b""):
        if body:
            head["bytes"] = len(body)
        # Only ASCII, and no escape that the other side could read differently.
        data = json.dumps(head, allow_nan=False).encode() + b"\n"
        with self.lock:
            # Decided where nothing can come in between: a sign of life after the answer would be one to no question.
            if "alive" not in head:
                self.busy.discard(head["id"])
            elif head["id"] not in self.busy:
                return
            for part in (data, body):
                view = memoryview(part)
                while view:
                    view = view[os.write(self.out, view):]

    def serve(self, number, work, *args):
        try:
            value, body = work(*args)
            head = {"id": number, "ok": value}
        except Refusal as e:
            head, body = {"id": number, "error": {"kind": e.kind, "why": str(e)[:4000]}}, b""
        except OSError as e:
            kind = "disk_full" if e.errno in FULL else "missing" if e.errno == errno.ENOENT else "failed"
            where = " (%s)" % os.fsdecode(e.filename) if isinstance(e.filename, (str, bytes)) else ""
            head, body = {"id": number, "error": {"kind": kind, "why": (os.strerror(e.errno or 0) + where)[:4000]}}, b""
        except Exception as e:
            head, body = {"id": number, "error": {"kind": "failed", "why": repr(e)[:4000]}}, b""
        try:
            self.send(head, body)
        except OSError:
            os._exit(0)  # nobody listens any more

    def say_alive(self):
        while True:
            time.sleep(ALIVE_SECONDS)
            if not self.busy and time.monotonic() - self.asked_at > UNASKED_SECONDS:
                os._exit(0)
            for number in list(self.busy):
                try:
                    self.send({"id": number, "alive": True})
                except OSError:
                    os._exit(0)

    def listen(self, source):
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
            threading.Thread(target=self.serve, args=(number,) + args, daemon=True).start()


def unknown(ask):
    raise Refusal("refused", "there is no %s" % str(ask.get("op"))[:100])


def main(nonce):
    # Nothing but frames may get onto the channel, whatever prints.
    out = os.dup(1)
    os.dup2(2, 1)
    os.umask(0o077)
    os.write(out, ("SVC-AGENT %s\n" % nonce).encode())
    Channel(out).listen(sys.stdin.buffer)
