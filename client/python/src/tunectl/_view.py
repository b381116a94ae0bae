# SPDX-License-Identifier: Apache-2.0
"""A result as people read it: made once, shown as text in a terminal and as HTML in a notebook."""
from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

_NUMBER = re.compile(r"[0-9.-]+")
_TITLE_WIDTH = 10
_CELL = "text-align: {}; padding: 0 1em 0 0; vertical-align: top"


def printable(text: str) -> str:
    """A daemon's text without control characters, which a terminal may obey."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def _are_numbers(cells: Sequence[str]) -> bool:
    return bool(cells) and all(map(_NUMBER.fullmatch, cells))


class Table:
    """Rows of cells under titles. Columns of numbers are aligned to the right."""

    def __init__(self, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self.titles = list(titles)
        self.rows = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
        self._right = [_are_numbers([row[i] for row in self.rows]) for i in range(len(self.titles))]

    def text(self) -> str:
        rows = [self.titles, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.titles))]
        return "\n".join("  ".join(cell.rjust(width) if right else cell.ljust(width)
                                   for cell, width, right in zip(row, widths, self._right)).rstrip() for row in rows)

    def html(self) -> str:
        def line(tag: str, row: Sequence[str]) -> str:
            return "<tr>" + "".join(
                f'<{tag} style="{_CELL.format("right" if right else "left")}">{html.escape(cell)}</{tag}>'
                for cell, right in zip(row, self._right)) + "</tr>"

        body = "".join(line("td", row) for row in self.rows)
        return f'<table><thead>{line("th", self.titles)}</thead><tbody>{body}</tbody></table>'


class View:
    """What is shown, from top to bottom."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Callable[[], str]]] = []  # text, and how the HTML is made

    def heading(self, bold: str, rest: str = "") -> None:
        """A line that begins in bold."""
        bold, rest = printable(bold), printable(rest)
        self._parts.append((bold + rest, lambda: f"<div><b>{html.escape(bold)}</b>{html.escape(rest)}</div>"))

    def note(self, text: str) -> None:
        """A paragraph; "" is none."""
        shown = printable(text)
        if shown:
            self._parts.append((shown, lambda: f'<div style="white-space: pre-wrap">{html.escape(shown)}</div>'))

    def lines(self, facts: Iterable[tuple[str, str]], bold: str = "") -> None:
        """Titles with their values; those whose value is empty are left out. The value of the title `bold` is in bold."""
        shown = [(title, printable(value)) for title, value in facts if value]

        def row(title: str, value: str) -> str:
            told = html.escape(value).replace("\n", "<br>")
            told = f"<b>{told}</b>" if title and title == bold else told
            cell = _CELL.format("left")
            return f'<tr><td style="{cell}; opacity: 0.6">{title}</td><td style="{cell}">{told}</td></tr>'

        if shown:
            text = "\n".join(f"{title:<{_TITLE_WIDTH}}{value}" for title, value in shown)
            self._parts.append((text, lambda: f"<table>{''.join(row(*one) for one in shown)}</table>"))

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        table = Table(titles, rows)
        self._parts.append((table.text(), table.html))

    def gap(self) -> None:
        """An empty line of the text."""
        self._parts.append(("", lambda: ""))

    def text(self) -> str:
        return "\n".join(text for text, _ in self._parts)

    def html(self) -> str:
        return "<div>" + "".join(make() for _, make in self._parts) + "</div>"


class Shown:
    """A result that prints as its view. In front of `dict` or `list` among the bases of a class."""

    def _view(self) -> View:
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            return self._view().text()
        except (KeyError, TypeError, AttributeError):  # the caller changed it
            return super().__repr__()

    def _repr_html_(self) -> Optional[str]:
        try:
            return self._view().html()
        except (KeyError, TypeError, AttributeError):
            return None


def frame_of(rows: list[dict[str, Any]], columns: Sequence[str] = ()) -> Any:
    """A DataFrame of flat rows, with the given columns if there are no rows. ImportError: pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"a DataFrame needs pandas, and there is none ({error}): pip install pandas; "
                          f"without it, flat() returns the same as a list of dicts", name="pandas") from None

    return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=list(columns))
