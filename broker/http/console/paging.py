"""Lists that are shown some rows at a time: each page begins behind the name that the one before ended with, so that
what comes and goes meanwhile moves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import htpy as h

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from htpy import Element

    from broker.http.console.visit import Visit


class PagedRows(NamedTuple):
    """Rows in order, of which a page shows `size` from `start` on; `name_of` tells rows apart."""

    rows: Sequence[Mapping[str, Any]]
    name_of: Callable[[Mapping[str, Any]], str]
    start: int
    size: int

    @property
    def page(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the page."""
        return self.rows[self.start : self.start + self.size]

    def pager(self, url: Callable[..., str]) -> Element | None:
        """Return the way to the other pages, whose address `url` makes from `after`; None where there is one page."""
        end, number = self.start + len(self.page), len(self.rows)
        if not self.start and end == number:
            return None
        return h.nav(".pager", aria_label="More")[
            h.span[f"{self.start + 1:,} to {end:,} of {number:,}"],
            h.a(href=url())["From the first"] if self.start else None,
            h.a(href=url(after=self.name_of(self.rows[end - 1])))["Next"] if end < number else None,
        ]


def paged(
    visit: Visit, rows: Sequence[Mapping[str, Any]], name_of: Callable[[Mapping[str, Any]], str], size: int
) -> PagedRows:
    """Return the rows from behind the name that a visit asks for; from the first where there is none of that name."""
    behind = visit.query("after")
    start = next((number for number, each in enumerate(rows, 1) if name_of(each) == behind), 0) if behind else 0
    return PagedRows(rows, name_of, start, size)
