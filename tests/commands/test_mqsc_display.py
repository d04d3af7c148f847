"""DISPLAY: which objects and attributes are shown, and how they are laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.commands.display import layout

if TYPE_CHECKING:
    from tests.commands.catalog import Manager

# The order of runmqsc, as recorded.
DUMP = """\
QUEUE(X) TYPE(QLOCAL) ACCTQ(QMGR) ALTDATE(2026-03-04) ALTTIME(12.30.15) BOQNAME( ) BOTHRESH(0) CLUSNL( ) CLUSTER( )
CLCHNAME( ) CLWLPRTY(0) CLWLRANK(0) CLWLUSEQ(QMGR) CRDATE(2026-03-04) CRTIME(12.30.15) CURDEPTH(0) CUSTOM( )
DEFBIND(OPEN) DEFPRTY(0) DEFPSIST(NO) DEFPRESP(SYNC) DEFREADA(NO) DEFSOPT(SHARED) DEFTYPE(PREDEFINED) DESCR( )
DISTL(NO) GET(ENABLED) HARDENBO IMGRCOVQ(QMGR) INITQ( ) IPPROCS(0) MAXDEPTH(5000) MAXMSGL(4194304) MAXFSIZE(DEFAULT)
MONQ(QMGR) MSGDLVSQ(PRIORITY) NOTRIGGER NPMCLASS(NORMAL) OPPROCS(0) PROCESS( ) PUT(ENABLED) PROPCTL(COMPAT)
QDEPTHHI(80) QDEPTHLO(20) QDPHIEV(DISABLED) QDPLOEV(DISABLED) QDPMAXEV(ENABLED) QSVCIEV(NONE) QSVCINT(999999999)
RETINTVL(999999999) SCOPE(QMGR) SHARE STATQ(QMGR) STREAMQ( ) STRMQOS(BESTEF) TRIGDATA( ) TRIGDPTH(1) TRIGMPRI(0)
TRIGTYPE(FIRST) USAGE(NORMAL)"""


def test_a_whole_queue_is_shown_in_the_order_of_runmqsc(manager: Manager) -> None:
    manager.run("DEF QL(X)")
    tokens = DUMP.replace("( )", "(\0)").split()
    expected = ["AMQ8409I: Display Queue details."]
    for first, second in zip(tokens[::2], tokens[1::2], strict=True):
        expected.append(f"   {first:<40}{second}".replace("\0", " "))
    for text in ("DIS QL(X)", "DIS Q(X)", "DISPLAY QUEUE(X) ALL", "DIS QL(X*) ALL DESCR", "DIS QL(X) TYPE(QLOCAL)"):
        assert manager.run(text).text.split("\n") == expected


def test_the_first_line_holds_the_name_padded_to_forty_and_the_type(manager: Manager) -> None:
    manager.run("DEF QL(X)")
    assert manager.run("DIS QL(X)").text.split("\n")[1] == "   " + "QUEUE(X)".ljust(40) + "TYPE(QLOCAL)"


def test_a_token_of_forty_or_more_stands_alone() -> None:
    short, long = "x" * 39, "y" * 40
    assert layout("head", [short, "a", long, "b", "c", "d", long]).split("\n") == [
        "head",
        f"   {short} a",
        f"   {long}",
        "   b" + " " * 39 + "c",
        "   d" + " " * 39 + long,
    ]


def test_a_name_of_48_characters_stands_alone(manager: Manager) -> None:
    name = "Q" * 48
    manager.run(f"DEF QL({name})")
    lines = manager.run(f"DIS QL({name}) DESCR").text.split("\n")
    assert lines[1:] == [f"   QUEUE({name})", "   TYPE(QLOCAL)                            DESCR( )"]


def test_texts_are_printed_bare(manager: Manager) -> None:
    manager.run("DEF QL(A) DESCR('it''s \"ql.a\" (new)')")
    reply = manager.run("DIS QL(A) DESCR")
    assert reply.text.endswith('\n   DESCR(it\'s "ql.a" (new))')
    assert reply.attributes[0]["DESCR"] == 'it\'s "ql.a" (new)'


def test_attributes_are_data_for_programs(manager: Manager) -> None:
    manager.run("DEF QL(A) TRIGGER MAXDEPTH(9) DEFPSIST(YES)")
    manager.live["A"] = {"CURDEPTH": 2}
    (shown,) = manager.run("DIS QL(A)").attributes
    picked = {keyword: shown[keyword] for keyword in ("QUEUE", "TYPE", "TRIGGER", "SHARE", "MAXDEPTH", "CURDEPTH")}
    expected = {"QUEUE": "A", "TYPE": "QLOCAL", "TRIGGER": True, "SHARE": True, "MAXDEPTH": 9, "CURDEPTH": 2}
    assert picked == expected
    assert shown["TRIGGER"] is True
    assert (shown["DEFPSIST"], shown["DESCR"], shown["CAPEXPRY"]) == ("YES", "", "NOLIMIT")


def test_a_generic_name_without_attributes_shows_names_and_types(manager: Manager) -> None:
    manager.script("DEF QL(B.1)\nDEF QL(A)\nDEF QL(B.2)\nDEF PRO(B.P)")
    reply = manager.run("DIS QL(B*)")
    assert reply.text.split("\n") == [
        "AMQ8409I: Display Queue details.",
        "   QUEUE(B.1)                              TYPE(QLOCAL)",
        "AMQ8409I: Display Queue details.",
        "   QUEUE(B.2)                              TYPE(QLOCAL)",
    ]
    assert reply.attributes == ({"QUEUE": "B.1", "TYPE": "QLOCAL"}, {"QUEUE": "B.2", "TYPE": "QLOCAL"})
    assert [shown["QUEUE"] for shown in manager.run("DIS Q(*)").attributes] == ["A", "B.1", "B.2"]
    assert manager.run("DIS PROCESS(*)").text == "AMQ8407I: Display Process details.\n   PROCESS(B.P)"


DUMPS = {
    "QALIAS": """\
