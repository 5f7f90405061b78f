"""Starts the processes of a run on one node, on the machine itself. The control plane calls it by its path:

    python -u .../svc/_launch.py MODE -- COMMAND...

MODE is ``plain`` (COMMAND takes this process's place), ``torchrun`` (COMMAND is ``python -u -m
torch.distributed.run ...``), ``auto`` (the same, but plain if this Python has no torch) or ``ray`` (COMMAND runs on
the first node, Ray on all).

L1. Python 3.8 or newer and its standard library; torch and Ray are imported only if they are started.
L2. Variables that the user has set stay unchanged.
L3. torchrun runs in this process: signals reach it directly, and it knows which rank failed first and how, without
    parsing output.
L4. The exit code is that of the rank that failed first, 128 + N if signal N ended it. The last line explains it.
L5. Cleaning up is left to the runner, which ends every process of the run when this one has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, NoReturn

TORCHRUN = ["-u", "-m", "torch.distributed.run"]
# Exit codes that a rank gets from the failure of another node: an exception, an abort, the TERM of its own
# torchrun.
ECHOES = (1, 134, 143)
# Longer than a torchrun takes to notice (monitor_interval) and report a failure.
ECHO_SECONDS = 3.0
MISSING = 78  # EX_CONFIG
# Next to the port at which ranks meet, which must not be disturbed.
PROBE_PORT = 29499
PROBE_SECONDS = 5


def say(words: str) -> None:
    os.write(1, ("svc: %s\n" % words).encode("utf-8", "replace"))


def number(name: str, least: int) -> int:
    text = os.environ.get(name, "")
    return max(least, int(text)) if text.isdigit() else least


# ---- Preflight ------------------------------------------------------------------------------------------------------


def preflight(command: list[str], processes: int) -> None:
    nodes, node = number("SVC_NUM_NODES", 1), number("SVC_NODE_RANK", 0)
    torch = version_of("torch")
    say("python %s, torch %s, %d cores" % (sys.version.split()[0], torch or "not installed", cores()))
    say("GPUs: %s" % gpus(number("SVC_GPUS_PER_NODE", 0)))
    say("free: %s on disk, %s of /dev/shm; open files: %s" % (free("."), free("/dev/shm"), raise_open_files()))
    default("OMP_NUM_THREADS", str(max(1, cores() // max(1, processes))))
    if nodes > 1:
        master = os.environ.get("SVC_MASTER_ADDR", "")
        interface, address = route_to(master)
        if interface:
            default("NCCL_SOCKET_IFNAME", interface)
            default("GLOO_SOCKET_IFNAME", interface)
        where = "node %d of %d, %s on %s; rank 0 is at %s" % (node, nodes, address or "?", interface or "?", master)
        say(where + (reached(master) if node > 0 else ""))
    say("starting: %s" % " ".join(quoted(word) for word in command))


def default(name: str, value: str) -> None:
    if not os.environ.get(name):
        os.environ[name] = value


def version_of(package: str) -> str | None:
    """The version of a package without importing it; None if it is not installed."""
    from importlib import metadata, util

    if util.find_spec(package) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # built in place, without metadata
        return "of unknown version"


def cores() -> int:
    """Cores that this run may use: by its affinity, and by the quota of a container."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        pass
    return max(1, count)


def gpus(wanted: int) -> str:
    import subprocess

    if wanted == 0:
        return "none wanted"
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "%d wanted; nvidia-smi does not answer" % wanted
    found = [line for line in listed.stdout.decode("utf-8", "replace").splitlines() if line.startswith("GPU ")]
    words = "%d wanted, %d found" % (wanted, len(found))
    return words + (": " + found[0].split(" (UUID")[0][7:] if found else "") + ("" if len(found) >= wanted else " (TOO FEW)")


def free(path: str) -> str:
    try:
        stat = os.statvfs(path)
    except OSError:
        return "?"
    return "%.1f GiB" % (stat.f_bavail * stat.f_frsize / 2.0**30)


