// The Python cell that makes a notebook runtime reachable: a separate SSH daemon on the runtime's loopback, and a
// tunnel to it. Python 3.7 and newer, only the standard library. `@PUBLIC_KEY@` becomes a Python string.
//
// B1. The terms that the runtime's owner must know come first, in the cell and in its output.
// B2. Keys only, never a password; host keys are made here, since an image may ship the same ones to every user.
// B3. The cell asks for the token of a tunnel when it runs. The token is neither in the cell nor on a command line, nor
//     printed.
// B4. A second run keeps the daemon with its host key and replaces only its own tunnel.
// B5. Errors are explained, with a remedy.

export const CELL = String.raw`#@title Connect this runtime to svc
# Terms: runtimes without paid units usually forbid SSH and being driven from outside, and every tier forbids
# some uses, such as proxies, file hosting and mining. Read your notebook provider's terms before you run this.
# Never paste a token into this cell: it would be saved and shared with the notebook. You are asked for it.
TUNNEL = "ngrok"  #@param ["ngrok", "bore", "pinggy"]
BORE_SERVER = "bore.pub"  #@param {type:"string"}
PINGGY_SERVER = "a.pinggy.io"  #@param {type:"string"}
PUBLIC_KEY = @PUBLIC_KEY@

import getpass, json, os, pwd, re, shlex, shutil, signal, socket, subprocess, sys, time, urllib.request

TERMS = """Before you go on: runtimes without paid units usually forbid SSH and remote control, and no tier allows
every use. It is your account; read the terms. The runtime stays yours: it ends when you close the notebook
(and may be reclaimed when its tab is closed or idle). svc never ends it."""

GPU_LIBRARIES = ["/usr/lib64-nvidia", "/usr/local/nvidia/lib", "/usr/local/nvidia/lib64"]
PROGRAMS = ["/opt/bin", "/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/usr/local/sbin", "/usr/local/bin",
            "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
CARRIED = re.compile(r"^(LIBRARY_PATH|COLAB_GPU|COLAB_TPU_ADDR|TF_FORCE_GPU_ALLOW_GROWTH|XRT_TPU_CONFIG"
                     r"|(NVIDIA|CUDA|TPU)_[A-Z0-9_]+)$")
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH")
NGROK_WORDS = {
    "8013": "a free account needs a verified card before it may open TCP tunnels: add one in ngrok's dashboard, or set TUNNEL to bore",
    "302": "ngrok does not know this authtoken: copy it again from ngrok's dashboard",
    "4018": "ngrok wants an authtoken: copy it from ngrok's dashboard",
    "105": "this is not an authtoken: copy it again from ngrok's dashboard",
    "107": "this authtoken was revoked: copy the current one from ngrok's dashboard",
    "108": "another agent of the account still runs, perhaps in an old runtime: stop it on ngrok's page of agents",
    "120": "this ngrok agent is too old: remove it and run the cell again",
    "121": "this ngrok agent is too old: remove it and run the cell again",
    "702": "the account's connections are used up for now: wait a minute, or set TUNNEL to bore",
    "15002": "the account's plan wants a reserved TCP address: reserve one, or set TUNNEL to bore",
}


class Problem(Exception):
    pass


def say(text):
    print(text, flush=True)


def run(command, seconds, **more):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, timeout=seconds, **more)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, command[0] + ": not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, command[0] + " took longer than %d s" % seconds)


def last_words(text, secret=None):
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text or "")
    if secret:
        text = text.replace(secret, "***redacted***")
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-3:])[:600]


def write(path, text, mode=0o600):
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
    os.chmod(path + ".new", mode)
    os.replace(path + ".new", path)


def read(path):
    try:
        with open(path, errors="replace") as source:
            return source.read()
    except OSError:
        return ""


def program(name):
    for path in [shutil.which(name), "/usr/sbin/" + name, "/usr/bin/" + name, "/opt/bin/" + name]:
        if path and os.access(path, os.X_OK):
            return path
    return None


def look_around():
    nvidia = program("nvidia-smi")
    found = run([nvidia, "-L"], 30) if nvidia else None
    gpus = [line for line in (found.stdout if found and found.returncode == 0 else "").splitlines() if "GPU" in line]
    if gpus:
        say("GPU: " + "; ".join(re.sub(r" \(UUID.*", "", line) for line in gpus))
    else:
        say("Warning: no GPU is seen here. Choose a GPU runtime in the notebook's menu, unless you want none.")


def install():
    missing = [package for name, package in [("sshd", "openssh-server"), ("ssh-keygen", "openssh-client"), ("rsync", "rsync")]
               if not program(name)]
    if missing and os.geteuid() != 0:
        say("Warning: not root, so nothing can be installed here.")
    elif missing:
        say("Installing %s (up to a minute) ..." % ", ".join(missing))
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        run(["apt-get", "-qq", "update"], 180, env=quiet)
        done = run(["apt-get", "-qq", "install", "-y", "--no-install-recommends"] + missing, 300, env=quiet)
        if done.returncode != 0 and not program("sshd"):
            raise Problem("apt-get could not install the SSH daemon: " + last_words(done.stdout))
    if not program("sshd") or not program("ssh-keygen"):
        raise Problem("there is no SSH daemon (sshd) here and it could not be installed")
    if not program("rsync"):
        say("Warning: no rsync here; sending the project is slower without it.")


def authorize(home):
    folder = os.path.join(home, ".ssh")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    keys = os.path.join(folder, "authorized_keys")
    lines = read(keys)
    blob = PUBLIC_KEY.split()[1]
    if blob not in lines.split():
        write(keys, lines + ("\n" if lines and not lines.endswith("\n") else "") + PUBLIC_KEY + "\n")
    os.chmod(keys, 0o600)
    return keys


def unlock(user, root):
    # Without PAM, sshd turns away an account whose password field is locked, key or not. "*" allows no password either.
    for line in read(os.path.join(root, "etc/shadow")).splitlines():
        name, _, rest = line.partition(":")
        if name == user and rest.startswith("!"):
            run(["usermod", "-p", "*", user], 20)


def session_environment():
    """What the kernel knows and an SSH session does not: where the GPU's programs and libraries are."""
    def joined(own, usual):
        parts = [part for part in own.split(":") if part]
        return ":".join(parts + [part for part in usual if part not in parts and os.path.isdir(part)])
    values = {"PATH": joined(os.environ.get("PATH", ""), PROGRAMS)}
    libraries = joined(os.environ.get("LD_LIBRARY_PATH", ""), GPU_LIBRARIES)
    if libraries:
        values["LD_LIBRARY_PATH"] = libraries
    for name, value in sorted(os.environ.items()):
        if CARRIED.match(name) and not SECRET.search(name):
            values[name] = value
    # sshd reads quotes, backslashes and # in its own way: such values are left out.
    return {name: value for name, value in values.items() if re.fullmatch(r"[ !$-&(-\[\]-~]*", value)}


def configuration(base, port, user, keys, environment):
    set_env = " ".join('"%s=%s"' % item for item in environment.items())
    return "\n".join([
        "Port %d" % port,
        "ListenAddress 127.0.0.1",
        "HostKey %s/host_ed25519_key" % base,
        "PidFile %s/sshd.pid" % base,
        "AuthorizedKeysFile %s" % keys,
        "AllowUsers %s" % user,
        "PermitRootLogin prohibit-password",
        "PubkeyAuthentication yes",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        # One user, one machine: how the image set the modes of its home folder must not lock the key out.
        "StrictModes no",
        "AllowAgentForwarding no",
        "X11Forwarding no",
        "PermitTunnel no",
        "UseDNS no",
        "PrintMotd no",
        "ClientAliveInterval 30",
        "ClientAliveCountMax 6",
        "MaxSessions 64",
        "MaxStartups 64:30:128",
        "AcceptEnv SVC_*",
        "Subsystem sftp internal-sftp",
        # sshd heeds only the first SetEnv line, so all are on one.
        "SetEnv " + set_env,
        ""])


def profile(root, environment):
    """For login shells, which set their own PATH, and for whoever loads libcuda without any variable."""
    if os.geteuid() != 0:
        return
    os.makedirs(os.path.join(root, "etc/profile.d"), exist_ok=True)
    lines = ["export %s=%s" % (name, shlex.quote(value)) for name, value in environment.items()]
    write(os.path.join(root, "etc/profile.d/svc.sh"), "\n".join(lines) + "\n", 0o644)
    libraries = [folder for folder in GPU_LIBRARIES[:1] if os.path.isdir(folder)]
    if libraries:
        os.makedirs(os.path.join(root, "etc/ld.so.conf.d"), exist_ok=True)
        write(os.path.join(root, "etc/ld.so.conf.d/svc.conf"), "\n".join(libraries) + "\n", 0o644)
        run(["ldconfig"], 60)


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def started(pid):
    """When a process began, in the kernel's own count: a number of a process may be used again."""
    stat = read("/proc/%d/stat" % pid)
    return stat.rsplit(")", 1)[-1].split()[19] if ")" in stat else None


def own_daemon(base):
    try:
        pid = int(read(os.path.join(base, "sshd.pid")))
    except ValueError:
        return None
    return pid if os.path.join(base, "sshd_config") in read("/proc/%d/cmdline" % pid) else None


def choose_port(base, wanted):
    found = re.search(r"^Port (\d+)$", read(os.path.join(base, "sshd_config")), re.M)
    if found and own_daemon(base):
        return int(found.group(1))
    for port in [wanted or (22 if os.geteuid() == 0 else 2222), 2222, 2223, 2224, 2225]:
        if is_free(port):
            return port
    raise Problem("the ports 22 and 2222 to 2225 are all in use here")


def daemon(base, port, user, keys, environment):
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd does not start without it
    host_key = os.path.join(base, "host_ed25519_key")
    if not os.path.exists(host_key) or not os.path.exists(host_key + ".pub"):
        for name in [host_key, host_key + ".pub"]:
            if os.path.exists(name):
                os.remove(name)
        made = run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", host_key], 60)
        if made.returncode != 0:
            raise Problem("no host key could be made: " + last_words(made.stdout))
    path, text = os.path.join(base, "sshd_config"), configuration(base, port, user, keys, environment)
    old = own_daemon(base)
    if old and read(path) == text and answers(port):
        say("The SSH daemon of an earlier run still answers: it is kept.")
        return
    write(path, text)
    sshd = program("sshd")
    tested = run([sshd, "-t", "-f", path], 30)
    if tested.returncode != 0:
        raise Problem("sshd does not take its configuration: " + last_words(tested.stdout))
    if old:
        os.kill(old, signal.SIGTERM)  # sessions that are open stay open
        wait(lambda: not own_daemon(base), 5)
    log = os.path.join(base, "sshd.log")
    begun = run([sshd, "-f", path, "-E", log], 30)
    if begun.returncode != 0 or not wait(lambda: answers(port), 10):
        raise Problem("sshd did not start: " + last_words(begun.stdout + read(log)))


def wait(ready, seconds):
    end = time.monotonic() + seconds
    while True:
        value = ready()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.2)


def stop_tunnel(base):
    try:
        state = json.loads(read(os.path.join(base, "tunnel.json")))
        pid = int(state["pid"])
    except (ValueError, KeyError, TypeError):
        return
    for number, seconds in [(signal.SIGTERM, 5), (signal.SIGKILL, 5)]:
        if started(pid) is None or started(pid) != state.get("started"):
            break
        try:
            os.killpg(pid, number)
        except OSError:
            break
        wait(lambda: gone(pid), seconds)
    os.remove(os.path.join(base, "tunnel.json"))


def gone(pid):
    try:
        os.waitpid(pid, os.WNOHANG)  # of this kernel: it must be collected to be gone
    except OSError:
        pass
    return started(pid) is None


def ask_token():
    token = os.environ.get("NGROK_AUTHTOKEN", "")
    if not token:
        try:
            from google.colab import userdata
            token = userdata.get("NGROK_AUTHTOKEN")
        except Exception:
            token = ""
    if not token:
        try:
            token = getpass.getpass("ngrok authtoken (from ngrok's dashboard; it is not kept in the notebook): ")
        except EOFError:
            token = ""
    token = (token or "").strip()
    if not re.match(r"^[A-Za-z0-9_-]{10,200}$", token):
        raise Problem("ngrok wants an authtoken, and the given text is not one: put it among the notebook's secrets as "
                      "NGROK_AUTHTOKEN, or type it when you are asked")
    return token


def ngrok_program(base):
    own = os.path.join(base, "ngrok")
    for path in [own, program("ngrok")]:
        if path and os.path.exists(path) and "version 2" not in run([path, "version"], 10).stdout:
            return path
    say("Fetching ngrok ...")
    made = run([sys.executable, "-m", "pip", "install", "-q", "pyngrok"], 180)
    if made.returncode == 0:
        made = run([sys.executable, "-c", "import sys; from pyngrok import conf, ngrok; "
                    "ngrok.install_ngrok(conf.PyngrokConfig(ngrok_path=sys.argv[1]))", own], 180)
    if made.returncode != 0 or not os.path.exists(own):
        raise Problem("ngrok could not be fetched: %s. Try again, or set TUNNEL to pinggy" % last_words(made.stdout))
    return own


def from_ngrok(port, log):
    for line in log.splitlines():
        found = re.search(r'"?url"?[=:]\s*"?tcp://([A-Za-z0-9.-]+):(\d+)', line)
        if found:
            return found.group(1), int(found.group(2))
    web = re.findall(r"starting web service.*?addr\"?[=:]\s*\"?(127\.0\.0\.1:\d+)", log)
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open("http://%s/api/tunnels" % (web[-1] if web else "127.0.0.1:4040"), timeout=3) as answer:
            listed = json.loads(answer.read(1 << 20).decode("utf8", "replace")).get("tunnels") or []
    except Exception:
        return None  # not up yet
    for tunnel in listed:
        found = re.match(r"^tcp://([A-Za-z0-9.-]+):(\d+)$", str(tunnel.get("public_url") or tunnel.get("uri")))
        target = str((tunnel.get("config") or {}).get("addr") or "")
        # Another agent of the owner's may answer here: only a tunnel to our own daemon is ours.
        if found and (not target or target.endswith(":%d" % port)):
            return found.group(1), int(found.group(2))
    return None


def from_bore(_port, log):
    found = re.findall(r"listening at ([A-Za-z0-9.-]+):(\d+)", log)
    return (found[-1][0], int(found[-1][1])) if found else None


def from_pinggy(_port, log):
    found = re.findall(r"tcp://([A-Za-z0-9.-]+):(\d+)", log)
    return (found[-1][0], int(found[-1][1])) if found else None


def tunnel_command(kind, base, port):
    """The command, the additions to its environment, and how its address is found."""
    if kind == "ngrok":
        agent, token = ngrok_program(base), ask_token()
        return [agent, "tcp", str(port), "--log=stdout", "--log-format=json"], {"NGROK_AUTHTOKEN": token}, from_ngrok, token
    if kind == "bore":
        if not program("bore"):
            raise Problem("there is no program bore here: put its binary on the PATH (its releases page has one for Linux), "
                          "or set TUNNEL to ngrok or pinggy")
        if not re.match(r"^[A-Za-z0-9][A-Za-z0-9.-]*$", BORE_SERVER):
            raise Problem("BORE_SERVER must be the name of a host")
        return [program("bore"), "local", str(port), "--to", BORE_SERVER], {}, from_bore, os.environ.get("BORE_SECRET")
    if kind == "pinggy":
        if not program("ssh"):
            raise Problem("pinggy needs the program ssh, which is not here: set TUNNEL to ngrok or bore")
        if not re.match(r"^[A-Za-z0-9][A-Za-z0-9.-]*$", PINGGY_SERVER):
            raise Problem("PINGGY_SERVER must be the name of a host")
        say("pinggy's free tunnels end after 60 minutes: run the cell again then, and set the new address.")
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ExitOnForwardFailure=yes",
                   "ServerAliveInterval=30", "NumberOfPasswordPrompts=1"]
        command = [program("ssh"), "-F", "none", "-p", "443"] + [part for option in options for part in ("-o", option)]
        # It may ask for a password, which is empty.
        empty = {"SSH_ASKPASS": program("true") or "/bin/true", "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
        return command + ["-R0:127.0.0.1:%d" % port, "tcp@" + PINGGY_SERVER], empty, from_pinggy, None
    raise Problem("TUNNEL must be ngrok, bore or pinggy")


def open_tunnel(kind, base, port, seconds):
    stop_tunnel(base)
    command, more, address_in, secret = tunnel_command(kind, base, port)
    path = os.path.join(base, "tunnel.log")
    write(path, "")
    say("Opening the tunnel (%s) ..." % kind)
    with open(path, "ab") as log:
        # A session of its own: interrupting the cell, or restarting the kernel, must not end it.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                 start_new_session=True, cwd="/", env=dict(os.environ, **more))
    write(os.path.join(base, "tunnel.json"), json.dumps({"pid": child.pid, "started": started(child.pid), "kind": kind}))

    def text():
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", read(path))
    found = wait(lambda: (child.poll() is None and address_in(port, text())) or child.poll() is not None, seconds)
    if isinstance(found, tuple):
        return found
    ended = child.poll()
    stop_tunnel(base)
    for code in re.findall(r"ERR_NGROK_(\d+)", text()):
        if code in NGROK_WORDS:
            raise Problem("%s (ERR_NGROK_%s)" % (NGROK_WORDS[code], code))
    said = last_words(text(), secret) or "it said nothing"
    if ended is None:
        raise Problem("the tunnel told no address within %d s; its last words: %s" % (seconds, said))
    raise Problem("the tunnel ended at once (exit code %s): %s" % (ended, said))


def show(host, port, user, host_key, base):
    print_of = run(["ssh-keygen", "-l", "-f", os.path.join(base, "host_ed25519_key.pub")], 20).stdout.split()
    line = json.dumps({"host": host, "port": port, "user": user, "hostKey": host_key}, separators=(",", ":"))
    say("")
    say("SVC-ENDPOINT " + line)
    say("")
    say("Connected. Paste the line above as NOTEBOOK_ENDPOINT where svc serve is started, or as endpoint of notebook")
    say("in credentials.json; or set its parts:")
    say("  host      %s" % host)
    say("  port      %d" % port)
    say("  user      %s" % user)
    say("  host key  %s" % (print_of[1] if len(print_of) > 1 else host_key))
    say("  by hand   ssh -p %d %s@%s" % (port, user, host))
    say("Keep this notebook open and in use. When the tunnel is lost, run the cell again: the address will be another one.")


def connect(tunnel=None, root="/", home=None, port=None, seconds=60):
    """Prints the address and returns it, or says what went wrong and returns None. A test gives it another root."""
    say(TERMS)
    account = pwd.getpwuid(os.geteuid())
    try:
        look_around()
        install()
        base = os.path.join(root, "etc/ssh/svc") if os.geteuid() == 0 else os.path.join(home or account.pw_dir, ".svc-ssh")
        os.makedirs(base, mode=0o700, exist_ok=True)
        os.chmod(base, 0o700)
        keys = authorize(home or account.pw_dir)
        unlock(account.pw_name, root)
        environment = session_environment()
        profile(root, environment)
        port = choose_port(base, port)
        daemon(base, port, account.pw_name, keys, environment)
        host, public_port = open_tunnel(tunnel or TUNNEL, base, port, seconds)
        host_key = " ".join(read(os.path.join(base, "host_ed25519_key.pub")).split()[:2])
        show(host, public_port, account.pw_name, host_key, base)
        return {"host": host, "port": public_port, "user": account.pw_name, "hostKey": host_key}
    except Problem as problem:
        say("")
        say("Not connected: %s." % problem)
    except OSError as error:
        say("")
        say("Not connected: this runtime does not allow something that is needed (%s)." % error)
    return None


if __name__ == "__main__":
    connect()
`;
