"""Commands about claims and prepared units: what is shown, decided, refused (claims rules 2.11, 3.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.commands.requests import ResetRequest, ResolveConsumerRequest, ResolveUnitRequest
from broker.commands.table.statuses import STATUSES

if TYPE_CHECKING:
    from broker.commands.requests import Decision
    from tests.commands.catalog import Manager

UNIT = "COPY/12/3/4F2A00000000000000000000000000AB"


def claims(queue: str, consumer: str, **figures: int) -> dict[str, int | str]:
    zeroes = dict.fromkeys(STATUSES["QSTATUS", "CLAIM"].figures, 0)
    return {**zeroes, "QUEUE": queue, "TYPE": "CLAIM", "CONSUMER": consumer, **figures}


@pytest.fixture(autouse=True)
def shown(manager: Manager) -> None:
    manager.shown["QSTATUS", "CLAIM"] = [
        claims("A.1", "ARCHIVE", GENERATION=7, CLAIMS=312, PINNED=212, CLMBYTES=4096, CLMAGE=40, LAG=5, LAGBYTES=50),
        claims("A.2", "ARCHIVE", GENERATION=7),
        claims("B", "AUDIT", CLAIMS=1),
    ]
    manager.shown["THREAD", "INDOUBT"] = [
        {
            "THREAD": UNIT, "TYPE": "INDOUBT", "SINK": "COPY", "BATCH": 12, "UOWSTATE": "PREPARED", "MSGS": 8,
            "BYTES": 64, "AGE": 40, "QUEUES": "A.1 5, B 3", "DATABASE": "", "RESOLVER": "",
        },
    ]  # fmt: skip


def test_claims_are_laid_out_as_other_queue_status(manager: Manager) -> None:
    assert manager.run("DISPLAY QSTATUS(A.1) TYPE(CLAIM)").text.split("\n") == [
        "AMQ8450I: Display queue status details.",
        "   QUEUE(A.1)                              TYPE(CLAIM)",
        "   CONSUMER(ARCHIVE)                       GENERATION(7)",
        "   CLAIMS(312)                             PINNED(212)",
        "   CLMBYTES(4096)                          CLMAGE(40)",
        "   LAG(5)                                  LAGBYTES(50)",
        "   LAGAGE(0)",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DIS QS(*) TYPE(CLAIM) CONSUMER", [("A.1", "ARCHIVE"), ("A.2", "ARCHIVE"), ("B", "AUDIT")]),
        ("DIS QS(A*) TYPE(CLAIM) CONSUMER", [("A.1", "ARCHIVE"), ("A.2", "ARCHIVE")]),
        ("DIS QSTATUS(B) CONSUMER TYPE(claim)", [("B", "AUDIT")]),
        ("DIS QS(*) TYPE(CLAIM) CONSUMER WHERE(CLAIMS GT 0)", [("A.1", "ARCHIVE", 312), ("B", "AUDIT", 1)]),
        ("DIS QS(*) TYPE(CLAIM) CLAIMS WHERE(CONSUMER LK 'AU*')", [("B", "AUDIT", 1)]),
    ],
)
def test_a_status_is_chosen_by_name_and_condition(manager: Manager, text: str, expected: list[tuple[object]]) -> None:
    picked = [tuple(value for key, value in each.items() if key != "TYPE") for each in manager.run(text).attributes]
    assert picked == expected


def test_all_figures_are_shown_where_none_is_named(manager: Manager) -> None:
    figures = list(STATUSES["QSTATUS", "CLAIM"].figures)
    for text in ("DIS QS(*) TYPE(CLAIM)", "DIS QS(B) TYPE(CLAIM) ALL", "DIS QS(B) TYPE(CLAIM) ALL LAG"):
        assert {tuple(each) for each in manager.run(text).attributes} == {tuple(figures)}


def test_prepared_units_are_listed_under_names_that_can_be_resolved(manager: Manager) -> None:
    reply = manager.run("DISPLAY THREAD(*) TYPE(INDOUBT)")
    assert reply.text.split("\n") == [
        "EMQ0003I: Display thread details.",
        f"   THREAD({UNIT})",
        "   TYPE(INDOUBT)                           SINK(COPY)",
        "   BATCH(12)                               UOWSTATE(PREPARED)",
        "   MSGS(8)                                 BYTES(64)",
        "   AGE(40)                                 QUEUES(A.1 5, B 3)",
        "   DATABASE( )                             RESOLVER( )",
    ]
    assert manager.run(f"RESOLVE INDOUBT({reply.attributes[0]['THREAD']}) ACTION(BACKOUT)").ok
    assert manager.decisions == [ResolveUnitRequest(UNIT, commit=False)]
    assert manager.run("DIS THREAD(COPY/12/*) TYPE(INDOUBT) MSGS").attributes == (
        {"THREAD": UNIT, "TYPE": "INDOUBT", "MSGS": 8},
    )


def test_zmqsc_has_the_same_with_hyphens(manager: Manager) -> None:
    lines = manager.run("ZMQSC DISP QSTATUS-A.1 TYPE-CLAIM").text.split("\n")
    assert lines[1] == "   QUEUE-A.1                               TYPE-CLAIM"
    assert [each["QUEUE"] for each in manager.run("ZMQSC DISP QSTATUS-ALL TYPE-CLAIM").attributes] == [
        "A.1",
        "A.2",
        "B",
    ]


@pytest.mark.parametrize(
    "text", ["DIS QS(NONE) TYPE(CLAIM)", "DIS QS(*) TYPE(CLAIM) WHERE(CLAIMS GT 999)", "DIS THREAD(X*) TYPE(INDOUBT)"]
)
def test_what_shows_nothing_is_not_found(manager: Manager, text: str) -> None:
    assert manager.run(text).code == "AMQ8147E"


@pytest.mark.parametrize(
    ("text", "decision", "reply"),
    [
        (
            "RESOLVE CONSUMER(ARCHIVE) ACTION(BACKOUT)",
            ResolveConsumerRequest("ARCHIVE", commit=False),
            "EMQ0004I: EverMQ consumer ARCHIVE resolved: 100 messages removed, 212 messages back on their queues.",
        ),
        ("RES CONSUMER('a') ACTION(COMMIT)", ResolveConsumerRequest("a", commit=True), "EMQ0004I"),
        (
            "RESOLVE CONSUMER(A) PINNED(YES) ACTION(BACKOUT)",
            ResolveConsumerRequest("A", commit=False, pinned=True),
            "EMQ0004I",
        ),
        ("RESOLVE CONSUMER(A) PINNED(NO) ACTION(BACKOUT)", ResolveConsumerRequest("A", commit=False), "EMQ0004I"),
        ("ZMQSC RESOLVE CONSUMER-A ACTION-BACKOUT PINNED-YES", ResolveConsumerRequest("A", False, True), "EMQ0004I"),
        (f"RES INDOUBT({UNIT}) ACTION(COMMIT)", ResolveUnitRequest(UNIT, commit=True), "EMQ0005I"),
        (f"ZMQSC RESOLVE INDOUBT-{UNIT} ACTION-BACKOUT", ResolveUnitRequest(UNIT, commit=False), "EMQ0005I"),
        ("RESET SINK(COPY)", ResetRequest("COPY"), "EMQ0006I: EverMQ sink COPY reset: 100 messages"),
        ("ZMQSC RESET SINK-COPY", ResetRequest("COPY"), "EMQ0006I"),
    ],
)
def test_an_administrator_decides(manager: Manager, text: str, decision: Decision, reply: str) -> None:
    assert manager.run(text).text.startswith(reply)
    assert manager.decisions == [decision]
    assert manager.changes == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("RESOLVE CONSUMER(A)", "AMQ8421E"),
        ("RESOLVE INDOUBT(A)", "AMQ8421E"),
        ("RESOLVE CONSUMER ACTION(BACKOUT)", "AMQ8421E"),
        ("RESOLVE CONSUMER(A*) ACTION(BACKOUT)", "AMQ8424E"),
        (f"RESOLVE CONSUMER({'A' * 49}) ACTION(BACKOUT)", "AMQ8424E"),
        (f"RESOLVE INDOUBT({'A' * 129}) ACTION(BACKOUT)", "AMQ8424E"),
        ("RESOLVE CONSUMER(A) ACTION(FORGET)", "AMQ8425E"),
        ("RESOLVE CONSUMER(A) ACTION(COMMIT) ACTION(BACKOUT)", "AMQ8411E"),
        ("RESOLVE INDOUBT(A) ACTION(BACKOUT) PINNED(YES)", "AMQ8405I"),
        ("RESOLVE QLOCAL(A) ACTION(BACKOUT)", "AMQ8405I"),
        ("RESET SINK(A) ACTION(BACKOUT)", "AMQ8405I"),
        ("RESET CONSUMER(A)", "AMQ8405I"),
        ("DEFINE CONSUMER(A)", "AMQ8405I"),
        ("DISPLAY CONSUMER(A)", "AMQ8405I"),
        ("DIS QS(A) TYPE(CLAIMS)", "AMQ8425E"),
        ("DIS QS(A) TYPE", "AMQ8405I"),
        ("DIS QS(A) TYPE(CLAIM) TYPE(CLAIM)", "AMQ8411E"),
        ("DIS QS(A) TYPE(CLAIM) CURDEPTH", "AMQ8405I"),
        ("DIS QS(A) TYPE(CLAIM) CLAIMS(3)", "AMQ8405I"),
        ("DIS QS(A) TYPE(CLAIM) WHERE(TYPE EQ CLAIM)", "AMQ8405I"),
        ("DIS QS(A) TYPE(CLAIM) WHERE(CURDEPTH EQ 1)", "AMQ8405I"),
        ("DIS QS(A) TYPE(CLAIM) WHERE(CLAIMS EQ many)", "AMQ8425E"),
        ("DIS THREAD TYPE(INDOUBT)", "AMQ8421E"),
        ("ZMQSC RES CONSUMER-A ACTION-COMMIT", "AMQ8405I"),
        ("ZMQSC RESOLVE CONSUMER-A", "AMQ8421E"),
    ],
)
def test_what_does_not_fit_is_refused(manager: Manager, text: str, code: str) -> None:
    assert manager.run(text).code == code
    assert manager.decisions == []


def test_a_mistyped_figure_is_answered_with_the_nearest_and_the_syntax(manager: Manager) -> None:
    _, _, _, hint, _, usage = manager.run("DIS QS(A) TYPE(CLAIM) CLIAMS").text.split("\n")
    assert hint == "CLIAMS: did you mean CLAIMS?"
    assert usage.startswith(
        "    DISPLAY QSTATUS(generic-name) TYPE(CLAIM) [WHERE(keyword operator value)] [ALL | QUEUE |"
    )
    assert manager.run("RESOLVE CONSUMER(A) X").text.split("\n")[-1] == (
        "    RESOLVE CONSUMER(name) [ACTION(BACKOUT | COMMIT)] [PINNED(NO | YES)]"
    )


@pytest.mark.parametrize("text", ["CLEAR QL(A)", "DELETE QL(A)", "DELETE QL(A) PURGE", "ZMQSC DEL QL-A"])
def test_a_queue_whose_messages_are_held_stays_and_the_reply_says_who_holds_them(manager: Manager, text: str) -> None:
    """K7, K8"""
    manager.run("DEF QL(A)")
    manager.changes.clear()
    manager.live["A"] = {"CURDEPTH": 5, "HANDLES": 1}
    manager.holders["A"] = "5 messages of A are claimed by consumer ARCHIVE"
    reply = manager.run(text)
    assert (reply.ok, reply.syntax_error) == (False, False)
    assert reply.text == "AMQ8148E: IBM MQ object in use. 5 messages of A are claimed by consumer ARCHIVE."
    assert manager.changes == []


def test_other_objects_of_that_name_are_nobodys_to_hold(manager: Manager) -> None:
    manager.run("DEF PRO(A)")
    manager.holders["A"] = "5 messages of A are claimed by consumer ARCHIVE"
    assert manager.run("DEL PRO(A)").ok