def raise_open_files() -> str:
    """Data loaders pass tensors as open files, which soon reach the soft limit of 1024."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 1 << 20 if hard == resource.RLIM_INFINITY else min(hard, 1 << 20)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return "%d, raised from %d" % (wanted, soft)
        return str(soft)
    except (ImportError, OSError, ValueError) as error:
        return "unknown (%s)" % error


def route_to(host: str) -> tuple[str | None, str | None]:
    """Name and address of the interface by which ``host`` is reached; None if it cannot be found."""
    import fcntl
    import socket
    import struct

    try:
        family, _, _, _, target = socket.getaddrinfo(host or "127.0.0.1", 9, 0, socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            address = probe.getsockname()[0]
    except OSError:
        return None, None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(any_socket, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue
            if socket.inet_ntoa(told[20:24]) == address:
                return name, address
    return None, address


def reached(host: str) -> str:
    """Whether the machine of rank 0 answers at all: no process listens at this port, and a refused connection is an
    answer."""
    import socket

    try:
        socket.create_connection((host, PROBE_PORT), PROBE_SECONDS).close()
    except ConnectionRefusedError:
        pass
    except OSError as error:
        return ", which DOES NOT ANSWER (%s): without a network between the nodes the ranks cannot connect" % error
    return ", which answers"


def quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)


# ---- torchrun -------------------------------------------------------------------------------------------------------


class Ends:
    """The order in which the ranks ended: torchrun polls once a second, and by then the others have failed, too."""

    def __init__(self) -> None:
        self.order: dict[int, int] = {}
        signal.signal(signal.SIGCHLD, self.look)

    def look(self, *_: object) -> None:
        for pid in children():
            if pid in self.order:
                continue
            try:
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    self.order[pid] = len(self.order)
            except OSError:
                continue

    def first(self, failures: Mapping[int, Any]) -> tuple[int, Any]:
        """(rank, failure) of the rank that ended first, as far as observed."""
        return min(failures.items(), key=lambda item: (self.order.get(item[1].pid, len(self.order)), item[0]))


def children() -> list[int]:
    found = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open("/proc/self/task/%s/children" % thread) as file:
                found += [int(pid) for pid in file.read().split()]
    except (OSError, ValueError):
        pass
    return found


def torchrun(arguments: list[str]) -> int:
    sys.argv = ["torchrun", *arguments]
    ends = Ends() if hasattr(os, "waitid") else None
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    give_ranks_the_grace()
    give_ranks_pipes()
    try:
        run.main(arguments)
        return 0
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    except ChildFailedError as failed:
        failures = {rank: f for rank, f in failed.failures.items() if f.exitcode}
        if not failures:
            raise
        rank, failure = ends.first(failures) if ends else failed.get_first_failure()
        os.write(2, ("%s\n" % failed).encode("utf-8", "replace"))
        return told(rank, failure)


def give_ranks_pipes() -> None:
    """Gives each rank its own pipe instead of our stdout and stderr: the runner keeps its lines whole."""
    import subprocess

    begin = subprocess.Popen.__init__

    def begin_with_pipe(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
        missing = [name for name in ("stdout", "stderr") if kwargs.get(name) is None]
        fd = rank_pipe((kwargs.get("env") or {}).get("RANK", "")) if missing else None
        if fd is None:
            return begin(self, *args, **kwargs)
        try:
            return begin(self, *args, **dict(kwargs, **dict.fromkeys(missing, fd)))
        finally:
            os.close(fd)

    subprocess.Popen.__init__ = begin_with_pipe  # type: ignore[method-assign]


def rank_pipe(rank: str) -> int | None:
    """The pipe that the runner has made for a rank; None if there is none, or it is gone."""
    import stat

    folder = os.environ.get("SVC_RUN_DIR")
    if not folder or not rank.isdigit():
        return None
    try:
        fd = os.open(os.path.join(folder, "ranks", rank), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    os.set_blocking(fd, True)
    return fd


def give_ranks_the_grace() -> None:
    """torchrun kills its ranks 30 s after asking them to end: a run may have more time than that to save its state."""
    try:
        from torch.distributed.elastic.multiprocessing import api

        close = api.PContext.close
    except (ImportError, AttributeError):  # a version that ends its ranks in another way
        return
    grace = number("SVC_STOP_GRACE_SECONDS", 0)

    def close_with_grace(context: Any, death_sig: Any = None, timeout: int = 30) -> Any:
        return close(context, death_sig, max(timeout, grace))

    api.PContext.close = close_with_grace


def told(rank: int, failure: Any) -> int:
    code = int(failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode)
    how = "exited with code %d" % code if failure.exitcode > 0 else "was ended by %s" % signal_name(-failure.exitcode)
    nodes = number("SVC_NUM_NODES", 1)
    if nodes > 1 and code in ECHOES:
        # The node that fails first decides: this failure may only follow from another node's, which then arrives
        # earlier.
        time.sleep(ECHO_SECONDS)
    where = " (local rank %d of node %d)" % (failure.local_rank, number("SVC_NODE_RANK", 0)) if nodes > 1 else ""
    say("rank %d%s %s" % (rank, where, how))
    return code


def signal_name(value: int) -> str:
    try:
        return signal.Signals(value).name
    except ValueError:
        return "signal %d" % value


def without_torchrun(command: list[str]) -> list[str]:
    """The script of a torchrun command, as one plain process."""
    rest = command[1 + len(TORCHRUN) :]
    while rest and rest[0].startswith("--") and rest[0] != "--no_python":
        rest = rest[1:]
    if rest[:1] == ["--no_python"]:
        return rest[1:]
    return [command[0], "-u", *rest]  # `-m module` has the same form


# ---- The way in -----------------------------------------------------------------------------------------------------


def become(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        why = error.strerror
        if isinstance(error, FileNotFoundError) and os.path.exists(command[0]):
            with open(command[0], "rb") as file:
                line = file.readline(256).decode("utf-8", "replace").strip()
            why = "it begins with `%s`, and there is no such interpreter on this machine" % line
        say("%s cannot be run: %s" % (command[0], why))
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def processes_of(command: list[str]) -> int:
    for word in command:
        if word.startswith("--nproc_per_node="):
            number = word.split("=")[1]
            return int(number) if number.isdigit() else 1
    return 1


def main(argv: list[str]) -> int:
    if len(argv) < 4 or argv[1] not in ("plain", "auto", "torchrun", "ray") or argv[2] != "--":
        say("usage: _launch.py plain|auto|torchrun|ray -- COMMAND...")
        return 2
    mode, command = argv[1], argv[3:]
    # The folder of this file must not hide packages of the same names as its files.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    if mode in ("auto", "torchrun") and version_of("torch") is None:
        if mode == "torchrun":
            say("launcher_missing: torchrun: torch is not installed for %s" % sys.executable)
            return MISSING
        say("torch is not installed for %s: one plain process is started instead of one for each GPU" % sys.executable)
        mode, command = "plain", without_torchrun(command)
    if sys.prefix != sys.base_prefix:
        # Scripts expect the programs of the run's environment.
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", os.defpath)
        default("VIRTUAL_ENV", sys.prefix)
    preflight(command, processes_of(command))
    if mode == "plain":
        become(command)
    if mode == "ray":
        import runpy

        return int(runpy.run_path(os.path.join(here, "_launch_ray.py"))["main"](command, say, MISSING))
    return torchrun(command[1 + len(TORCHRUN) :])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
