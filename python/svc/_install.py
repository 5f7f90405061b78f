"""Installs what a project needs, on the machine itself, into a virtual environment that keeps the image's torch.

    python -u .../svc/_install.py KIND ENVIRONMENT          in the project's directory

KIND is ``uv.lock``, ``requirements.txt``, ``pyproject.toml`` or ``environment.yml``; ENVIRONMENT is made where it is missing, and
afterwards ENVIRONMENT/bin/python runs the project.

N1. The image's torch was built for its driver: the environment sees the packages of the Python that has it. What installs
    another one in its place fails where CUDA would be lost.
N2. What was installed for the same files, Python and torch is not installed again: a mark in the environment says so.
N3. The tool's output is the log, unchanged; when it fails, its last line is the last line.
N4. Python 3.8 or newer, standard library only.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

MARK = ".svc-installed"
PYTHONS = ("python3", "python", "/opt/conda/bin/python", "/opt/venv/bin/python", "/venv/bin/python", "/workspace/venv/bin/python")
# What belongs to a torch and must be of its build.
TORCH_FAMILY = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton")
TELL_TORCH = (
    "import json, torch; "
    "print(json.dumps([torch.__version__, torch.version.cuda or torch.version.hip, torch.cuda.is_available()]))"
)
TELL_PATHS = (
    "import json, sys, sysconfig; "
    "print(json.dumps([sys.version, sys.prefix != sys.base_prefix, sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]))"
)


class Failed(Exception):
    def __init__(self, words=None, code=1):
        Exception.__init__(self, words)
        self.words = words
        self.code = code


def say(words):
    os.write(1, ("svc: %s\n" % words).encode("utf-8", "replace"))


def main(argv):
    kind, environment = argv[1], os.path.abspath(argv[2])
    try:
        install(kind, environment)
        return 0
    except Failed as failed:
        if failed.words:
            say(failed.words)
        return failed.code


def install(kind, environment):
    python = os.path.join(environment, "bin", "python")
    base = base_python()
    before = torch_of(base)
    say("installing from %s for %s, torch %s" % (kind, base, words_of(before)))
    fingerprint = fingerprint_of(kind, base, before)
    mark = os.path.join(environment, MARK)
    if fingerprint is not None and read(mark) == fingerprint and told(python, "print(1)") == 1:
        say("nothing has changed since it was installed")
        return
    if os.path.lexists(mark):
        os.unlink(mark)
    if kind.startswith("environment."):
        install_conda(kind, environment)
    elif kind == "uv.lock":
        make_environment(base, environment, before)
        install_locked(base, environment, before)
    else:
        make_environment(base, environment, before)
        install_pip(kind, base, environment, before)
    after = torch_of(python)
    compare(before, after, kind.startswith("environment."))
    if fingerprint is not None:
        with open(mark, "w", encoding="ascii") as file:
            file.write(fingerprint)
    say("installed; the run's Python is %s, torch %s" % (python, words_of(after)))


# ---- Which Python, which torch --------------------------------------------------------------------------------------

def base_python():
    """The Python that has the image's torch; else the one that runs this."""
    for name in (sys.executable,) + PYTHONS:
        path = shutil.which(name)
        if path and told(path, "import importlib.util as u, sys; print(int(sys.version_info >= (3, 8) and u.find_spec('torch') is not None))"):
            return path
    return sys.executable


def told(python, code, seconds=180):
    """What the code prints, as JSON; None where it cannot be told."""
    try:
        run = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False)
        return json.loads(run.stdout.decode().strip().splitlines()[-1]) if run.returncode == 0 else None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def torch_of(python):
    return told(python, TELL_TORCH)


def words_of(torch):
    if torch is None:
        return "not installed"
    return "%s (%s%s)" % (torch[0], "CUDA %s" % torch[1] if torch[1] else "CPU only", "" if torch[2] or not torch[1] else ", no GPU seen")


def compare(before, after, own):
    """N1. A conda environment is one of its own: there it may be wanted that there is no torch."""
    if before is None or not before[1] or (own and after is None):
        return
    lost = after is None or not after[1] or (before[2] and not after[2])
    if lost:
        words = "CUDA is lost: the image has torch %s, after installing it is %s; "
        raise Failed(words % (words_of(before), words_of(after)) + "leave torch out of the requirements, or pin one that has CUDA")
    if before[0] != after[0]:
        say("the image's torch %s was replaced by %s" % (words_of(before), words_of(after)))


