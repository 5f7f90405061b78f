"""Installs a project's dependencies, on the machine itself, into a virtual environment that keeps the image's torch.

    SVC_INSTALL_RECIPE=... python -u .../svc/_install.py ENVIRONMENT          in the project's directory

The recipe is JSON: ``{"steps": [...], "files": [...]}``, which the control plane derived from the project's files
(src/schemas/install.ts). It may contain the password of a package index, and other users of the machine can read a
command line, so it comes by a variable, which no tool inherits. ENVIRONMENT is created if missing, and afterwards
ENVIRONMENT/bin/python runs the project.

N1. The image's torch was built for its driver: the environment sees the packages of the Python that has it. An
    installation that replaces it fails if CUDA would be lost.
N2. An installation for the same files, Python and torch is not repeated: a mark in the environment records it.
N3. The tools' output is the log, unchanged; if one fails, the last line gives the reason.
N4. Python 3.8 or newer, standard library only.
N5. Dependencies that cannot be installed end the run. The project itself may fail to build: then its folders go on
    Python's path, with a warning, because most projects also run from their folders.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Sequence, Tuple

    # torch's version, the version of its CUDA or ROCm, and whether it sees a GPU.
    Torch = Tuple[str, Optional[str], bool]
    # Name, version and dependencies.
    Distribution = Tuple[str, str, List[str]]

MARK = ".svc-installed"
PYTHONS = ("python3", "python", "/opt/conda/bin/python", "/opt/venv/bin/python", "/venv/bin/python", "/workspace/venv/bin/python")
# Packages that belong to a torch and must be of the same build.
TORCH_FAMILY = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton")
TELL_TORCH = (
    "import json, torch; print(json.dumps([torch.__version__, torch.version.cuda or torch.version.hip, torch.cuda.is_available()]))"
)
TELL_PATHS = (
    "import json, sys, sysconfig; "
    "print(json.dumps([sys.version, sys.prefix != sys.base_prefix, sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]))"
)


class Failed(Exception):
    def __init__(self, words: str | None = None, code: int = 1) -> None:
        Exception.__init__(self, words)
        self.words = words
        self.code = code


def say(words: str) -> None:
    os.write(1, ("svc: %s\n" % words).encode("utf-8", "replace"))


WARNINGS: list[str] = []


def warn(words: str) -> None:
    """Printed at once, and again at the end, where the control plane reads it."""
    WARNINGS.append(words)
    say("warning: " + words)


def main(argv: list[str]) -> int:
    recipe, environment = json.loads(os.environ.pop("SVC_INSTALL_RECIPE")), os.path.abspath(argv[1])
    try:
        install(recipe, environment)
        for words in WARNINGS:
            say("warning: " + words)
        return 0
    except Failed as failed:
        if failed.words:
            say(failed.words)
        return failed.code


def install(recipe: dict[str, Any], environment: str) -> None:
    steps = recipe["steps"]
    python = os.path.join(environment, "bin", "python")
    base = base_python()
    before = torch_of(base)
    say("installing from %s for %s, torch %s" % (", ".join(recipe["files"]), base, words_of(before)))
    fingerprint = fingerprint_of(recipe, base, before)
    mark = os.path.join(environment, MARK)
    if fingerprint is not None and read(mark) == fingerprint and told(python, "print(1)") == 1:
        say("nothing has changed since the last installation")
        return
    if os.path.lexists(mark):
        os.unlink(mark)
    own = any(step["do"] == "conda" for step in steps)
    if not own:
        make_environment(base, environment, before)
    tools = Tools(base, environment, before)
    for step in steps:
        STEPS[step["do"]](tools, step)
    after = torch_of(python)
    compare(before, after, own)
    if fingerprint is not None:
        with open(mark, "w", encoding="ascii") as file:
            file.write(fingerprint)
    say("installed; the run's Python is %s, torch %s" % (python, words_of(after)))


# ---- Which Python, which torch --------------------------------------------------------------------------------------


def base_python() -> str:
    """The Python that has the image's torch; else the current interpreter."""
    for name in (sys.executable, *PYTHONS):
        path = shutil.which(name)
        if path and told(
            path, "import importlib.util as u, sys; print(int(sys.version_info >= (3, 8) and u.find_spec('torch') is not None))"
        ):
            return path
    return sys.executable


