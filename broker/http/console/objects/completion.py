"""The continuations of a command that somebody types: verbs, nouns, names, attributes, values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from broker.commands.language.options import OPTIONS
from broker.commands.language.words import COMMANDS, DISPLAY_OPTIONS, NAMELESS, NOUNS, VERBS
from broker.commands.table.attributes import TABLE
from broker.commands.table.forms import Flag, WordChoice
from broker.commands.table.kinds import SHOWN
from broker.commands.table.row import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker import Connection
    from broker.commands.table.row import Attribute

MOST: Final = 30
_HEAD: Final = re.compile(
    r"\s*(?P<verb>[A-Za-z]+)\s+(?P<noun>[A-Za-z]+)\s*(?:\(\s*'?(?P<name>[^()']*)'?(?P<end>\s*\))?)?"
)
_VALUE: Final = re.compile(r"(?P<keyword>[A-Za-z]+)\((?P<value>[^()]*)$")
_WORD: Final = re.compile(r"(?P<word>[A-Za-z]*)$")
_NAMED: Final = {"QUEUE": "QUEUE", "QSTATUS": "QLOCAL", "CFSTATUS": "CFSTRUCT"}
"""The noun whose objects a noun is about, where it is another."""


async def completions(connection: Connection, line: str) -> list[str]:
    """Return lines that this one may become, the next word of each completed; at most MOST."""
    head = _HEAD.match(line)
    if head is None or (head["name"] is None and not line[head.end("noun") :].strip() and line[-1:] not in (" ", "(")):
        return _begun(line)
    verb, noun = VERBS.get(head["verb"].upper(), ""), NOUNS.get(head["noun"].upper(), "")
    if verb not in COMMANDS or noun not in COMMANDS[verb]:
        return []
    if noun not in NAMELESS and head["end"] is None:
        return await _named(connection, line[: head.end("noun")], noun, head["name"] or "")
    return _continued(line, verb, noun)


def _begun(line: str) -> list[str]:
    """A verb, or a verb and a noun."""
    words = line.upper().split()
    if len(words) > 2:
        return []
    if len(words) < 2 and line[-1:] != " ":
        return [f"{verb} " for verb in COMMANDS if verb.startswith("".join(words))]
    verb, begun = VERBS.get(words[0], "") if words else "", words[1] if len(words) == 2 else ""
    nouns = COMMANDS.get(verb, ())
    return [f"{verb} {noun}{' ' if noun in NAMELESS else '('}" for noun in nouns if noun.startswith(begun)][:MOST]


async def _named(connection: Connection, before: str, noun: str, begun: str) -> list[str]:
    """The names of objects that begin so."""
    about = _NAMED.get(noun, noun)
    if about not in SHOWN or not re.fullmatch(r"[A-Za-z0-9._/%]*", begun):
        return []
    [reply] = await connection.mqsc(f"DISPLAY {about}({begun}*)")
    names = (str(next(iter(each.values()))) for each in reply.attributes[:MOST])
    return [f"{before.strip()}({name})" for name in names]


def _continued(line: str, verb: str, noun: str) -> list[str]:
    """An attribute or an option, or the value of one."""
    rows = {row.keyword: row for kind in _kinds(noun) for row in TABLE[kind].values()}
    value = _VALUE.search(line)
    if value is not None:
        row = rows.get(value["keyword"].upper())
        words = row.form.words if row is not None and isinstance(row.form, WordChoice) else ()
        begun = value["value"].strip().upper()
        return [f"{line[: value.start('value')]}{word})" for word in words if word.startswith(begun)][:MOST]
    word = _WORD.search(line)
    begun = word["word"].upper() if word else ""
    before = line[: len(line) - len(begun)]
    before = before if before[-1:] == " " else f"{before} "
    return [f"{before}{each}" for each in _keywords(verb, noun, rows.values()) if each.startswith(begun)][:MOST]


def _kinds(noun: str) -> Iterable[str]:
    return SHOWN[noun].kinds if noun in SHOWN else ()


def _keywords(verb: str, noun: str, rows: Iterable[Attribute]) -> Iterator[str]:
    """The keywords that a command takes, with a parenthesis where a value follows."""
    if verb == "DISPLAY":
        yield from DISPLAY_OPTIONS.get(noun, ())
        yield from (row.keyword for row in rows)
        return
    for keyword, option in OPTIONS.get((verb, noun), {}).items():
        yield keyword if option.value is not None else f"{keyword}("
    if verb in ("ALTER", "DEFINE", "SET"):
        for row in rows:
            if row.origin is Origin.GIVEN:
                yield from ((row.keyword, f"NO{row.keyword}") if isinstance(row.form, Flag) else (f"{row.keyword}(",))
