"""Attributes that are kept and not acted on: who sets one is told so, once; everybody else is left in peace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from broker.commands.interpreter import CommandOutcome, interpret
from broker.commands.language.script import commands_of
from broker.commands.table.attributes import TABLE
from broker.commands.table.forms import Flag, Integer, Pattern, WordChoice
from broker.commands.table.kinds import KINDS
from broker.commands.table.row import Acts, Attribute, Origin
from broker.commands.table.users import PasswordForm, Secret
from tests.commands.catalog import NOON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.mqi.replies import CommandReply
    from tests.commands.catalog import Manager
from tests.first_user import FIRST_USER

GIVEN = [
    (kind, row)
    for kind, rows in TABLE.items()
    for row in rows.values()
    if row.origin is Origin.GIVEN and row.keyword != KINDS[kind].type and kind != "CHLAUTH"
]
NAMED = [f"{kind}-{row.keyword}" for kind, row in GIVEN]
NOTHING_TO_ASK = {
    *(("QMGR", word) for word in ("IMGRCOVO", "IMGRCOVQ", "PSCLUS", "REVDNS", "SCHINIT", "SCMDSERV")),
    ("QMGR", "STRSTPEV"),
    ("CHANNEL", "USEDLQ"),
    ("CLNTCONN", "AFFINITY"),
    *((kind, "QSGDISP") for kind in ("QLOCAL", "QMODEL", "QALIAS", "QREMOTE")),
}
"""Attributes whose only other value switches off what is not done anyway, or that have no other value."""


def values(row: Attribute) -> Iterator[int | str]:
    """Every value of a choice and of a flag, the bounds and the words of a number, a text."""
    match row.form:
        case WordChoice(words):
            yield from words.values()
        case Flag():
            yield from (0, 1)
        case Integer(low, high, words):
            yield from (low, high, *words.values())
        case Pattern():
            yield from ("", "CN=A")
        case PasswordForm():
            yield ""
        case Secret():
            yield from ("", "SET")
        case _:
            yield from ("", "A")


def written(row: Attribute, value: int | str) -> str:
    if isinstance(row.form, Flag):
        return row.keyword if value else f"NO{row.keyword}"
    return f"{row.keyword}('{row.form.plain(value)}')"


def command(kind: str, row: Attribute, value: int | str) -> str:
    if kind == "QMGR":
        return f"ALTER QMGR {written(row, value)}"
    keyword, noun = KINDS[kind].type, "CHANNEL" if kind == "CLNTCONN" else kind
    if not keyword:
        return f"DEFINE {noun}(X) REPLACE {written(row, value)}"
    type = row.types[0] if row.types else TABLE[kind][keyword].default
    return f"DEFINE {noun}(X) REPLACE {keyword}({TABLE[kind][keyword].form.plain(type)}) {written(row, value)}"


def told(reply: CommandReply, row: Attribute) -> list[str]:
    """The lines of a reply that say that the attribute does not act."""
    return [line for line in reply.warnings if re.match(rf"EMQ0002W: {row.keyword}\b", line)]


@pytest.mark.parametrize(("kind", "row"), GIVEN, ids=NAMED)
def test_each_attribute_acts_or_warns(manager: Manager, kind: str, row: Attribute) -> None:
    manager.run(FIRST_USER)
    warned = set()
    for value in values(row):
        reply = manager.run(command(kind, row, value))
        quiet = manager.run(command(kind, row, row.default))
        assert (reply.ok, reply.code, told(quiet, row)) == (True, quiet.code, [])
        assert reply.text.split("\n")[1:] == list(reply.warnings)
        if told(reply, row):
            warned.add(row.form.plain(value))
    does_nothing = row.acts is Acts.NO and (kind, row.keyword) not in NOTHING_TO_ASK
    assert bool(warned) == does_nothing


SILENT = [
    "ALTER QMGR CHLAUTH(DISABLED) CONNAUTH(' ') STRSTPEV(DISABLED) REVDNS(DISABLED) SCHINIT(MANUAL)",
    "DEFINE QLOCAL(A) STATQ(OFF) ACCTQ(OFF) MONQ(NONE) IMGRCOVQ(NO) OTELTRAC(OFF)",
    "DEFINE QLOCAL(A) BOTHRESH(3) BOQNAME(B) RETINTVL(24) DESCR('any')",
    "DEFINE QLOCAL(A) TRIGTYPE(EVERY)",
    "DEFINE QLOCAL(A) STREAMQ(' ') STRMQOS(BESTEF) CAPEXPRY(NOLIMIT) CLUSTER('')",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_asks_for_nothing_is_not_warned_of(manager: Manager, text: str) -> None:
    reply = manager.run(text)
    assert (reply.ok, reply.warnings) == (True, ())


def test_the_reply_names_what_does_not_act_and_what_follows(manager: Manager) -> None:
    reply = manager.run("DEFINE QLOCAL(A) STREAMQ(B) STRMQOS(MUSTDUP) MAXDEPTH(1) TRIGTYPE(DEPTH) TRIGDPTH(3) INITQ(I)")
    assert (reply.ok, reply.code) == (True, "AMQ8006I")
    assert reply.text.split("\n") == [
        "AMQ8006I: IBM MQ queue created.",
        "EMQ0002W: STREAMQ is kept and shown, but EverMQ does not act on it: no message is copied.",
        "EMQ0002W: STRMQOS is kept and shown, but EverMQ does not act on it.",
    ]
    assert reply.warnings == tuple(reply.text.split("\n")[1:])
    assert manager.queue("A")["STREAMQ"] == "B"


def test_a_command_that_fails_warns_of_nothing(manager: Manager) -> None:
    manager.run("DEFINE QLOCAL(A)")
    reply = manager.run("DEFINE QLOCAL(A) STATQ(ON)")
    assert (reply.code, reply.warnings) == ("AMQ8150E", ())


def test_like_warns_of_nothing(manager: Manager) -> None:
    manager.run("DEFINE QLOCAL(A) STATQ(ON)")
    assert manager.run("DEFINE QLOCAL(B) LIKE(A)").warnings == ()


def test_a_script_is_warned_of_each_attribute_once(manager: Manager) -> None:
    script = """
        DEFINE QLOCAL(A) STATQ(ON)
        DEFINE QLOCAL(B) STATQ(ON) STREAMQ(I)
        ALTER QMGR STATQ(ON)
        ZMQSC DEF QL-C
        DEFINE QMODEL(M) STREAMQ(J)
    """
    warned: set[str] = set()
    outcomes = [interpret(text, manager, NOON, warned) for text in commands_of(script)]
    replies = [outcome.reply for outcome in outcomes if isinstance(outcome, CommandOutcome)]
    assert [[line.split()[1] for line in reply.warnings] for reply in replies] == [["STATQ"], ["STREAMQ"], [], [], []]
    assert [len(reply.text.split("\n")) for reply in replies] == [2, 2, 1, 1, 1]