def told(python: str, code: str, seconds: int = 180, folder: str | None = None) -> Any:
    """The code's printed output, parsed as JSON; None if it fails."""
    try:
        run = subprocess.run(
            [python, "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False
        )
        return json.loads(run.stdout.decode().strip().splitlines()[-1]) if run.returncode == 0 else None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def torch_of(python: str) -> Torch | None:
    torch: Torch | None = told(python, TELL_TORCH)
    return torch


def words_of(torch: Torch | None) -> str:
    if torch is None:
        return "not installed"
    return "%s (%s%s)" % (torch[0], "CUDA %s" % torch[1] if torch[1] else "CPU only", "" if torch[2] or not torch[1] else ", no GPU seen")


def compare(before: Torch | None, after: Torch | None, own: bool) -> None:
    """N1. A conda environment is independent: there a missing torch may be intended."""
    if before is None or not before[1] or (own and after is None):
        return
    lost = after is None or not after[1] or (before[2] and not after[2])
    if lost:
        words = "CUDA is lost: the image has torch %s, after installing it is %s; "
        raise Failed(words % (words_of(before), words_of(after)) + "leave torch out of the requirements, or pin one that has CUDA")
    if after is not None and before[0] != after[0]:
        say("the image's torch %s was replaced by %s" % (words_of(before), words_of(after)))


def fingerprint_of(recipe: dict[str, Any], base: str, torch: Torch | None) -> str | None:
    """None if only the installation shows what would change: the project's own code is part of it."""
    if any(step["do"] == "project" for step in recipe["steps"]):
        return None
    parts = [json.dumps(recipe, sort_keys=True), base, sys.version, json.dumps(torch)]
    names = set()
    for step in recipe["steps"]:
        folder = step["folder"] or "."
        if step["do"] == "uv":
            names |= {os.path.join(folder, "uv.lock"), os.path.join(folder, "pyproject.toml")}
        elif step.get("file"):
            names.add(os.path.join(folder, step["file"]))
        if step["do"] == "requirements":  # it may refer to others
            inside = os.path.dirname(os.path.join(folder, step["file"])) or "."
            names |= {os.path.join(inside, n) for n in os.listdir(inside) if n.endswith((".txt", ".in"))}
    for name in sorted(names):
        parts += [name, hashlib.sha256((read(name) or "").encode("utf-8", "surrogateescape")).hexdigest()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


# ---- The environment ------------------------------------------------------------------------------------------------


def make_environment(base: str, environment: str, torch: Torch | None) -> None:
    python = os.path.join(environment, "bin", "python")
    if told(python, "print(1)") != 1:
        shutil.rmtree(environment, ignore_errors=True)
        uv = shutil.which("uv")
        made = quiet([base, "-m", "venv", "--system-site-packages", "--without-pip", environment])
        if not made and uv:
            made = quiet([uv, "venv", "--quiet", "--system-site-packages", "--python", base, environment])
        if not made:
            say("cannot create a virtual environment here: packages are installed next to those of %s" % base)
            stand_in(base, environment)
    paths = told(base, TELL_PATHS)
    if paths and paths[1] and not stands_in(environment):
        # A virtual environment made by another one sees only the system's packages, not those of either.
        folder = told(python, "import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))")
        with open(os.path.join(folder, "_svc_image.pth"), "w", encoding="utf-8") as file:
            file.write("".join(path + "\n" for path in dict.fromkeys(paths[2:])))
    if torch is not None and told(python, "import importlib.util as u; print(int(u.find_spec('torch') is not None))") != 1:
        raise Failed("the environment does not see the image's torch %s" % words_of(torch))


def stand_in(base: str, environment: str, paths: Sequence[str] = ()) -> None:
    folder = os.path.join(environment, "bin")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "python")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n")
        if paths:
            file.write('export PYTHONPATH="%s${PYTHONPATH:+:$PYTHONPATH}"\n' % ":".join(paths))
        file.write('exec "%s" "$@"\n' % base)
    os.chmod(path, 0o755)  # noqa: S103  a program that every user of the machine may run


def stands_in(environment: str) -> bool:
    return not os.path.exists(os.path.join(environment, "pyvenv.cfg"))


def quiet(command: list[str]) -> bool:
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError:
        return False
    return run.returncode == 0


class Ran:
    """How a tool ended, and the end of its output."""

    def __init__(self, code: int, tail: str) -> None:
        self.code = code
        self.tail = tail

    def require(self) -> None:
        if self.code != 0:
            raise Failed(unreachable(self.tail), self.code if self.code > 0 else 128 - self.code)


def run(command: list[str], folder: str = ".", **variables: str) -> Ran:
    say(" ".join(command))
    env = dict(os.environ, **variables)
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    tail = b""
    while True:
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            break
        write_all(data)
        tail = (tail + data)[-65536:]
    return Ran(process.wait(), tail.decode("utf-8", "replace"))


def write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


NO_NETWORK = re.compile(
    "Failed to establish a new connection|Temporary failure in name resolution|Name or service not known|nodename nor servname"
    "|Network is unreachable|No route to host|ConnectTimeoutError|Could not connect|dns error|error trying to connect|Connection refused"
)


def unreachable(tail: str) -> str | None:
    """pip reports "no matching distribution" if it reached no index at all."""
    found = NO_NETWORK.search(tail)
    if not found:
        return None
    return "the package index cannot be reached from this machine (%s): nothing was installed from it" % found.group(0)


def reason(tail: str) -> str:
    """Why a build failed: the last lines of the build's own output."""
    lines = [line.strip() for line in tail.splitlines()]
    for pattern in (r"(error|\w*Error|\w*Exception|LookupError): \S", r"(ERROR|error):? \S", r"[×x] \S"):
        found = [line for line in lines if re.match(pattern, line) and "subprocess-exited-with-error" not in line]
        if found:
            return found[-1][:300]
    return (lines or ["it printed nothing"])[-1][:300]


# ---- The tools ------------------------------------------------------------------------------------------------------


def pip_for(base: str, environment: str) -> list[str] | None:
    """The command that installs into the environment with pip; None without pip."""
    python = os.path.join(environment, "bin", "python")
    options = ["--disable-pip-version-check", "--no-input"]
    if stands_in(environment):
        own = [] if os.access(told(base, TELL_PATHS)[2], os.W_OK) else ["--user"]
        return [python, "-m", "pip", "install", *options, *own, *managed(base)]
    if quiet([python, "-m", "pip", "--version"]):
        return [python, "-m", "pip", "install", *options]
    for other in (base, sys.executable):
        if quiet([other, "-m", "pip", "--python", python, "--version"]):
            return [other, "-m", "pip", "--python", python, "install", *options]
    if quiet([python, "-m", "ensurepip"]):
        return [python, "-m", "pip", "install", *options]
    return None


def managed(base: str) -> list[str]:
    """A system Python may forbid packages from pip next to its own."""
    code = "import os, sysconfig; print(int(os.path.exists(os.path.join(sysconfig.get_path('stdlib'), 'EXTERNALLY-MANAGED'))))"
    return ["--break-system-packages"] if told(base, code) == 1 else []


class Tools:
    """Installs into the environment with pip or uv."""

    def __init__(self, base: str, environment: str, torch: Torch | None) -> None:
        self.base, self.environment, self.torch = base, environment, torch
        self.python = os.path.join(environment, "bin", "python")
        self.found: list[str] | None = None

    def command(self, *wanted: str) -> list[str]:
        if self.found is None:
            pip = pip_for(self.base, self.environment)
            uv = shutil.which("uv")
            if pip:
                self.found = [*pip, "--progress-bar", "off"]
            elif uv:
                self.found = [uv, "pip", "install", "--python", self.python, *self.overrides()]
            else:
                raise Failed("the machine has neither pip nor uv: choose an image that has one, or set install to a command of your own")
        return [*self.found, *wanted]

    def overrides(self) -> list[str]:
        """uv does not see the image's packages: packages of its torch family are excluded."""
        if self.torch is None:
            return []
        path = os.path.join(self.environment, ".svc-overrides.txt")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join("%s; sys_platform == 'never'\n" % name for name in TORCH_FAMILY))
        return ["--override", path]

    def uv(self) -> str:
        uv = shutil.which("uv") or os.path.join(self.environment, "bin", "uv")
        if not os.path.exists(uv):
            pip = pip_for(self.base, self.environment)
            if not pip:
                raise Failed("a lock file of uv needs uv, and neither uv nor pip is on the machine")
            run([*pip, "--progress-bar", "off", "uv"]).require()
            uv = os.path.join(self.environment, "bin", "uv")
        return uv

    def packages(self, packages: Sequence[str], folder: str = ".", constraints: Sequence[str] = (), indexes: Sequence[str] = ()) -> Ran:
        """Passed as a file: a list may be longer than a command line, and an address in it may contain a password."""
        kept = [line for line in constraints if self.torch is None or not of_torch(line)]
        wanted = self.file("requirements", ["--extra-index-url " + url for url in indexes] + list(packages))
        more = ["-c", self.file("constraints", kept)] if kept else []
        return run(self.command(*more, "-r", wanted), folder)

    def file(self, name: str, lines: Sequence[str]) -> str:
        path = os.path.join(self.environment, ".svc-%s.txt" % name)
        with open(path, "w", encoding="utf-8", opener=lambda at, flags: os.open(at, flags, 0o600)) as file:
            file.write("".join(line + "\n" for line in lines))
        return path


