"""Reading what runs have cost, and the limits of the home. Every function blocks; ``svc.aio`` has the same ones for asyncio.

They start no control plane: without a running one, the command ``svc`` reads the store, or makes the change (``_command.py``).
"""

from __future__ import annotations

import json
import re
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import urlencode

from svc._call import call, is_finite, quoted
from svc._client import job
from svc._command import asked
from svc._control_plane import PLANES
from svc._costs import CostReport, Limits, Receipt
from svc._errors import ConfigError, short_traceback

__all__ = ["costs", "limits", "receipt", "set_limits"]

if TYPE_CHECKING:
    from typing_extensions import Unpack

CostDimension = Literal["day", "month", "provider", "project", "label", "gpu"]
Day = str | date

_DAY = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")


@short_traceback
def costs(*, by: CostDimension = "day", since: Day | None = None, until: Day | None = None) -> CostReport:
    """Return the costs of this home's machines in groups, with the waste in a column of its own. All amounts are US dollars.

    :param by: ``day``, ``month``, ``provider``, ``project``, ``label`` or ``gpu``.
    :param since: the first day, as a ``datetime.date`` or ``"2026-11-01"``, in the time zone of the control plane.
    :param until: the last day; it is included.

    The report shows itself as a table in a notebook and on a console; ``pandas.DataFrame(list(svc.costs().groups))`` is a data
    frame. Days and months are in order, other groups by cost. Raises ``ConfigError`` for a day or a group that cannot be.
    Starts no control plane.
    """
    given = {"by": by, "from": _day("since", since), "to": _day("until", until)}
    query = {name: value for name, value in given.items() if value is not None}
    if query.get("from", "") > query.get("to", "~"):
        raise _refused("until", "must not be before `since`")
    if PLANES.is_there():
        return CostReport.from_record(call("GET", f"/v1/costs?{urlencode(query)}"))
    return CostReport.from_record(asked("costs", *(f"--{name}={value}" for name, value in query.items())))


@short_traceback
def receipt(job_id: str) -> Receipt:
    """Return the costs of a run so far, in US dollars: each machine, from when to when, its price, and how its end was proven.

    The receipt shows itself as a table in a notebook and on a console. A run on this computer has no machine that costs money. Raises
    ``JobNotFound``. Starts no control plane.
    """
    if PLANES.is_there():
        return Receipt.from_record(call("GET", f"/jobs/{quoted(job(job_id).id)}/receipt"))
    return Receipt.from_record(asked("costs", "--", job(job_id).id))


class LimitsChange(TypedDict, total=False):
    """The named arguments of ``set_limits``: see there."""

    usd_per_day: float | None
    usd_per_month: float | None
    usd_per_hour: float | None
    max_machines: int | None
    max_gpus: int | None


@short_traceback
def limits() -> Limits:
    """Return the limits of all runs of this home together, what they use and reserve, and which runs wait for room.

    The value shows itself as a table in a notebook and on a console. Starts no control plane.
    """
    return Limits.from_record(call("GET", "/v1/limits") if PLANES.is_there() else asked("limits"))


@short_traceback
def set_limits(**change: Unpack[LimitsChange]) -> Limits:
    """Set or remove limits for all runs of this home together; returns all limits with their use.

    ``usd_per_day``, ``usd_per_month`` and ``usd_per_hour`` are US dollars, ``max_machines`` and ``max_gpus`` count. Arguments that are
    left out stay; None removes a limit. A limit below what is used and reserved ends no run, and no other run starts until there is
    room. Raises ``ConfigError``, which names the argument; then nothing is changed. Starts no control plane.
    """
    for name, value in change.items():
        if name not in LimitsChange.__annotations__:
            raise _refused(name, f"is not a limit; the limits are {', '.join(LimitsChange.__annotations__)}")
        if value is not None and not is_finite(value):
            raise _refused(name, "must be a finite number, or None to remove the limit")
    if not change:
        return limits()
    if PLANES.is_there():
        return Limits.from_record(call("PUT", "/v1/limits", dict(change)))
    words = [f"{name}={'none' if value is None else json.dumps(value)}" for name, value in change.items()]
    return Limits.from_record(asked("limits", "set", "--", *words))


def _day(name: str, given: Any) -> str | None:
    if given is None:
        return None
    text = given.strftime("%Y-%m-%d") if isinstance(given, date) else given
    if isinstance(text, str) and _DAY.fullmatch(text):
        return text
    raise _refused(name, "must be a day: a datetime.date, or text such as 2026-11-01")


def _refused(field: str, message: str) -> ConfigError:
    return ConfigError("invalid_request", f"{field} {message}.", "Correct it and call again. Nothing was changed.", [(field, message)])
