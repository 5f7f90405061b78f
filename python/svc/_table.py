"""Tables of text: for a console with aligned columns, for a notebook as HTML. Lists of results show themselves with it."""

from __future__ import annotations

import html
from collections.abc import Sequence

_WIDTH_MAX = 40


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """One line for each row, its columns aligned; a cell of more than 40 characters is cut."""
    every = [heads, *rows]
    widths = [min(_WIDTH_MAX, max(len(row[i]) for row in every)) for i in range(len(heads))]
    lines = (
        "  ".join((text if len(text) <= width else f"{text[: width - 1]}…").ljust(width) for text, width in zip(row, widths, strict=True))
        for row in every
    )
    return "\n".join(line.rstrip() for line in lines)


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for notebooks; every value is escaped."""
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in heads)
    cells = ("".join(f"<td style='text-align:left'>{html.escape(text)}</td>" for text in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