def of_torch(requirement: str) -> bool:
    name = re.sub(r"[^A-Za-z0-9._-].*", "", requirement, flags=re.DOTALL).lower().replace("_", "-")
    return name in TORCH_FAMILY or name.startswith("nvidia-")


def install_requirements(tools: Tools, step: dict[str, Any]) -> None:
    if not re.search(r"^\s*[^\s#]", read(os.path.join(step["folder"] or ".", step["file"])) or "", re.MULTILINE):
        say("%s names nothing" % step["file"])
        return
    run(tools.command("-r", step["file"]), step["folder"] or ".").require()


def install_packages(tools: Tools, step: dict[str, Any]) -> None:
    say("%s declares: %s" % (step["file"], ", ".join(plain_name(p) for p in step["packages"])[:2000]))
    tools.packages(step["packages"], step["folder"] or ".", step["constraints"], step["indexes"]).require()


def plain_name(requirement: str) -> str:
    """The name without an address, which may contain a password."""
    return requirement.split(" @ ", maxsplit=1)[0].split("://", maxsplit=1)[0]


def install_pylock(tools: Tools, step: dict[str, Any]) -> None:
    uv = tools.uv()
    run([uv, "pip", "install", "--python", tools.python, *tools.overrides(), "-r", step["file"]], step["folder"] or ".").require()


