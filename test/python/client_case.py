"""What the tests of the client half share: a home of their own, and a control plane that is a small real HTTP server on loopback."""

import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).parent)]

from fake_control_plane import FakeControlPlane
from svc import _call, _control_plane, _registry


def asking():
    """A call that needs a control plane, and starts one if none runs."""
    return _call.call("GET", "/jobs")["jobs"]


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come to pass in {} s".format(seconds))
        time.sleep(0.01)


def forget_registry_after(case):
    """What `svc.configure` names in a test is sent by no later test of the same process."""
    case.assertIsNone(_registry._LATEST._settings, "an earlier test has left its registry")
    case.addCleanup(setattr, _registry, "_LATEST", _registry._Named())


class WithHome(unittest.TestCase):
    def setUp(self):
        forget_registry_after(self)
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.home = Path(held.name).resolve() / "home"
        self.set("SVC_HOME", str(self.home))
        self.set("HTTP_PROXY", "http://127.0.0.1:1")
        self.set("http_proxy", "http://127.0.0.1:1")
        self.addCleanup(_control_plane.PLANES.end, False)

    def set(self, name, value):
        old = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name, None) if old is None else os.environ.__setitem__(name, old))


class WithControlPlane(WithHome):
    def setUp(self):
        super().setUp()
        self.server = FakeControlPlane(self.home)
        self.addCleanup(self.server.stop)
        self.server.announce()
