"""Message selectors: which are true of which properties, which are no selectors, and that none can do harm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.queues.handles import Hconn
from broker.core.selector import selector
from broker.core.selector.compiling import DEPTH_MAX, LENGTH_MAX, compile_text
from broker.core.selector.values import compare
from broker.mqi import MQENC, MQRC, MessageDescriptor, MQError, ObjectDescriptor
from broker.mqi.layouts.rfh2 import MQRFH2
from tests.core.world import ALL, Access, Program, World, fails, name_of
from tests.tries import tries

if TYPE_CHECKING:
    from broker.mqi.layouts.folders import Value

PROPERTIES: dict[str, Value] = {
    "colour": "red",
    "size": 5,
    "weight": 2.5,
    "flag": True,
    "off": False,
    "key": b"\x0a\xfc",
    "rate": "100%",
    "path": "a_b",
    "quote": "it's",
    "android": 1,
    "wmq.shape": "round",
    "nothing": None,
}

TABLE: list[tuple[str, bool | None]] = [
    # Comparison
    ("colour = 'red'", True),
    ("colour <> 'red'", False),
    ("colour = 'blue'", False),
    ("quote = 'it''s'", True),
    ("size = 5", True),
    ("size = 5.0", True),
    ("size <> 4", True),
    ("size > 4 and size >= 5 and size < 6 and size <= 5", True),
    ("3 < size", True),
    ("weight > 2", True),
    ("weight = 2.5E0", True),
    ("wmq.shape = 'round'", True),
    ("usr.colour = 'red'", None),  # the prefix is taken off where messages are looked at
    ("flag = TRUE", True),
    ("off = false", True),
    ("flag <> off", True),
    ("flag", True),
    ("not off", True),
    ("key = '0x0AFC'", True),
    ("key = '0x0afc'", True),
    ('key = "0x0AFC"', True),
    ("key <> '0x0AFD'", True),
    # Unlike values are neither equal nor unequal
    ("colour = 5", False),
    ("colour <> 5", False),
    ("not (colour = 5)", True),
    ("flag = 1", False),
    ("colour > 5", False),
    # NULL and three-valued logic
    ("missing = 1", None),
    ("nothing = 'x'", None),
    ("missing <> 1", None),
    ("not (missing = 1)", None),
    ("missing = 1 or size = 5", True),
    ("missing = 1 or size = 6", None),
    ("missing = 1 and size = 5", None),
    ("missing = 1 and size = 6", False),
    ("missing is null", True),
    ("nothing is null", True),
    ("missing is not null", False),
    ("size IS NOT NULL", True),
    ("missing between 1 and 2", None),
    ("missing in ('a')", None),
    ("missing not in ('a')", None),
    ("missing like 'a%'", None),
    ("missing not like 'a%'", None),
    ("missing + 1 > 0", None),
    ("colour", None),
    ("colour and size = 5", None),
    # Precedence: NOT before AND before OR
    ("size = 5 or size = 6 and colour = 'blue'", True),
    ("(size = 5 or size = 6) and colour = 'blue'", False),
    ("not size = 6 and colour = 'red'", True),
    ("not (size = 6 or colour = 'red')", False),
    # BETWEEN
    ("size between 1 and 5", True),
    ("size between 6 and 9", False),
    ("size not between 6 and 9", True),
    ("size between 5 and 5 and colour = 'red'", True),
    ("size + 1 between size and size * 2", True),
    # IN
    ("colour in ('blue', 'red')", True),
    ("colour in ('blue')", False),
    ("colour not in ('blue')", True),
    ("size in ('5')", False),
    ("key in ('0xff', '0x0afc')", True),
    # LIKE
    ("colour like 'r%'", True),
    ("colour like '%d'", True),
    ("colour like 'r_d'", True),
    ("colour like '_e_'", True),
    ("colour like 'r'", False),
    ("colour like '%e%'", True),
    ("colour like 'r%d%'", True),
    ("colour like 'r%e%d'", True),
    ("colour like 'red%red'", False),
    ("colour like '%'", True),
    ("colour not like 'b%'", True),
    ("colour like 'R%'", False),
    ("colour like 'r.d'", False),
    ("rate like '100!%' escape '!'", True),
    ("colour like 'r!%' escape '!'", False),
    ("path like 'a!_b' escape '!'", True),
    ("colour like 'r!_d' escape '!'", False),
    ("size like '5'", False),
    # Arithmetic
    ("size + 1 = 6", True),
    ("size - 1 - 1 = 3", True),
    ("size * 2 + 1 = 11", True),
    ("1 + size * 2 = 11", True),
    ("(1 + size) * 2 = 12", True),
    ("size / 2 = 2", True),
    ("-size / 2 = -2", True),
    ("size / 2.0 = 2.5", True),
    ("-size = -5", True),
    ("+size = 5", True),
    ("- -size = 5", True),
    ("size / 0 = 1", None),
    ("weight / 0 = 1", None),
    ("colour + 1 = 1", None),
    ("flag + 1 = 2", None),
    ("9223372036854775807 + 1 > 0", None),
    ("-9223372036854775808 < 0", True),
    (".5 + 7. = 7.5", True),
    ("1e999 > size", True),
    # Words
    ("SIZE = 5", None),  # names know upper from lower case
    ("colour LIKE 'r%' AND NOT size IN ('x')", True),
    ("android = 1", True),
    ("TRUE", True),
    ("false", False),
]


@pytest.mark.parametrize(("text", "outcome"), TABLE)
def test_a_selector_is_true_false_or_unknown(text: str, outcome: bool | None) -> None:
    value = compile_text(text).evaluate(PROPERTIES.get)
    assert (value if isinstance(value, bool) else None) is outcome


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "5", "'red'", "size + 1", "-5", "colour =", "= 5", "colour = 'red", "colour == 'red'",
        "size = 5 and", "(size = 5", "size = 5)", "size 5", "colour != 'red'", "colour in ()", "colour in (1)",
        "colour in 'red'",
        "colour like red", "colour like 'r%' escape 'ab'", "colour like 'r!' escape '!'", "colour is 'red'",
        "size between 1", "size between 1 or 2", "and = 1", "null = 1", "colour = null", "not = 1", "5 in ('5')",
        "'a' like 'b'", "size + 1 is null", "colour > 'red'", "flag > true", "5 and size = 5", "not 5", "'a' + 1 = 2",
        "size = 99999999999999999999", "size = 1 = 1", "colour = 'red';", "__import__('os')", "f(x) = 1", "size[0] = 1",
        "a..b = 1", ".a = 1", "a. = 1", 'colour = "red"',
    ],
)  # fmt: skip
def test_what_is_no_selector_is_refused(text: str) -> None:
    with fails(MQRC.SELECTOR_SYNTAX_ERROR):
        selector(text)


def test_a_selector_of_an_unknown_descriptor_field_is_refused() -> None:
    with fails(MQRC.SELECTOR_SYNTAX_ERROR):
        selector("Root.MQMD.Colour = 'red'")


@pytest.mark.parametrize(
    "text", ["(" * 4000 + "size = 5" + ")" * 4000, "size = " + "+1" * 4000, "flag" + " or flag" * 1000]
)
def test_length_alone_costs_no_depth(text: str) -> None:
    assert isinstance(compile_text(text).evaluate(PROPERTIES.get), bool)


@pytest.mark.parametrize(
    "text", ["not " * 2000 + "flag", "0 = " + "- " * 2000 + "1", "(not " * 1500 + "flag" + ")" * 1500]
)
def test_nesting_is_bounded(text: str) -> None:
    with fails(MQRC.SELECTOR_SYNTAX_ERROR):
        selector(text)


def test_the_deepest_selector_allowed_is_evaluated() -> None:
    compile_text("not " * (DEPTH_MAX - 1) + "flag").evaluate(PROPERTIES.get)


def test_length_is_bounded() -> None:
    with fails(MQRC.SELECTION_STRING_ERROR):
        selector("flag" + " " * LENGTH_MAX)


@pytest.mark.parametrize(
    ("text", "conjuncts"),
    [
        ("size = 5", [("size", "=", 5)]),
        ("5 < size", [("size", ">", 5)]),
        ("5 <> size", [("size", "<>", 5)]),
        ("-5 <= size", [("size", ">=", -5)]),
        (
            "size > 2 and (colour = 'red' and 2.5 >= weight)",
            [("size", ">", 2), ("colour", "=", "red"), ("weight", "<=", 2.5)],
        ),
        ("size between 1 and 9", [("size", ">=", 1), ("size", "<=", 9)]),
        ('key = "0x0AFC" and flag', [("key", "=", b"\x0a\xfc")]),
        ("size > 2 or colour = 'red'", []),
        ("not size > 2", []),
        ("size not between 1 and 9", []),
        ("size + 1 = 6", []),
        ("size = weight", []),
        ("size is not null and colour in ('red') and colour like 'r%'", []),
    ],
)
def test_a_selector_says_what_must_be_true_for_it_to_be(text: str, conjuncts: list[tuple[str, str, Value]]) -> None:
    assert list(compile_text(text).conjuncts) == conjuncts


@tries(200)
@given(st.lists(st.sampled_from(TABLE), min_size=1, max_size=4), st.sampled_from(["and", "or"]))
def test_what_is_true_has_only_true_conjuncts(parts: list[tuple[str, bool | None]], word: str) -> None:
    node = compile_text(f" {word} ".join(f"({text})" for text, _ in parts))
    if node.evaluate(PROPERTIES.get) is True:
        assert all(compare(order, PROPERTIES.get(name), value) for name, order, value in node.conjuncts)


def test_a_pattern_takes_no_time_to_miss() -> None:
    text = f"long like '{'%a' * 2000}%b'"
    assert compile_text(text).evaluate({"long": "a" * 20_000}.get) is False


WORDS = st.sampled_from(
    ["colour", "size", "5", "2.5", "'red'", "and", "or", "not", "(", ")", "=", "<>", "<", "+", "-", "*", "/", "in",
     "like", "escape", "'%'", "between", "is", "null", "true", ","]
)  # fmt: skip


@tries(200)
@given(st.lists(WORDS, max_size=20).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        outcome = compile_text(text).evaluate(PROPERTIES.get)
    except MQError as error:
        assert error.reason == MQRC.SELECTOR_SYNTAX_ERROR
    else:
        assert outcome is None or isinstance(outcome, bool | str | int | float | bytes)


MD = MessageDescriptor(
    msg_id=name_of("M"), correl_id=name_of("C"), priority=7, format="MQSTR", msg_type=8, reply_to_q="REPLIES", expiry=-1
)

DESCRIPTOR_TABLE = [
    (f"Root.MQMD.MsgId = '0x{name_of('M').hex()}'", True),
    (f"Root.MQMD.MsgId = '0x{name_of('M').hex().upper()}'", True),
    (f"Root.MQMD.CorrelId <> '0x{name_of('M').hex()}'", True),
    ("Root.MQMD.Priority > 6", True),
    ("Root.MQMD.Persistence = 0", True),
    ("Root.MQMD.Format = 'MQSTR'", True),
    ("Root.MQMD.ReplyToQ LIKE 'REP%'", True),
    ("Root.MQMD.MsgType = 8 AND Root.MQMD.BackoutCount = 0", True),
    ("Root.MQMD.MsgSeqNumber = 1 AND Root.MQMD.Offset = 0", True),
    ("Root.MQMD.Expiry = -1", True),
    ("Root.MQMD.PutApplName = 'other'", False),
    ("colour = 'red'", True),
    ("usr.colour = 'red'", True),
    ("Root.Other IS NULL", True),
]


@pytest.mark.parametrize(("text", "outcome"), DESCRIPTOR_TABLE)
def test_a_selector_sees_the_descriptor_and_the_properties_of_a_message(text: str, outcome: bool) -> None:
    world = World()
    world.define()
    header = MQRFH2(("<usr><colour>red</colour></usr>",), MD.format)
    md = replace(MD, format="MQHRF2", encoding=MQENC.NATIVE)
    entry = world.open().put(header.to_bytes() + b"data", md=md).entry
    assert selector(text).matches(entry) is outcome


def test_expiry_cannot_be_selected_by_its_rest() -> None:
    world = World()
    world.define()
    entry = world.open().put(b"data", md=MessageDescriptor(expiry=100)).entry
    assert not selector("Root.MQMD.Expiry > 0").matches(entry)
    assert selector("Root.MQMD.Expiry IS NULL").matches(entry)


def test_the_messages_of_a_selector_are_judged_once_and_forgotten_with_its_last_handle() -> None:
    world = World()
    queue = world.define()
    world.open().put_all([b"1", b"2", b"3"])
    text = "Root.MQMD.Priority = 0"
    handles = [
        world.manager.open(Hconn(), ObjectDescriptor(object_name="Q", selection_string=text), int(ALL))
        for _ in range(2)
    ]
    accesses = [Access(Program(world, handle.hconn), handle) for handle in handles]
    assert [access.get().data for access in accesses] == [b"1", b"2"]
    (view,) = queue.shelf.views.values()
    assert list(view.keys) == list(queue.shelf.available)
    accesses[0].close()
    assert accesses[1].get().data == b"3"
    accesses[1].close()
    assert (queue.shelf.views, queue.shelf.selectors) == ({}, {})
    world.manager.check_invariants()
