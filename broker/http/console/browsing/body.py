"""The data of a message for people: as text, as a tree of JSON, in hexadecimal digits. All of it is bounded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import htpy as h

from broker.http.console.elements import empty, shown
from broker.mqi.history import decode_json
from broker.presentation.dump import dump
from broker.presentation.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from htpy import Element, Node

BODY_BYTES: Final = 64 * 1024
"""So much of the data of a message is shown."""

HEX_BYTES: Final = 8 * 1024
NODES_MAX: Final = 1000
DEPTH_MAX: Final = 20
FORMS: Final = {"text": "Text", "json": "JSON", "hex": "Hexadecimal"}
_CODECS: Final = {37: "cp037", 273: "cp273", 437: "cp437", 500: "cp500", 819: "latin-1", 850: "cp850", 858: "cp858",
                  1140: "cp1140", 1200: "utf-16-be", 1208: "utf-8", 1252: "cp1252", 13488: "utf-16-be"}  # fmt: skip
_TEXT_CHARACTERS: Final = 400


def body(data: bytes, ccsid: int, form: str) -> Node:
    """The data in one of FORMS, at most BODY_BYTES of it; where it cannot be shown so, it says why."""
    data = data[:BODY_BYTES]
    if not data:
        return empty("The message has no data.")
    match form:
        case "json":
            return _json(data, ccsid)
        case "hex":
            more = h.p(".soft")[f"the first {HEX_BYTES:,} bytes"] if len(data) > HEX_BYTES else None
            return [h.pre(".hex", tabindex="0")["\n".join(dump(data[:HEX_BYTES]))], more]
        case _:
            return h.pre(tabindex="0")[h.bdi[escaped(text_of(data, ccsid), keep="\n\t")]]


def usual_form(data: bytes, ccsid: int) -> str:
    """The form in which data is shown first: as JSON where it is an object or an array of it, in hexadecimal digits
    where most of it is no text.
    """
    text = text_of(data[:BODY_BYTES], ccsid)
    if text.lstrip()[:1] in ("{", "[") and _parsed(text) is not None:
        return "json"
    plain = data[:2000].decode(_CODECS.get(ccsid, "utf-8"), "replace")
    odd = sum(each == "\ufffd" or (not each.isprintable() and each not in "\r\n\t") for each in plain)
    return "hex" if odd > len(plain) * 0.1 else "text"


def text_of(data: bytes, ccsid: int) -> str:
    r"""The data as text of its character set, or as UTF-8; what is no text is written as `\xff`."""
    codec = _CODECS.get(ccsid, "utf-8")
    return data.decode(codec, "backslashreplace")


def _json(data: bytes, ccsid: int) -> Node:
    value = _parsed(text_of(data, ccsid))
    if value is None:
        return [empty("It is no JSON that can be shown as a tree."), body(data, ccsid, "text")]
    return _Tree().drawn(value[0])


def _parsed(text: str) -> tuple[Any] | None:
    try:
        return (decode_json(text),)
    except ValueError:
        return None


class _Tree:
    """A value of JSON as lists within lists, down to DEPTH_MAX and NODES_MAX values."""

    def __init__(self) -> None:
        self._nodes = 0

    def drawn(self, value: Any) -> Element:
        tree = h.ul(".tree")[list(self._items(value, 0))] if isinstance(value, dict | list) else self._plain(value)
        return h.div[tree, h.p(".soft")[f"the first {NODES_MAX:,} values"] if self._nodes > NODES_MAX else None]

    def _items(self, value: Any, depth: int) -> Iterator[Element]:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            self._nodes += 1
            if self._nodes > NODES_MAX:
                return
            name = h.span(".key")[shown(str(key), _TEXT_CHARACTERS)]
            if not isinstance(each, dict | list) or not each:
                yield h.li[name, ": ", self._plain(each)]
            elif depth == DEPTH_MAX:
                yield h.li[name, ": ", h.span(".soft")["… deeper"]]
            else:
                yield h.li[
                    h.details(open=depth < 2)[
                        h.summary[name, f" {'object' if isinstance(each, dict) else 'array'} of {len(each):,}"],
                        h.ul[list(self._items(each, depth + 1))],
                    ]
                ]

    def _plain(self, value: Any) -> Element:
        if isinstance(value, str):
            return h.span(".string")['"', shown(value, _TEXT_CHARACTERS), '"']
        return h.span(".value")[shown(json.dumps(value), _TEXT_CHARACTERS)]
