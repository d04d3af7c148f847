"""Elements that pages share: text of others, identifiers, figures, instants, tables.

Whatever a program, a user or a message chose goes through `shown`: its control characters and marks of direction are
written out, it is cut where it is long, and the direction of what stands beside it stays what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import anyio
import htpy as h
from markupsafe import Markup

from broker.http.console.page import Keyed
from broker.presentation.ages import coarse_age
from broker.presentation.escaping import escaped
from broker.presentation.moments import in_utc, instant_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from htpy import Element, Node

    from broker.http.console.page import Parts

SHOWN_CHARACTERS: Final = 200
"""So much of a text that somebody chose is shown where nothing else is said."""

_ID_DIGITS: Final = 12
_TURN: Final = 5
_KIB: Final = 1024


T = TypeVar("T")
U = TypeVar("U")


class PageColumn(NamedTuple):
    """A column of a table: its head, whether it holds figures or lines, whether narrow screens leave it out, its
    tooltip.
    """

    head: str
    figures: bool = False
    wide: bool = False
    title: str = ""
    line: bool = False


def shown(text: str, most: int = SHOWN_CHARACTERS) -> Element:
    """A text that somebody chose, as text: at most so many characters of it."""
    if len(text) <= most:
        return h.bdi[escaped(text)]
    return h.bdi[escaped(text[:most]), h.span(".cut", title=f"{len(text):,} characters")["…"]]


def identifier(value: bytes) -> Element:
    """A MsgId, CorrelId or GroupId: the last of its digits, all of them as a tooltip; a dash for zeros."""
    if not any(value):
        return h.span(".none")["–"]
    digits = value.hex()
    return h.code(".id", title=digits)["…", digits[-_ID_DIGITS:]]


def count(number: int | float) -> str:
    """A number for people: `1,234`; nothing for zero, so that what is there is seen."""
    return f"{number:,}" if number else ""


def rate(a_second: float) -> str:
    """Messages a second: nothing for none."""
    return "" if not a_second else format(a_second, ",.1f" if abs(a_second) < 100 else ",.0f")


def octets(number: float) -> str:
    """A number of bytes for people: `512 B`, `1.5 KiB`."""
    if number < _KIB:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB"):
        number /= _KIB
        if number < _KIB:
            return f"{number:,.1f} {unit}"
    return f"{number / _KIB:,.1f} GiB"


def when(at: float, now: float) -> Node:
    """An instant, in seconds since 1970: how long ago, or in how long, with the instant in UTC as its tooltip."""
    return instant_as(at, relative(at - now)) if at else h.span(".none")["–"]


def instant_as(at: float, words: str) -> Element:
    """An instant in words, with the instant in UTC as its tooltip."""
    return h.time(datetime=instant_in_words(at), title=in_utc(at), data_at=f"{at:.0f}")[words]


def relative(seconds: float) -> str:
    """A time before now (negative) or after it: `5 m ago`, `in 12 s`, `now`."""
    if abs(seconds) < 1:
        return "now"
    return f"in {coarse_age(seconds)}" if seconds > 0 else f"{coarse_age(-seconds)} ago"


def badge(word: str, kind: str = "plain") -> Element:
    """A word in a coloured frame; `kind` is plain, good, warn or bad. The word tells all: colour only helps."""
    return h.span(f".badge.{kind}")[word]


def section(title: str, *body: Node, id: str | None = None) -> Element:
    """A part of a page below a heading."""
    return h.section(id=id)[h.h2[title], *body]


def empty(*text: Node) -> Element:
    """Stands where there is nothing to show, and says what would be there."""
    return h.p(".empty")[text]


def heads(columns: Sequence[PageColumn]) -> Element:
    """The head of a table."""
    return h.thead[
        h.tr[(h.th(class_=_classes(each), scope="col", title=each.title or None)[each.head] for each in columns)]
    ]


def cells(columns: Sequence[PageColumn], values: Iterable[Node]) -> Iterable[Element]:
    """The cells of a row, each with the look of its column."""
    return (h.td(class_=_classes(column))[value] for column, value in zip(columns, values, strict=True))


def table(label: str, columns: Sequence[PageColumn], body: Node) -> Element:
    """A table in a frame of its own, which is moved aside where the screen is narrow. `body` is a tbody, or rows."""
    return h.div(".scroll")[h.table(aria_label=label)[heads(columns), body]]


def fields(pairs: Iterable[tuple[Node, Node]]) -> Element:
    """Names with their values, one below the other."""
    return h.dl[((h.dt[name], h.dd[value]) for name, value in pairs)]


def live(part: str, parts: Parts, tag: Element = h.div, look: str | None = None) -> Element:
    """An element whose children the page's stream keeps up: the part of this name of what `ConsolePage.parts` returns.
    `look` is its class.
    """
    return tag({"data-live": part}, class_=look)[(each.html for each in parts[part])]


async def in_turns(values: Iterable[T], make: Callable[[T], U]) -> list[U]:
    """Return what is made of each value; others have a turn between some and the next."""
    made: list[U] = []
    for number, each in enumerate(values, 1):
        made.append(make(each))
        if number % _TURN == 0:
            await anyio.lowlevel.checkpoint()
    return made


def keyed(key: str, *body: Node) -> Keyed:
    """A child of a live part: a div around its body."""
    return Keyed(key, Markup(h.div({"data-key": key})[body]))


def _classes(column: PageColumn) -> str | None:
    names = [name for name, has in (("n", column.figures), ("line", column.line), ("wide", column.wide)) if has]
    return " ".join(names) or None
