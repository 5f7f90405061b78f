"""The installation of a run's packages, with a program of this test in place of pip."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
INSTALL = """
import sys
sys.path.insert(0, sys.argv[1])
from svc import _install
tools = _install.Tools(sys.executable, sys.argv[2], None)
tools.found = [sys.executable, "-c", "import sys; print('pip got', sys.argv[1:])"]
tools.packages(["numpy==2.0", "mine"], constraints=["numpy<3"], indexes=["https://user:hunter22@index.example/simple"]).require()
"""
RECIPE = """
import json, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from svc import _install
_install.install = lambda recipe, environment: print(recipe["steps"], environment, flush=True) or _install.run(["env"])
sys.exit(_install.main(["_install.py", "/tmp/e"]))
"""


class Packages(unittest.TestCase):
    def test_the_address_of_an_index_is_in_a_private_file_and_in_no_log_and_on_no_command_line(self):
        with tempfile.TemporaryDirectory() as environment:
            ran = subprocess.run(
                [sys.executable, "-B", "-c", INSTALL, PACKAGE, environment], capture_output=True, text=True, check=True
            )
            self.assertIn("pip got ['-c', ", ran.stdout)
            self.assertNotIn("hunter22", ran.stdout + ran.stderr)
            path = os.path.join(environment, ".svc-requirements.txt")
            with open(path, encoding="utf-8") as file:
                self.assertEqual(
                    file.read().splitlines(),
                    ["--extra-index-url https://user:hunter22@index.example/simple", "numpy==2.0", "mine"],
                )
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)

    def test_the_recipe_comes_by_a_variable_that_no_tool_inherits(self):
        env = {**os.environ, "SVC_INSTALL_RECIPE": '{"steps": ["https://user:hunter22@index.example"], "files": []}'}
        ran = subprocess.run(
            [sys.executable, "-B", "-c", RECIPE, PACKAGE], capture_output=True, text=True, check=True, env=env
        )
        self.assertTrue(ran.stdout.startswith("['https://user:hunter22@index.example'] /tmp/e\n"), ran.stdout)
        self.assertEqual(ran.stdout.count("hunter22"), 1)
        self.assertNotIn("SVC_INSTALL_RECIPE", ran.stdout)


if __name__ == "__main__":
    unittest.main()
