"""Attributes of objects in groups, as fields of a form, and the ALTER line that changed fields come to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import htpy as h

from broker.commands.table.attributes import TABLE
from broker.commands.table.forms import Flag, WordChoice
from broker.commands.table.row import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from htpy import Node

    from broker.commands.table.row import Attribute

KINDS: Final = (
    "QLOCAL", "QALIAS", "QREMOTE", "QMODEL", "PROCESS", "CHANNEL", "USER", "AUTHINFO", "CHLAUTH", "AUTHREC", "CFSTRUCT",
    "QMGR",
)  # fmt: skip
"""The kinds of objects that are shown, by their nouns."""

WITHOUT_PAGE: Final = frozenset({"CHLAUTH", "AUTHREC"})
"""Records that have no name of their own: SET changes them."""

_GROUPS: Final = (
    ("Triggering", re.compile(r"TRIG|PROCESS$|INITQ|TRIGDATA")),
    ("Events and statistics", re.compile(r"EV$|QDEPTH|QDP|QSVC|STAT|ACCT|MON|EVENT|AUTHOREV|LOGGEREV")),
    ("Limits", re.compile(r"MAX|HARDEN|BOTHRESH|BOQNAME|RETINTVL|CAPEXPRY|EXPRYINT|DEFBIND")),
    ("Group", re.compile(r"QSG|CF|IGQ|SHARE$|SQQMNAME|CMDSCOPE|CLUS")),
    ("Security", re.compile(r"SSL|CERT|CHCK|CONNAUTH|CHLAUTH|USER|GROUPS|MCAUSER|AUTH|PASS|STATUS")),
    ("Dates and counts", re.compile(r"(CR|ALT)(DATE|TIME)$|DATE$|TIME$|PROCS$|CURDEPTH|DEFTYPE")),
    ("Messages", re.compile(r"DEF|GET$|PUT$|MSGDLVSQ|PROPCTL|NPM|USAGE|DIST|SCOPE|TARG|RNAME|RQM|XMITQ")),
)

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.%/]+")


def grouped(kind: str, attributes: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the keywords of an object in named groups; what says most of it comes first."""
    groups: dict[str, list[str]] = {"General": [], **{name: [] for name, _ in _GROUPS}}
    for keyword in attributes:
        name = next((name for name, pattern in _GROUPS if pattern.search(keyword)), "General")
        groups[name].append(keyword)
    return [(name, keywords) for name, keywords in groups.items() if keywords]


def kind_of(attributes: Mapping[str, Any], kind: str) -> str:
    """Return the kind whose attributes an object has: that of a client's channel is another than CHANNEL."""
    return "CLNTCONN" if kind == "CHANNEL" and attributes.get("CHLTYPE") == "CLNTCONN" else kind


def changeable(kind: str, keyword: str) -> Attribute | None:
    """Return the row of an attribute that ALTER changes; None where it does not."""
    row = TABLE.get(kind, {}).get(keyword)
    return row if row is not None and row.origin is Origin.GIVEN and keyword not in ("CHLTYPE", "AUTHTYPE") else None


def field_of(row: Attribute, value: Any) -> Node:
    """The field of a form for an attribute, with its value."""
    keyword = row.keyword
    if isinstance(row.form, Flag):
        return _choice(keyword, ("YES", "NO"), "YES" if value else "NO")
    if isinstance(row.form, WordChoice) and str(value) in row.form.words:
        return _choice(keyword, row.form.words, str(value))
    return h.input(
        type="text", name=keyword, value=str(value), aria_label=keyword, title=row.form.syntax[:200],
        autocomplete="off", spellcheck="false",
    )  # fmt: skip


def _choice(keyword: str, words: Iterable[str], value: str) -> Node:
    return h.select(name=keyword, aria_label=keyword)[
        (h.option(value=word, selected=word == value)[word] for word in words)
    ]


def changes_of(kind: str, attributes: Mapping[str, Any], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the attributes whose fields say something else than the object has, with what they say."""
    found = []
    for keyword, before in attributes.items():
        row = changeable(kind, keyword)
        if row is None or keyword not in given:
            continue
        value = str(given[keyword]).strip(" ")
        shown = ("YES" if before else "NO") if isinstance(row.form, Flag) else str(before)
        if value != shown:
            found.append((keyword, value))
    return found


def alter_line(kind: str, name: str, changes: Sequence[tuple[str, str]], disposition: str = "") -> str:
    """Return the ALTER command for these changes of an object. `disposition` is its QSGDISP, where it is not QMGR."""
    noun = "CHANNEL" if kind == "CLNTCONN" else kind
    words = ["ALTER", noun if noun == "QMGR" else f"{noun}({text(name)})"]
    if kind in ("CHANNEL", "CLNTCONN"):
        words.append(f"CHLTYPE({'CLNTCONN' if kind == 'CLNTCONN' else 'SVRCONN'})")
    if disposition not in ("", "QMGR", "COPY"):
        words.append(f"QSGDISP({disposition})")
    for keyword, value in changes:
        row = changeable(kind, keyword)
        if row is not None:
            words.append(_clause(row, value))
    return " ".join(words)


def _clause(row: Attribute, value: str) -> str:
    if isinstance(row.form, Flag):
        return row.keyword if value == "YES" else f"NO{row.keyword}"
    plain = isinstance(row.form, WordChoice) or value.lstrip("-").isdecimal()
    return f"{row.keyword}({value if plain and _PLAIN.fullmatch(value.lstrip('-')) else text(value)})"


def text(value: str) -> str:
    """Return a text as MQSC has it between apostrophes, on one line."""
    return "'" + re.sub(r"[\r\n]+", " ", value).replace("'", "''") + "'"