def install_project(tools: Tools, step: dict[str, Any]) -> None:
    """Installed without its dependencies, which were installed before, so that a build's variables do not reach
    another build."""
    folder = step["folder"] or "."
    before = distributions(tools.python)
    built = run(tools.command("--no-deps", "."), folder, **versions(step["version"]))
    if built.code == 0:
        if step["dynamic"]:
            requires = required_by_new(before, distributions(tools.python))
            if requires:
                tools.packages(requires, folder).require()
        return
    if step["dynamic"]:
        declared = declared_by_setup(tools, folder, step["version"])
        if declared is None:
            raise Failed(
                unreachable(built.tail) or "the project cannot be built, and only a build shows its dependencies: %s" % reason(built.tail),
                built.code,
            )
        if declared:
            tools.packages(declared, folder).require()
    on_path(tools, step["paths"])
    warn(
        "The project could not be built (%s). Its dependencies are installed, and the run continues: %s put on Python's path instead."
        % (reason(built.tail).rstrip("."), shown(step["paths"]))
    )


def versions(version: str) -> dict[str, str]:
    """The sent project has no .git: builds that ask git for their version receive one by variable."""
    return {
        "SETUPTOOLS_SCM_PRETEND_VERSION": version,
        "VCS_VERSIONING_PRETEND_VERSION": version,
        "PBR_VERSION": version.split("+", maxsplit=1)[0],
        "PDM_BUILD_SCM_VERSION": version,
        "POETRY_DYNAMIC_VERSIONING_BYPASS": version,
        "UV_DYNAMIC_VERSIONING_BYPASS": version,
    }


def shown(paths: Sequence[str]) -> str:
    words = [path or "the project's folder" for path in paths]
    return "%s %s" % (" and ".join(words), "is" if len(words) == 1 else "are")


def distributions(python: str) -> list[Distribution]:
    """The names, versions and dependencies of installed packages."""
    code = (
        "import json; from importlib import metadata as m; "
        "print(json.dumps([[d.metadata['Name'], d.version, d.requires or []] for d in m.distributions() if d.metadata['Name']]))"
    )
    # Run outside of the project: files in it may look like an installed package.
    return told(python, code, folder=os.path.dirname(os.path.dirname(python))) or []


def required_by_new(before: list[Distribution], after: list[Distribution]) -> list[str]:
    """The dependencies of the packages that were not there before."""
    known = {(name, version) for name, version, _ in before}
    new = [requires for name, version, requires in after if (name, version) not in known]
    return [line for requires in new for line in requires if "extra ==" not in line.replace("extra==", "extra ==")]