def fingerprint_of(kind, base, torch):
    """None where only installing tells what would change: the project's own code is part of it."""
    if kind == "pyproject.toml":
        return None
    names = ["uv.lock", "pyproject.toml"] if kind == "uv.lock" else [kind]
    if kind == "requirements.txt":  # it may name others
        names = sorted(set(names + [n for n in os.listdir(".") if n.endswith(".txt")]))
    parts = [kind, base, sys.version, json.dumps(torch)]
    for name in names:
        parts += [name, hashlib.sha256((read(name) or "").encode("utf-8", "surrogateescape")).hexdigest()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def read(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


# ---- The environment ------------------------------------------------------------------------------------------------

def make_environment(base, environment, torch):
    python = os.path.join(environment, "bin", "python")
    if told(python, "print(1)") != 1:
        shutil.rmtree(environment, ignore_errors=True)
        uv = shutil.which("uv")
        made = quiet([base, "-m", "venv", "--system-site-packages", "--without-pip", environment])
        if not made and uv:
            made = quiet([uv, "venv", "--quiet", "--system-site-packages", "--python", base, environment])
        if not made:
            say("no virtual environment can be made here: packages go beside those of %s" % base)
            stand_in(base, environment)
    paths = told(base, TELL_PATHS)
    if paths and paths[1] and not stands_in(environment):
        # A virtual environment made by another one sees the packages of neither, only those of the system.
        folder = told(python, "import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))")
        with open(os.path.join(folder, "_svc_image.pth"), "w", encoding="utf-8") as file:
            file.write("".join(path + "\n" for path in dict.fromkeys(paths[2:])))
    if torch is not None and told(python, "import importlib.util as u; print(int(u.find_spec('torch') is not None))") != 1:
        raise Failed("the environment does not see the image's torch %s" % words_of(torch))


def stand_in(base, environment):
    folder = os.path.join(environment, "bin")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "python")
    with open(path, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nexec "%s" "$@"\n' % base)
    os.chmod(path, 0o755)


def stands_in(environment):
    return not os.path.exists(os.path.join(environment, "pyvenv.cfg"))


def quiet(command):
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError:
        return False
    return run.returncode == 0


def run(command, **variables):
    say(" ".join(command))
    code = subprocess.call(command, env=dict(os.environ, **variables))
    if code != 0:
        raise Failed(None, code if code > 0 else 128 - code)


# ---- The tools ------------------------------------------------------------------------------------------------------

def pip_for(base, environment):
    """The command that installs into the environment with pip; None where there is no pip."""
    python = os.path.join(environment, "bin", "python")
    options = ["--disable-pip-version-check", "--no-input"]
    if stands_in(environment):
        own = [] if os.access(told(base, TELL_PATHS)[2], os.W_OK) else ["--user"]
        return [python, "-m", "pip", "install"] + options + own + managed(base)
    if quiet([python, "-m", "pip", "--version"]):
        return [python, "-m", "pip", "install"] + options
    for other in (base, sys.executable):
        if quiet([other, "-m", "pip", "--python", python, "--version"]):
            return [other, "-m", "pip", "--python", python, "install"] + options
    if quiet([python, "-m", "ensurepip"]):
        return [python, "-m", "pip", "install"] + options
    return None


def managed(base):
    """A Python of the system may say that packages are not to be put beside its own."""
    code = "import os, sysconfig; print(int(os.path.exists(os.path.join(sysconfig.get_path('stdlib'), 'EXTERNALLY-MANAGED'))))"
    return ["--break-system-packages"] if told(base, code) == 1 else []


def install_pip(kind, base, environment, torch):
    wanted = ["."] if kind == "pyproject.toml" else ["-r", kind]
    if kind == "requirements.txt" and not re.search(r"^\s*[^\s#]", read(kind) or "", re.MULTILINE):
        say("requirements.txt names nothing")
        return
    pip = pip_for(base, environment)
    if pip:
        run(pip + ["--progress-bar", "off"] + wanted)
        return
    uv = shutil.which("uv")
    if not uv:
        raise Failed("neither pip nor uv is on the machine: choose an image that has one, or set install to a command of your own")
    more = []
    if torch is not None:
        # uv does not see the image's packages: what belongs to its torch is left out.
        path = os.path.join(environment, ".svc-overrides.txt")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join("%s; sys_platform == 'never'\n" % name for name in TORCH_FAMILY))
        more = ["--override", path]
    run([uv, "pip", "install", "--python", os.path.join(environment, "bin", "python")] + more + wanted)


def install_locked(base, environment, torch):
    python = os.path.join(environment, "bin", "python")
    uv = shutil.which("uv")
    if not uv:
        pip = pip_for(base, environment)
        if not pip:
            raise Failed("uv.lock needs uv, and neither uv nor pip is on the machine")
        run(pip + ["--progress-bar", "off", "uv"])
        uv = os.path.join(environment, "bin", "uv")
    variables = {"UV_PROJECT_ENVIRONMENT": environment}
    kept = []
    if torch is not None:
        kept = kept_of_lock(read("uv.lock") or "", torch[0], python)
        variables["UV_PYTHON_DOWNLOADS"] = "never"
    # --inexact: what is there beside the lock, uv itself among it, stays.
    command = [uv, "sync", "--frozen", "--inexact", "--python", python]
    for name in kept:
        command += ["--no-install-package", name]
    run(command, **variables)


def kept_of_lock(lock, version, python):
    """Packages of the lock that the image has with its torch: where that is of the same release, it is kept."""
    locked = dict(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', lock, re.MULTILINE))
    release = re.compile(r"(\d+)\.(\d+)")
    wanted, have = release.match(locked.get("torch", "")), release.match(version)
    if not wanted or not have or wanted.groups() != have.groups():
        return []
    say("the image's torch %s is kept; the lock has %s" % (version, locked["torch"]))
    code = "import importlib.util as u; print(int(u.find_spec(%r) is not None))"
    family = [name for name in TORCH_FAMILY if name in locked and told(python, code % name.replace("pytorch-", ""))]
    return family + sorted(name for name in locked if name.startswith("nvidia-"))


def install_conda(kind, environment):
    tool = next((path for path in map(shutil.which, ("mamba", "micromamba", "conda", "/opt/conda/bin/conda")) if path), None)
    if tool is None:
        raise Failed("%s needs conda or mamba, and neither is on the machine: add a requirements.txt, or choose an image that has it" % kind)
    there = os.path.isdir(os.path.join(environment, "conda-meta"))
    yes = ["--yes"] if os.path.basename(tool) == "micromamba" else []
    command = ["env", "update" if there else "create"] if not yes else (["update"] if there else ["create"])
    run([tool] + command + yes + ["--prefix", environment, "--file", kind])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
