"""Downloads a part of one wheel from the package index that an installation would use."""

from __future__ import annotations

import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INDEX = "https://pypi.org/simple"
PACKAGE = "numpy"
WHEEL = re.compile(r'href="([^"#]*x86_64\.whl)[^"]*"')
PAGE_MAX = 8 << 20
BYTES_MAX = 16 << 20
SECONDS = 2.0
CONNECT_SECONDS = 3
PIECE_BYTES = 1 << 16


def download(ask: dict[str, Any]) -> dict[str, Any]:
    import urllib.parse
    import urllib.request

    index = ask.get("index") or os.environ.get("PIP_INDEX_URL") or INDEX
    page = "%s/%s/" % (index.rstrip("/"), PACKAGE)
    with urllib.request.urlopen(page, timeout=CONNECT_SECONDS) as answer:  # noqa: S310  the index that pip itself would use
        wheels = WHEEL.findall(answer.read(PAGE_MAX).decode("utf-8", "replace"))
    host = urllib.parse.urlsplit(index).hostname
    if not wheels:
        return {"host": host, "bytes_per_second": None}
    done = 0
    wheel = urllib.parse.urljoin(page, wheels[-1])
    with urllib.request.urlopen(wheel, timeout=CONNECT_SECONDS) as answer:  # noqa: S310
        begin = time.monotonic()
        while done < BYTES_MAX and time.monotonic() - begin < SECONDS:
            data = answer.read(PIECE_BYTES)
            if not data:
                break
            done += len(data)
        return {"host": host, "bytes_per_second": int(done / max(0.001, time.monotonic() - begin))}
