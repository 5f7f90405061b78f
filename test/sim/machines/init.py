"""First process of a simulated machine: starts sshd and the start script, reaps orphans, restarts on USR1, powers
off on USR2, and forwards 127.0.0.1:PORT to the simulator's API.

Arguments: seconds until sshd starts, port of the API (0: none), address of the host.
"""

import os
import signal
import socket
import sys
import time

START = "/etc/sim/start"
WIPE = "/etc/sim/wipe"


def forward(port, host):
    """Forwards with one process, and two more per connection: simple, and there are few connections."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", port))
    door.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        here, _ = door.accept()
        if os.fork() == 0:
            door.close()
            try:
                there = socket.create_connection((host, port), timeout=10)
                there.settimeout(None)
            except OSError:
                os._exit(0)
            pump(here, there, other=os.fork() == 0)
            os._exit(0)
        here.close()


def pump(here, there, other):
    source, sink = (there, here) if other else (here, there)
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    except OSError:
        pass
    for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
        try:
            end.shutdown(how)
        except OSError:
            pass


def run(*argv, log=None):
    """Starts a program in a separate session, with the variables of this process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if log:
            fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
        os.chdir("/root")
        os.execv(argv[0], argv)
    except OSError:
        os._exit(127)


def start(port, host):
    if port and os.fork() == 0:
        try:
            os.setsid()
            forward(port, host)
        finally:
            os._exit(1)
    run("/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config", log="/var/log/sshd.log")
    if os.path.exists(START):
        run("/bin/sh", START, log="/var/log/start.log")


def bury():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end_all():
    """Waits until this process is the only one left."""
    for _ in range(200):
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        bury()
        if not [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]:
            return
        time.sleep(0.01)


def wipe():
    """Removes everything written since the machine was made; the login keys stay."""
    keep = ("/root/.ssh", "/run/sshd", "/var/log", "/var/lib", "/var/cache", "/var/tmp", "/run/lock")
    homes = ["/home/" + name for name in os.listdir("/home")]
    for top in ["/root", "/tmp", "/workspace", "/var", "/run", "/srv", "/mnt", *homes]:
        for folder, names, files in os.walk(top, topdown=False):
            inside_keys = "/.ssh" in folder
            for name in files:
                if not inside_keys:
                    os.unlink(os.path.join(folder, name))
            for name in names:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    os.unlink(path)
                elif not inside_keys and path not in keep and name != ".ssh":
                    try:
                        os.rmdir(path)
                    except OSError:
                        pass


def main():
    boot_seconds, port, host = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    # The whole machine ends with its first process.
    signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
    signal.signal(signal.SIGCHLD, lambda *_: bury())
    signal.signal(signal.SIGTERM, lambda *_: None)
    until = time.monotonic() + boot_seconds
    while time.monotonic() < until:
        time.sleep(max(0, until - time.monotonic()))
    start(port, host)
    while True:
        if not asked:
            signal.pause()
            continue
        asked.clear()
        end_all()
        if os.path.exists(WIPE):
            wipe()
            os.unlink(WIPE)
        start(port, host)
        with open("/etc/sim/restarts", "a") as done:
            done.write(".")


main()
