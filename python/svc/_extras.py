"""The optional parts of the package: the packages that each needs, and the error if they are missing.

An extra is *present* when its Python packages can be found; extras without packages are part of the program and
always present. The control plane needs the same answer for the Python that it was installed with: the launcher
passes it in ``SVC_EXTRAS``, see ``_launcher.py``. Python 3.8 or newer.
"""

from __future__ import annotations

import sys
from importlib import util

from svc._providers import REMOTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc._errors import ExtraMissing

# As in pyproject.toml; a test compares the two. Maps an extra to its modules.
EXTRAS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(REMOTE, ()),
    "dashboard": (),
    "tracker": ("wandb",),
    "hub": ("huggingface_hub",),
}
_PURPOSE = {"tracker": "Forwarding metrics to the tracker", "hub": "Pulling a model from the hub"}


def has_extra(name: str) -> bool:
    """Whether all packages of the extra are installed; nothing is imported. Raises ``KeyError`` for an unknown
    name."""
    return all(_found(module) for module in EXTRAS[name])


def require_extra(name: str) -> None:
    """Return if the extra ``name`` is present; otherwise raise ``ExtraMissing``, which says what to install."""
    if not has_extra(name):
        raise extra_missing(name)


def extra_missing(name: str) -> ExtraMissing:
    """The error that names the extra and the command that installs it."""
    from svc._errors import ExtraMissing

    what = _PURPOSE.get(name, "This")
    return ExtraMissing(
        "extra_missing",
        f"{what} needs the extra `{name}`, which is not installed. Nothing was started and nothing costs money.",
        f"Run `{sys.executable or 'python'} -m pip install 'svc[{name}]'` and try again.",
    )


def present() -> list[str]:
    """The names of the present extras."""
    return [name for name in EXTRAS if has_extra(name)]


def _found(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):  # half removed, or replaced by something that is not a module
        return False
