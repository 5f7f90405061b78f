"""A run's metrics as charts that move: in a notebook as drawings that are updated in place, on a console as a table.

C1. A drawing is text alone: no script and no frame, so that it shows in every front end and stays in a saved notebook.
C2. The updates come from a thread that ends with the run. It starts no control plane, and its failures end it quietly.
C3. Names and labels come from a script: every one is escaped.
"""

from __future__ import annotations

import html
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from svc._call import call, quoted
from svc._control_plane import PLANES
from svc._errors import ConfigError, SvcError, plain, short_traceback
from svc._progress import notebook_display
from svc._records import Job, cost_beside
from svc._table import text_table

CHARTS_MAX = 12
_POINTS_MAX = 400
_UPDATE_SECONDS = 2.0
_WIDTH, _HEIGHT = 320, 110
_COLOURS = ("#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#14b8a6", "#eab308", "#64748b")

_Point = tuple[float, float]


@short_traceback
def chart(job_id: str, *metrics: str) -> Chart:
    """The run's metrics over its steps, as a chart for a notebook cell that moves until the run ends.

    :param metrics: names of metrics; without any, the first twelve that the script has logged.

    The cell is not blocked: the last expression of a cell may be ``svc.chart(job.id, "loss")``, and later cells run meanwhile. On a
    console the chart is a table of the last, lowest and highest values. NaN and infinities are gaps in a line, and are counted. Raises
    ``JobNotFound``. Like ``stream``, it starts a control plane if none runs.
    """
    for name in metrics:
        if not isinstance(name, str) or not name:
            raise ConfigError(
                "invalid_request", "metrics must be names of metrics, such as loss.", "Nothing was started.", [("metrics", "must be names")]
            )
    made = Chart(job_id, metrics)
    made.read()
    return made


class Chart:
    """A chart of a run's metrics, made by ``svc.chart``: its newest state is read when it is shown."""

    def __init__(self, job_id: str, metrics: Sequence[str] = ()) -> None:
        self.job_id = job_id
        self.metrics = tuple(metrics)
        self._job: Job | None = None
        self._series: dict[str, list[Mapping[str, Any]]] = {}
        self._more = 0
        self._over = threading.Event()

    def read(self) -> None:
        """Read the run and its metrics. Raises ``JobNotFound``."""
        path = f"/jobs/{quoted(self.job_id)}"
        job = Job.from_record(call("GET", path))
        if self.metrics:
            queries = [{"name": name, "max_points": _POINTS_MAX} for name in self.metrics[:CHARTS_MAX]]
        else:
            queries = [{"max_points": _POINTS_MAX}]
        found: dict[str, list[Mapping[str, Any]]] = {}
        for query in queries:
            found.update(call("GET", f"{path}/metrics?{urlencode(query)}")["series"])
        own = [name for name in found if self.metrics or not name.startswith("system/")]
        self._job = job
        self._more = len(own) - CHARTS_MAX
        self._series = {name: found[name] for name in own[:CHARTS_MAX]}

    def close(self) -> None:
        """End the updates; the last state stays."""
        self._over.set()

    def __repr__(self) -> str:
        """One line for each metric: its step, and its last, lowest and highest value."""
        rows = []
        for name, points in self._series.items():
            values = [value for line in _lines(points).values() for _, value in line if math.isfinite(value)]
            step = f"{points[-1]['step']:.15g}" if points else "-"
            cells = (points[-1]["value"], min(values), max(values)) if values else ("-", "-", "-")
            rows.append((plain(name), step, *(cell if isinstance(cell, str) else f"{cell:.5g}" for cell in cells)))
        return f"{self._title()}\n{text_table(('metric', 'step', 'last', 'lowest', 'highest'), rows)}" if rows else self._title()

    def _title(self) -> str:
        job = self._job
        if job is None:
            return f"svc: {self.job_id}"
        about = [plain(job.label or job.id), job.status, cost_beside(job)]
        none = "" if self._series else "no such metric yet" if self.metrics else "no metric yet"
        more = f"and {self._more} more metrics" if self._more > 0 else ""
        return " · ".join(part for part in ("svc", *about, none, more) if part)

    def _repr_html_(self) -> str:
        """The drawings; every name is escaped."""
        drawn = "".join(_drawing(name, points) for name, points in self._series.items())
        head = f"<div><code>{html.escape(self._title())}</code></div>"
        return f"<div>{head}<div style='display:flex;flex-wrap:wrap;gap:12px'>{drawn}</div></div>"

    def _ipython_display_(self) -> None:
        """Shows the chart, and updates it in place until the run has ended."""
        display = notebook_display()
        if display is None:
            print(repr(self))
            return
        handle = display(self._bundle(), raw=True, display_id=True)
        if self._job is not None and not self._job.done:
            threading.Thread(target=self._update, args=(handle,), name=f"svc chart {self.job_id}", daemon=True).start()

    def _bundle(self) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _update(self, handle: Any) -> None:
        """C2."""
        while not self._over.wait(_UPDATE_SECONDS):
            try:
                if not PLANES.is_there():
                    return
                self.read()
            except SvcError:
                return
            try:
                handle.update(self._bundle(), raw=True)
            except Exception:  # any failure of a front end
                return
            if self._job is None or self._job.done:
                return