QUEUE(X) TYPE(QALIAS) ALTDATE(2026-03-04) ALTTIME(12.30.15) CLUSNL( ) CLUSTER( ) CLWLPRTY(0) CLWLRANK(0) CUSTOM( )
DEFBIND(OPEN) DEFPRTY(0) DEFPSIST(NO) DEFPRESP(SYNC) DEFREADA(NO) DESCR( ) GET(ENABLED) PUT(ENABLED) PROPCTL(COMPAT)
SCOPE(QMGR) TARGET( ) TARGTYPE(QUEUE)""",
    "QREMOTE": """\
QUEUE(X) TYPE(QREMOTE) ALTDATE(2026-03-04) ALTTIME(12.30.15) CLUSNL( ) CLUSTER( ) CLWLPRTY(0) CLWLRANK(0) CUSTOM( )
DEFBIND(OPEN) DEFPRTY(0) DEFPSIST(NO) DEFPRESP(SYNC) DESCR( ) PUT(ENABLED) RQMNAME( ) RNAME( ) SCOPE(QMGR) XMITQ( )""",
}


@pytest.mark.parametrize("kind", DUMPS)
def test_queues_that_hold_no_messages_are_shown_in_the_order_of_runmqsc(manager: Manager, kind: str) -> None:
    manager.run(f"DEF {kind}(X)")
    for noun in (kind, "QUEUE"):
        shown = manager.run(f"DIS {noun}(X)").text.removeprefix("AMQ8409I: Display Queue details.")
        assert shown.replace("( )", "()").split() == DUMPS[kind].replace("( )", "()").split()


def test_a_model_queue_is_for_temporary_queues_of_one_getter(manager: Manager) -> None:
    manager.run("DEF QM(X)")
    (shown,) = manager.run("DIS QM(X)").attributes
    defaults = {keyword: shown[keyword] for keyword in ("TYPE", "DEFTYPE", "DEFSOPT", "SHARE", "HARDENBO", "MAXDEPTH")}
    expected = {"TYPE": "QMODEL", "DEFTYPE": "TEMPDYN", "DEFSOPT": "EXCL", "SHARE": False, "HARDENBO": False}
    assert defaults == expected | {"MAXDEPTH": 5000}
    assert not {"CURDEPTH", "IPPROCS", "CLUSTER", "DEFBIND", "SCOPE"} & set(shown)
    assert manager.run("ALTER QM(X) DEFTYPE(PERMDYN)").ok
    assert manager.run("ALTER QM(X) DEFTYPE(PREDEFINED)").code == "AMQ8425E"


def test_queues_of_all_kinds_are_shown_together(manager: Manager) -> None:
    manager.script("DEF QL(L) MAXDEPTH(7)\nDEF QA(A) TARGQ(L)\nDEF QR(R) RNAME(L)\nDEF QM(M)\nDEF PRO(P)")
    shown = manager.run("DIS Q(*) MAXDEPTH TARGQ").attributes
    assert shown == (
        {"QUEUE": "A", "TYPE": "QALIAS", "TARGET": "L"},
        {"QUEUE": "L", "TYPE": "QLOCAL", "MAXDEPTH": 7},
        {"QUEUE": "M", "TYPE": "QMODEL", "MAXDEPTH": 5000},
        {"QUEUE": "R", "TYPE": "QREMOTE"},
    )
    for condition in ("DIS Q(*) TYPE(QALIAS)", "DIS Q(*) WHERE(TARGQ EQ L)", "DIS QA(*)"):
        assert [each["QUEUE"] for each in manager.run(condition).attributes] == ["A"]
    assert [each["QUEUE"] for each in manager.run("DIS Q(*) WHERE(DEFTYPE EQ PREDEFINED)").attributes] == ["L"]
    assert manager.run("DIS QA(L)").code == "AMQ8147E"


def test_attributes_are_shown_in_the_table_s_order_whatever_the_command_s(manager: Manager) -> None:
    manager.run("DEF QL(A)")
    assert list(manager.run("DIS QL(A) USAGE GET DESCR").attributes[0]) == ["QUEUE", "TYPE", "DESCR", "GET", "USAGE"]


def test_quiet_attributes_are_printed_when_named_or_set(manager: Manager) -> None:
    manager.run("DEF QL(A)")
    assert "INDXTYPE" not in manager.run("DIS QL(A)").text
    assert "INDXTYPE(NONE)" in manager.run("DIS QL(A) INDXTYPE").text
    manager.run("ALTER QL(A) INDXTYPE(GROUPID) CAPEXPRY(100)")
    text = manager.run("DIS QL(A)").text
    assert "INDXTYPE(GROUPID)" in text
    assert "CAPEXPRY(100)" in text


def test_a_whole_process_is_shown(manager: Manager) -> None:
    manager.run("DEF PROCESS(P) APPLICID('prog') USERDATA(U)")
    assert manager.run("DIS PRO(P)").text.split("\n") == [
        "AMQ8407I: Display Process details.",
        "   PROCESS(P)                              ALTDATE(2026-03-04)",
        "   ALTTIME(12.30.15)                       APPLICID(prog)",
        "   APPLTYPE(TPF)                           DESCR( )",
        "   ENVRDATA( )                             USERDATA(U)",
    ]


def test_the_queue_manager_is_shown(manager: Manager) -> None:
    expected = "AMQ8408I: Display Queue Manager details.\n   QMNAME(QM1)                             TRIGINT(999999999)"
    assert manager.run("DIS QMGR TRIGINT").text == expected
    (shown,) = manager.run("DISPLAY QMGR").attributes
    assert (shown["QMNAME"], shown["PLATFORM"], shown["SYNCPT"], shown["MARKINT"]) == ("QM1", "UNIX", True, 5000)
    assert shown["QMID"] == "QM1_2026-03-04_12.30.15"
    assert manager.run("DIS QMGR ALL").text == manager.run("DIS QMGR").text


CONDITIONS = [
    ("CURDEPTH GT 0", ["DEV.2"]),
    ("CURDEPTH EQ 0", ["DEV.1", "PROD"]),
    ("CURDEPTH NE 3", ["DEV.1", "PROD"]),
    ("CURDEPTH LT 3", ["DEV.1", "PROD"]),
    ("CURDEPTH LE 3", ["DEV.1", "DEV.2", "PROD"]),
    ("CURDEPTH GE 3", ["DEV.2"]),
    ("TRIGDPTH GT 0", ["DEV.1", "DEV.2", "PROD"]),
    ("DESCR LK 'dev*'", ["DEV.1", "DEV.2"]),
    ("DESCR NL 'dev*'", ["PROD"]),
    ("DESCR LK 'dev two'", ["DEV.2"]),
    ("DESCR EQ 'dev one'", ["DEV.1"]),
    ("INITQ NE ' '", ["PROD"]),
    ("INITQ EQ init", ["PROD"]),
    ("PUT EQ disabled", ["DEV.1"]),
    ("PUT NE DISABLED", ["DEV.2", "PROD"]),
    ("TRIGGER EQ TRIGGER", ["PROD"]),
    ("TRIGGER EQ NOTRIGGER", ["DEV.1", "DEV.2"]),
    ("CAPEXPRY NE NOLIMIT", []),
]


@pytest.mark.parametrize(("condition", "names"), CONDITIONS)
def test_a_condition_selects(manager: Manager, condition: str, names: list[str]) -> None:
    manager.script(
        "DEF QL(DEV.1) DESCR('dev one') PUT(DISABLED)\nDEF QL(DEV.2) DESCR('dev two')\nDEF QL(PROD) INITQ(INIT) TRIGGER"
    )
    manager.live["DEV.2"] = {"CURDEPTH": 3}
    reply = manager.run(f"DIS QL(*) WHERE({condition})")
    assert [shown["QUEUE"] for shown in reply.attributes] == names
    assert reply.ok == bool(names)


def test_the_attribute_of_a_condition_is_shown(manager: Manager) -> None:
    manager.run("DEF QL(A)")
    manager.live["A"] = {"CURDEPTH": 3}
    shown = manager.run("DIS QL(*) WHERE(CURDEPTH GT 0)").text.split("\n")[1:]
    assert shown == ["   QUEUE(A)                                TYPE(QLOCAL)", "   CURDEPTH(3)"]


@pytest.mark.parametrize("condition", ["PUT GT DISABLED", "CURDEPTH LK 3", "DESCR CT x", "PUT EQ 0", "SHARE EQ YES"])
def test_a_condition_that_its_attribute_cannot_meet_is_refused(manager: Manager, condition: str) -> None:
    assert manager.run(f"DIS QL(*) WHERE({condition})").code == "AMQ8425E"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("DIS QL(A*)", "A*"),
        ("DIS QL(*)", "*"),
        ("DIS QL(B) TYPE(QALIAS)", "B"),
        ("DIS Q(B) TYPE(QREMOTE)", "B"),
        ("DIS PROCESS(B)", "B"),
        ("DIS QL(B) WHERE(CURDEPTH GT 5)", "B"),
    ],
)
def test_a_display_that_finds_nothing_says_so(manager: Manager, text: str, name: str) -> None:
    manager.run("DEF QL(B)") if name == "B" else None
    reply = manager.run(text)
    assert (reply.text, reply.ok) == (f"AMQ8147E: IBM MQ object {name} not found.", False)
