"""The table of attributes: every row with its least and greatest value, its default and its selector."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from broker.commands.table.attributes import TABLE, by_selector, create, defaults, type_of, validate, value_of
from broker.commands.table.dispositions import place_of
from broker.commands.table.forms import Flag, Integer, ListOf, Name, Pattern, Text, WordChoice
from broker.commands.table.kinds import KINDS
from broker.commands.table.row import Attribute, Origin
from broker.commands.table.users import EntityName, PasswordForm, Secret
from broker.core.names.definitions import GROUP, OWN, QUEUE_KINDS
from broker.mqi.constants.attributes import MQCA, MQIA
from tests.commands.catalog import NOON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.commands.catalog import Manager
from tests.first_user import FIRST_USER, HASH

GIVEN = [
    pytest.param(kind, row, id=f"{kind}-{row.keyword}")
    for kind, rows in TABLE.items()
    for row in rows.values()
    if row.origin is Origin.GIVEN and kind != "CHLAUTH"  # of which `tests/commands/test_channel_rules.py` tells
]
REFUSALS = ("AMQ8412E", "AMQ8413E", "AMQ8424E", "AMQ8425E")


def subject(kind: str, row: Attribute) -> str:
    """The beginning of the command that gives an object of the kind the attribute."""
    if kind == "QMGR":
        return "ALTER QMGR"
    noun, keyword = "CHANNEL" if kind == "CLNTCONN" else kind, KINDS[kind].type
    if not keyword or row.keyword == keyword:
        return f"DEFINE {noun}(A)"
    type = row.types[0] if row.types else TABLE[kind][keyword].default
    return f"DEFINE {noun}(A) {keyword}({TABLE[kind][keyword].form.plain(type)})"


def _good(row: Attribute) -> Iterable[tuple[str, int | str]]:
    """Texts that set the attribute to the ends of its range, with the values they mean."""
    match row.form:
        case Integer(low, high, words):
            numbers = {str(low): low, str(high): high, **words}
            return [(f"{row.keyword}({text})", number) for text, number in numbers.items()]
        case WordChoice(words):
            return [(f"{row.keyword}({word.lower()})", number) for word, number in words.items()]
        case Flag():
            return [(row.keyword, 1), (f"NO{row.keyword}", 0)]
        case Text(length) | Name(length):
            return [(f"{row.keyword}('{'x' * length}')", "x" * length), (f"{row.keyword}('')", "")]
        case EntityName():
            return [(f"{row.keyword}('{'x' * 11}-')", "x" * 11 + "-"), (f"{row.keyword}(' ')", "")]
        case ListOf():
            return [(f"{row.keyword}('x', Y, 'x')", "x,Y"), (f"{row.keyword}(' ')", "")]
        case Pattern():
            return [(f"{row.keyword}('CN=x')", "CN=x"), (f"{row.keyword}(' ')", "")]
        case PasswordForm():
            return [(f"{row.keyword}('{HASH}')", HASH), (f"{row.keyword}(NONE)", ""), (f"{row.keyword}('')", "")]
        case Secret():
            return [(f"{row.keyword}('x')", "SET"), (f"{row.keyword}('')", "")]
    raise AssertionError(row.form)


def _bad(row: Attribute) -> list[str]:
    match row.form:
        case Integer(low, high, words):
            beyond = [number for number in (low - 1, high + 1) if number not in words.values()]
            return [f"{row.keyword}({number})" for number in beyond] + [f"{row.keyword}(x)"]
        case WordChoice():
            return [f"{row.keyword}(NEITHER)", f"{row.keyword}(1)"]
        case Flag():
            return []
        case Text(length) | Name(length):
            return [f"{row.keyword}('{'x' * (length + 1)}')"]
        case EntityName():
            return [f"{row.keyword}('{text}')" for text in ("x" * 13, "x y", "x,y", "é")]
        case ListOf(_, most):
            numbers = ",".join(map(str, range(most + 1)))
            return [f"{row.keyword}({numbers})"]
        case Pattern():
            return [f"{row.keyword}('CN')", f"{row.keyword}('CN={'x' * 1022}')"]
        case PasswordForm():
            bad = (
                "x",
                HASH.replace("ln=15", "ln=30"),
                HASH.replace("ln=15", "ln=13"),
                HASH.replace("p=1", "p=5"),
                HASH[:-30],
            )
            return [f"{row.keyword}('{text}')" for text in bad]
        case Secret(length):
            return [f"{row.keyword}('{'x' * (length + 1)}')"]
    raise AssertionError(row.form)


@pytest.mark.parametrize(("kind", "row"), GIVEN)
def test_an_attribute_takes_the_ends_of_its_range_and_nothing_beyond(
    manager: Manager, kind: str, row: Attribute
) -> None:
    manager.run("ALTER QMGR MAXMSGL(104857600)")
    space = "QUEUE" if kind in QUEUE_KINDS else kind
    for text, value in _good(row):
        manager.objects.clear()
        manager.run(FIRST_USER)
        manager.of_group.pop((GROUP, "CFSTRUCT", "A"), None)
        assert manager.run(f"{subject(kind, row)} {text}").ok, text
        definition = manager.queue_manager if kind == "QMGR" else manager.find(space, "A", place_of(kind, OWN))
        assert definition is not None
        assert definition.attributes[row.keyword] == value
        assert validate(kind, row.keyword, value)
    for text in _bad(row):
        manager.objects.clear()
        manager.of_group.pop((GROUP, "CFSTRUCT", "A"), None)
        manager.changes.clear()
        assert manager.run(f"{subject(kind, row)} {text}").code in REFUSALS, text
        assert manager.changes == []


@pytest.mark.parametrize("kind", TABLE)
def test_defaults_are_valid_and_cover_what_a_definition_keeps(kind: str) -> None:
    kept = {row.keyword for row in TABLE[kind].values() if row.origin in (Origin.GIVEN, Origin.KEPT)}
    types = {row.keyword for row in TABLE[kind].values() if not row.is_of(type_of(kind, {}))}
    assert set(defaults(kind)) == kept - types
    assert [keyword for keyword, value in defaults(kind).items() if not validate(kind, keyword, value)] == []


@pytest.mark.parametrize("kind", TABLE)
def test_each_selector_leads_to_one_row(kind: str) -> None:
    rows = [row for row in TABLE[kind].values() if row.selector is not None]
    assert [by_selector(kind, row.selector) for row in rows if row.selector is not None] == rows
    assert by_selector(kind, 999) is None


@pytest.mark.parametrize("kind", TABLE)
def test_character_attributes_have_character_selectors(kind: str) -> None:
    for row in TABLE[kind].values():
        assert row.selector is None or isinstance(row.selector, MQCA if isinstance(row.form, Text | Name) else MQIA), (
            row.keyword
        )


def test_the_trigger_attributes_of_a_new_queue_are_those_that_mqinq_expects() -> None:
    queue = create("QLOCAL", "Q", NOON)
    selectors = (MQIA.TRIGGER_CONTROL, MQIA.TRIGGER_TYPE, MQIA.TRIGGER_DEPTH, MQIA.TRIGGER_MSG_PRIORITY)
    rows = [by_selector("QLOCAL", selector) for selector in (*selectors, MQCA.TRIGGER_DATA)]
    assert [value_of(row, queue, {}) for row in rows if row] == [0, 1, 1, 0, ""]


def test_names_kinds_and_counts_are_no_part_of_a_definition() -> None:
    queue = create("QLOCAL", "Q", NOON)
    rows = TABLE["QLOCAL"]
    assert not {"QUEUE", "TYPE", "CURDEPTH"} & set(queue.attributes)
    assert value_of(rows["QUEUE"], queue, {}) == "Q"
    assert value_of(rows["TYPE"], queue, {}) == 1
    assert value_of(rows["CURDEPTH"], queue, {"CURDEPTH": 4}) == 4


def test_an_older_definition_has_the_defaults_of_newer_attributes() -> None:
    queue = create("QLOCAL", "Q", NOON)
    del queue.attributes["STRMQOS"]
    assert value_of(TABLE["QLOCAL"]["STRMQOS"], queue, {}) == 0


def test_mqset_may_change_just_these() -> None:
    settable = {kind: {row.keyword for row in rows.values() if row.settable} for kind, rows in TABLE.items()}
    assert settable == {
        "QLOCAL": {"DISTL", "GET", "PUT", "TRIGDATA", "TRIGDPTH", "TRIGGER", "TRIGMPRI", "TRIGTYPE"},
        "QALIAS": {"GET", "PUT"},
        "QREMOTE": {"PUT"},
        "CFSTRUCT": set(),
        **{kind: set[str]() for kind in ("USER", "AUTHINFO", "CHANNEL", "CLNTCONN", "CHLAUTH", "AUTHREC")},
        "QMODEL": set(),
        "PROCESS": set(),
        "QMGR": set(),
    }


def test_validate_refuses_the_wrong_type_and_the_wrong_number() -> None:
    refused: list[tuple[str, int | str]] = [
        ("TRIGDPTH", 0),
        ("TRIGTYPE", 4),
        ("TRIGMPRI", 10),
        ("TRIGGER", 2),
        ("TRIGDATA", "x" * 65),
        ("DESCR", 1),
    ]
    assert [pair for pair in refused if validate("QLOCAL", *pair)] == []


@pytest.mark.parametrize(
    ("text", "stored", "shown"),
    [
        ("", 23, "TPF"),
        ("APPLTYPE(DEF)", 23, "TPF"),
        ("APPLTYPE(unix)", 6, "UNIX"),
        ("APPLTYPE(6)", 6, "UNIX"),
        ("APPLTYPE(70000)", 70000, 70000),
    ],
)
def test_an_application_type_is_a_word_or_a_number(manager: Manager, text: str, stored: int, shown: str | int) -> None:
    manager.run(f"DEF PROCESS(P) {text}")
    assert manager.process("P")["APPLTYPE"] == stored
    reply = manager.run("DIS PROCESS(P) APPLTYPE")
    assert reply.attributes == ({"PROCESS": "P", "APPLTYPE": shown},)
    assert re.search(rf"APPLTYPE\({shown}\)$", reply.text)
