"""Charts of a run's metrics, against a small real HTTP server on loopback and a front end that records what it shows."""

import os
import re
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock as mock
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).parent)]

import svc
from fake_control_plane import FakeControlPlane
from svc import _chart, _control_plane


def points(*values, rank=0):
    return [{"step": step, "time": 0, "value": value, "rank": rank} for step, value in enumerate(values)]


class FrontEnd:
    """IPython's display, as a kernel has it."""

    def __init__(self):
        self.shown = []
        self.changed = threading.Condition()

    def display(self, data, raw, display_id):
        assert raw and display_id
        self.update(data, raw)
        return self

    def update(self, data, raw):
        with self.changed:
            self.shown.append(data)
            self.changed.notify_all()

    def modules(self):
        shell = types.SimpleNamespace(kernel=object())
        shown = types.ModuleType("IPython.display")
        shown.display = self.display
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: shell
        return {"ipykernel": types.ModuleType("ipykernel"), "IPython": ipython, "IPython.display": shown}

    def wait(self, condition):
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self.shown), 60), self.shown[-1:]


class Charts(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        home = Path(held.name).resolve() / "home"
        patched = mock.patch.dict(os.environ, {"SVC_HOME": str(home)})
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(_control_plane.PLANES.end, False)
        self.server = FakeControlPlane(home)
        self.addCleanup(self.server.stop)
        self.server.announce()
        self.server.put("j1", label="<b>run")
        self.log({"loss": points(3, 2, "NaN", 1.5), "system/cpu": points(1)})

    def log(self, series):
        self.server.answers["GET", "/jobs/j1/metrics"] = (200, {"series": series})

    def drawings(self, page):
        """The parsed drawings: every one is well-formed by itself."""
        return [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", page, re.S)]

    def test_a_console_shows_the_last_lowest_and_highest_values_without_the_machines_own_metrics(self):
        lines = repr(svc.job("j1").chart()).splitlines()
        self.assertEqual(lines[0], "svc · <b>run · running")
        self.assertEqual([line.split() for line in lines[1:]], [["metric", "step", "last", "lowest", "highest"], ["loss", "3", "1.5", "1.5", "3"]])

    def test_steps_of_millions_are_shown_in_full(self):
        self.log({"loss": [{"step": step, "time": 0, "value": 1, "rank": 0} for step in (1_000_001, 12_345_678)]})
        shown = svc.chart("j1")
        self.assertEqual(repr(shown).splitlines()[-1].split()[1], "12345678")
        self.assertIn("steps 1000001 to 12345678", shown._repr_html_())

    def test_a_drawing_has_a_line_for_each_rank_with_gaps_where_values_are_not_finite_and_escapes_every_name(self):
        self.log({"<script>x</script>": [*points(3, 2, "NaN", 1.5), *points(1, 1, rank=1)]})
        page = svc.chart("j1")._repr_html_()
        self.assertNotIn("<script", page)
        self.assertIn("&lt;b&gt;run", page)
        self.assertIn("1 not finite", page)
        (drawing,) = self.drawings(page)
        first, second = [path.get("d") for path in drawing][1:]
        self.assertEqual(first.count("M"), 2)
        self.assertEqual(second.count("M"), 1)

    def test_extreme_values_are_drawn_inside(self):
        for values in [(1e308, -1e308), (5,), (2, 2), (1e-320, 0), ("Infinity", "NaN")]:
            with self.subTest(values):
                self.log({"loss": points(*values)})
                for drawing in self.drawings(svc.chart("j1")._repr_html_()):
                    for path in list(drawing)[1:]:
                        for number in re.findall(r"[-\d.]+|nan|inf", path.get("d")):
                            self.assertTrue(-4 <= float(number) <= 330, path.get("d"))

    def test_chosen_metrics_are_asked_for_by_name_and_many_are_counted(self):
        svc.chart("j1", "a b")
        self.assertTrue(any("name=a+b" in path for _, path, _, _ in self.server.requests))
        self.log({"m%02d" % n: points(n) for n in range(20)})
        shown = svc.chart("j1")
        self.assertIn("and 8 more metrics", repr(shown))
        self.assertEqual(len(self.drawings(shown._repr_html_())), _chart.CHARTS_MAX)

    def test_a_wrong_name_and_an_unknown_run_are_refused(self):
        self.assertRaises(svc.ConfigError, svc.chart, "j1", 3)
        self.assertRaises(svc.JobNotFound, svc.chart, "nothing")

    def test_a_notebook_is_updated_in_place_until_the_run_ends_and_the_cell_is_not_blocked(self):
        front = FrontEnd()
        with mock.patch.dict(sys.modules, front.modules()), mock.patch.object(_chart, "_UPDATE_SECONDS", 0.01):
            svc.chart("j1")._ipython_display_()
            self.assertIn("running", front.shown[0]["text/plain"])
            self.log({"loss": points(3, 2, 1, 0.125)})
            front.wait(lambda shown: "0.125" in shown[-1]["text/html"])
            self.server.put("j1", "succeeded")
            front.wait(lambda shown: "succeeded" in shown[-1]["text/plain"])
            self.assertFalse(self.updates())
            seen = len(front.shown)
            svc.chart("j1")._ipython_display_()
            self.assertEqual((len(front.shown), self.updates()), (seen + 1, False))

    def test_updates_end_when_the_chart_is_closed_and_when_the_control_plane_has_gone(self):
        front = FrontEnd()
        with mock.patch.dict(sys.modules, front.modules()), mock.patch.object(_chart, "_UPDATE_SECONDS", 0.01):
            shown = svc.chart("j1")
            shown._ipython_display_()
            shown.close()
            self.assertFalse(self.updates())
            svc.chart("j1")._ipython_display_()
            with mock.patch.object(_chart.PLANES, "is_there", return_value=False):
                self.assertFalse(self.updates())

    def updates(self):
        """Whether a thread still updates a chart after it had time to end."""
        mine = [thread for thread in threading.enumerate() if thread.name.startswith("svc chart")]
        for thread in mine:
            thread.join(60)
        return any(thread.is_alive() for thread in mine)


if __name__ == "__main__":
    unittest.main()