def declared_by_setup(tools: Tools, folder: str, version: str) -> list[str] | None:
    """The dependencies of a setup.py, without building it: as setuptools reports them, else as written in the file.
    None if neither works."""
    out = os.path.join(tools.environment, ".svc-egg")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    for python in (tools.python, tools.base):
        env = dict(os.environ, **versions(version))
        try:
            subprocess.run(
                [python, "setup.py", "-q", "egg_info", "--egg-base", out],
                cwd=folder,
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=300,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        for name in os.listdir(out):
            if os.path.exists(os.path.join(out, name, "PKG-INFO")):
                text = read(os.path.join(out, name, "requires.txt")) or ""
                return [line for line in text.split("\n[")[0].splitlines() if line.strip() and not line.startswith("[")]
    return written_in_setup(os.path.join(folder, "setup.py"))


def written_in_setup(path: str) -> list[str] | None:
    import ast

    try:
        tree = ast.parse(read(path) or "")
    except (SyntaxError, ValueError):
        return None
    lists = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            lists[node.targets[0].id] = node.value
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "attr", getattr(n.func, "id", "")) == "setup"]
    for call in calls:
        for keyword in call.keywords:
            if keyword.arg == "install_requires":
                value = lists.get(getattr(keyword.value, "id", ""), keyword.value)
                try:
                    return [str(line) for line in ast.literal_eval(value)]
                except (ValueError, TypeError):
                    return None
        return []
    return None


def on_path(tools: Tools, paths: Sequence[str]) -> None:
    absolute = [os.path.abspath(path or ".") for path in paths]
    if stands_in(tools.environment) and not os.path.isdir(os.path.join(tools.environment, "conda-meta")):
        stand_in(tools.base, tools.environment, absolute)
        return
    folder = told(tools.python, "import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))")
    with open(os.path.join(folder, "_svc_project.pth"), "a", encoding="utf-8") as file:
        file.write("".join(path + "\n" for path in absolute))


def install_locked(tools: Tools, step: dict[str, Any]) -> None:
    folder = step["folder"] or "."
    uv = tools.uv()
    variables = {"UV_PROJECT_ENVIRONMENT": tools.environment}
    if step["name"]:
        name = re.sub(r"[-_.]+", "_", step["name"]).upper()
        variables["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_" + name] = step["version"]
    kept = []
    if tools.torch is not None:
        kept = kept_of_lock(read(os.path.join(folder, "uv.lock")) or "", tools.torch[0], tools.python)
        variables["UV_PYTHON_DOWNLOADS"] = "never"
    # --inexact: packages that the lock does not name, such as uv itself, stay.
    command = [uv, "sync", "--frozen", "--inexact"] + (["--all-packages"] if step["all"] else []) + ["--python", tools.python]
    for name in kept:
        command += ["--no-install-package", name]
    synced = run(command, folder, **variables)
    if synced.code == 0:
        return
    if not re.search(r"[Ff]ailed to build|build backend|Failed to prepare", synced.tail):
        synced.require()
    run([*command, "--no-install-project"], folder, **variables).require()
    on_path(tools, step["paths"])
    warn(
        "The project could not be built (%s). Its dependencies are installed, and the run continues: %s put on Python's path instead."
        % (reason(synced.tail).rstrip("."), shown(step["paths"]))
    )


def kept_of_lock(lock: str, version: str, python: str) -> list[str]:
    """Packages of the lock that the image has with its torch: kept if they are of the same release."""
    locked = dict(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', lock, re.MULTILINE))
    release = re.compile(r"(\d+)\.(\d+)")
    wanted, have = release.match(locked.get("torch", "")), release.match(version)
    if not wanted or not have or wanted.groups() != have.groups():
        return []
    say("the image's torch %s is kept; the lock has %s" % (version, locked["torch"]))
    code = "import importlib.util as u; print(int(u.find_spec(%r) is not None))"
    family = [name for name in TORCH_FAMILY if name in locked and told(python, code % name.replace("pytorch-", ""))]
    return family + sorted(name for name in locked if name.startswith("nvidia-"))


def install_conda(tools: Tools, step: dict[str, Any]) -> None:
    kind = step["file"]
    tool = next((path for path in map(shutil.which, ("mamba", "micromamba", "conda", "/opt/conda/bin/conda")) if path), None)
    if tool is None:
        raise Failed(
            "%s needs conda or mamba, and neither is on the machine: add a requirements.txt, or choose an image that has it" % kind
        )
    there = os.path.isdir(os.path.join(tools.environment, "conda-meta"))
    yes = ["--yes"] if os.path.basename(tool) == "micromamba" else []
    command = ["env", "update" if there else "create"] if not yes else (["update"] if there else ["create"])
    run([tool, *command, *yes, "--prefix", tools.environment, "--file", kind]).require()


STEPS = {
    "requirements": install_requirements,
    "packages": install_packages,
    "project": install_project,
    "uv": install_locked,
    "pylock": install_pylock,
    "conda": install_conda,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv))