def _lines(points: Sequence[Mapping[str, Any]]) -> dict[int, list[_Point]]:
    """The points of each rank, in order of their steps."""
    lines: dict[int, list[_Point]] = {}
    for point in points:
        lines.setdefault(int(point["rank"]), []).append((float(point["step"]), float(point["value"])))
    return {rank: sorted(line, key=lambda one: one[0]) for rank, line in sorted(lines.items())}


def _drawing(name: str, points: Sequence[Mapping[str, Any]]) -> str:
    """C1, C3. One metric: a line for each rank, the range of its values, and its last value."""
    lines = _lines(points)
    finite = [one for line in lines.values() for one in line if math.isfinite(one[1])]
    lost = len(points) - len(finite)
    last = str(points[-1]["value"]) if points and isinstance(points[-1]["value"], str) else f"{points[-1]['value']:.5g}" if points else ""
    title = f"<b>{html.escape(plain(name))}</b> {html.escape(last)}" + (f" <small>{lost} not finite</small>" if lost else "")
    if not finite:
        return f"<div>{title}</div>"
    (x0, x1), (y0, y1) = ((min(axis), max(axis)) for axis in zip(*finite, strict=True))
    # Half of each, because the difference of two values may be too large for a float.
    across, down = (x1 - x0) or 1.0, (y1 / 2 - y0 / 2) or 1.0
    paths = []
    for n, line in enumerate(lines.values()):
        steps, pen = [], "M"
        for x, y in line:
            if not math.isfinite(y):
                pen = "M"
                continue
            height = (y / 2 - y0 / 2) / down
            steps.append(f"{pen}{(x - x0) / across * _WIDTH:.1f} {(1 - height) * _HEIGHT:.1f}")
            pen = "L"
        # A point alone is a line of no length, which a round end makes visible.
        path = "".join(steps) + ("h0" if len(steps) == 1 else "")
        paths.append(f"<path d='{path}' stroke='{_COLOURS[n % len(_COLOURS)]}'/>")
    return (
        f"<div>{title}<br><svg role='img' aria-label='{html.escape(plain(name), quote=True)}' width='{_WIDTH}' height='{_HEIGHT + 8}'"
        f" viewBox='-4 -4 {_WIDTH + 8} {_HEIGHT + 8}' fill='none' stroke-width='1.5' stroke-linecap='round' stroke-linejoin='round'>"
        f"<path d='M0 0V{_HEIGHT}H{_WIDTH}' stroke='currentColor' stroke-opacity='.3'/>{''.join(paths)}</svg>"
        f"<br><small>{y0:.4g} to {y1:.4g}, steps {x0:.15g} to {x1:.15g}</small></div>"
    )
