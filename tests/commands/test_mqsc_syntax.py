"""The words of a command, in any order and case (L1 to L7, L14), and what is answered to those that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.commands.catalog import Manager

VALID = [
    ("L1 keywords in any order", "DEFINE QLOCAL(Q1) MAXDEPTH(3) REPLACE DESCR(X)", {"MAXDEPTH": 3, "DESCR": "X"}),
    ("L2 blanks anywhere", "DEFINE QLOCAL ( Q1 )   TRIGDPTH  (  2 ) ", {"TRIGDPTH": 2}),
    ("L2 commas are blanks", "DEF QL(Q1),MAXDEPTH,(,10,),,PUT(DISABLED),", {"MAXDEPTH": 10, "PUT": 1}),
    ("L3 words in any case", "Def Ql(q1) MaxDepth(4) Get(disAbled)", {"MAXDEPTH": 4, "GET": 1}),
    ("L4 unquoted text folds", "DEF QL(Q1) DESCR(abc)", {"DESCR": "ABC"}),
    ("L4 quoted text keeps case", "DEF QL(Q1) DESCR('aBc, d')", {"DESCR": "aBc, d"}),
    ("L5 characters without quotes", "DEF QL(Q1) PROCESS(a.b/c_d%9)", {"PROCESS": "A.B/C_D%9"}),
    ("L5 double quotes", 'DEF QL(Q1) DESCR("it\'s")', {"DESCR": "it's"}),
    ("L6 doubled quote", "DEF QL(Q1) DESCR('don''t')", {"DESCR": "don't"}),
    ("L6 only quotes", "DEF QL(Q1) DESCR('''')", {"DESCR": "'"}),
    ("L6 doubled double quote", 'DEF QL(Q1) DESCR("a""b")', {"DESCR": 'a"b'}),
    ("L7 an empty string clears", "DEF QL(Q1) DESCR('') INITQ(' ')", {"DESCR": "", "INITQ": ""}),
    ("flags", "DEF QL(Q1) TRIGGER NOSHARE NOHARDENBO", {"TRIGGER": 1, "SHARE": 0, "HARDENBO": 0}),
    ("blanks at the end of a text do not count", "DEF QL(Q1) DESCR(' x  ')", {"DESCR": " x"}),
]


@pytest.mark.parametrize(("text", "given"), [row[1:] for row in VALID], ids=[row[0] for row in VALID])
def test_a_command_is_understood(manager: Manager, text: str, given: dict[str, int | str]) -> None:
    assert manager.run(text).code == "AMQ8006I"
    assert {keyword: manager.queue("Q1")[keyword] for keyword in given} == given


def test_quoted_and_unquoted_names_are_different_objects(manager: Manager) -> None:
    assert manager.script("DEFINE QLOCAL(q1)\nDEFINE QLOCAL('q1')") == ["AMQ8006I", "AMQ8006I"]
    assert manager.names("QUEUE") == ["Q1", "q1"]


INVALID = [
    ("AMQ8405I", "L2 no blank before a keyword", "DEF QL(Q1)REPLACE", "DEF QL(Q1)REPLACE"),
    ("AMQ8405I", "L2 no blank after a string", "DEF QL('Q1')REPLACE", "DEF QL('Q1')REPLACE"),
    ("AMQ8405I", "L5 needs quotes", "DEF QL(Q1) DESCR(a&b) PUT(ENABLED)", "DEF QL(Q1) DESCR(a&"),
    ("AMQ8405I", "L5 two words need quotes", "DEF QL(Q1) DESCR(a b)", "DEF QL(Q1) DESCR(a b)"),
    ("AMQ8405I", "L6 open string", "DEF QL(Q1) DESCR('a", "DEF QL(Q1) DESCR('"),
    ("AMQ8405I", "L7 empty parentheses", "DEF QL(Q1) DESCR() PUT(ENABLED)", "DEF QL(Q1) DESCR()"),
    ("AMQ8405I", "L7 empty name", "define ql( )", "define ql( )"),
    ("AMQ8424E", "L7 blank name", "def ql('')", None),
    ("AMQ8424E", "blank name", "def ql('  ')", None),
    ("AMQ8421E", "no name", "def ql", None),
    ("AMQ8405I", "two names", "DEF QL(A B)", "DEF QL(A B)"),
    ("AMQ8424E", "49 characters", f"DEF QL({'A' * 49})", None),
    ("AMQ8424E", "blank inside a name", "DEF QL('A B')", None),
    ("AMQ8424E", "asterisk in a new name", "DEF QL(A*)", None),
    ("AMQ8424E", "two asterisks", "DIS QL(A**)", None),
    ("AMQ8424E", "leading asterisk", "DIS QL(*A)", None),
    ("AMQ8424E", "inner asterisk", "DIS QL(A*B)", None),
    ("AMQ8424E", "name attribute", "DEF QL(Q1) INITQ('no name')", None),
    ("AMQ8411E", "L14", "DEF QL(Q1) MAXDEPTH(1) MAXDEPTH(2)", None),
    ("AMQ8411E", "L14 flag and opposite", "DEF QL(Q1) TRIGGER NOTRIGGER", None),
    ("AMQ8411E", "L14 option", "DEF QL(Q1) REPLACE NOREPLACE", None),
    ("AMQ8411E", "L14 two conditions", "DIS QL(*) WHERE(PUT EQ ENABLED) WHERE(GET EQ ENABLED)", None),
    ("AMQ8412E", "range", "DEF QL(Q1) MAXDEPTH(1000000000)", None),
    ("AMQ8412E", "negative", "DEF QL(Q1) MAXDEPTH(-1)", None),
    ("AMQ8412E", "thousands of digits", f"DEF QL(Q1) MAXDEPTH({'9' * 5000})", None),
    ("AMQ8413E", "string length", f"DEF QL(Q1) DESCR('{'x' * 65}')", None),
    ("AMQ8425E", "word", "DEF QL(Q1) PUT(MAYBE)", None),
    ("AMQ8425E", "not a number", "DEF QL(Q1) MAXDEPTH(MANY)", None),
    ("AMQ8425E", "null character", "DEF QL(Q1) DESCR('a\0b')", None),
    ("AMQ8405I", "value for a flag", "DEF QL(Q1) TRIGGER(YES)", "DEF QL(Q1) TRIGGER(YES)"),
    ("AMQ8405I", "value for an option", "DEF QL(Q1) REPLACE(YES)", "DEF QL(Q1) REPLACE(YES)"),
    ("AMQ8405I", "no value", "DEF QL(Q1) MAXDEPTH PUT(ENABLED)", "DEF QL(Q1) MAXDEPTH"),
    ("AMQ8405I", "unknown keyword", "DEF QL(Q1) MAXDPTH(1) PUT(ENABLED)", "DEF QL(Q1) MAXDPTH(1)"),
    ("AMQ8405I", "shortened keyword", "DEF QL(Q1) MAXD(1)", "DEF QL(Q1) MAXD(1)"),
    ("AMQ8405I", "NO before what is no flag", "DEF QL(Q1) NOMAXDEPTH", "DEF QL(Q1) NOMAXDEPTH"),
    ("AMQ8405I", "read-only attribute", "DEF QL(Q1) CURDEPTH(3)", "DEF QL(Q1) CURDEPTH(3)"),
    ("AMQ8405I", "option of another verb", "ALTER QL(Q1) REPLACE", "ALTER QL(Q1) REPLACE"),
    ("AMQ8405I", "attribute with DELETE", "DELETE QL(Q1) MAXDEPTH(3)", "DELETE QL(Q1) MAXDEPTH(3)"),
    ("AMQ8405I", "name for the queue manager", "DIS QMGR(QM1)", "DIS QMGR(QM1)"),
    ("AMQ8405I", "unknown attribute", "DIS QMGR LOGTYPE", "DIS QMGR LOGTYPE"),
    ("AMQ8405I", "condition on the queue manager", "DIS QMGR WHERE(CCSID EQ 1)", "DIS QMGR WHERE(CCSID EQ 1)"),
    ("AMQ8405I", "condition without an operand", "DIS QL(*) WHERE(PUT EQ)", "DIS QL(*) WHERE(PUT EQ)"),
    ("AMQ8405I", "condition on TYPE", "DIS QL(*) WHERE(TYPE EQ QLOCAL)", "DIS QL(*) WHERE(TYPE EQ QLOCAL)"),
    ("AMQ8405I", "unknown operator", "DIS QL(*) WHERE(PUT IS ENABLED)", "DIS QL(*) WHERE(PUT IS ENABLED)"),
    ("AMQ8405I", "L16 no continuation inside", "DEF QL(A) + REPLACE", "DEF QL(A) +"),
    ("AMQ8405I", "attribute of another kind", "DEF QA(A) MAXDEPTH(1)", "DEF QA(A) MAXDEPTH(1)"),
    ("AMQ8405I", "FORCE where nothing is open", "ALTER QM(M) FORCE", "ALTER QM(M) FORCE"),
    ("AMQ8411E", "two words for one attribute", "DEF QA(A) TARGET(Q) TARGQ(Q)", None),
    ("AMQ8405I", "noun for another verb", "CLEAR PROCESS(P)", "CLEAR PROCESS(P)"),
    ("AMQ8405I", "no noun", "DEFINE", "DEFINE"),
    ("AMQ8405I", "unknown verb", "DEFINIERE QL(A)", "DEFINIERE"),
    ("AMQ8405I", "not a word", "4711 QL(A)", "4711"),
    ("AMQ8405I", "nothing", "", ""),
]


@pytest.mark.parametrize(
    ("code", "text", "segment"), [(code, *rest) for code, _, *rest in INVALID], ids=[row[1] for row in INVALID]
)
def test_a_command_that_does_not_fit_is_refused(manager: Manager, code: str, text: str, segment: str | None) -> None:
    reply = manager.run(text)
    assert (reply.code, reply.ok, reply.syntax_error, reply.attributes) == (code, False, True, ())
    assert reply.text.startswith(f"{code}: ")
    assert manager.changes == []
    if segment is not None:
        first, shown, blank, *advice = reply.text.split("\n")
        assert first == "AMQ8405I: Syntax error detected at or near end of command segment below:-"
        assert (shown, blank) == (segment, "")
        assert advice


def test_an_unknown_verb_is_answered_with_the_verbs(manager: Manager) -> None:
    assert manager.run("FROB QL(A)").text.split("\n")[3:] == [
        "AMQ8426I: Valid MQSC commands are:",
        "    ALTER",
        "    BACKUP",
        "    CLEAR",
        "    DEFINE",
        "    DELETE",
        "    DISPLAY",
        "    MOVE",
        "    RECOVER",
        "    REFRESH",
        "    RESET",
        "    RESOLVE",
        "    SET",
        "    START",
        "    STOP",
    ]


DISPOSITION = "[QSGDISP(QMGR | COPY | SHARED | GROUP)]"


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ("CLEAR QL(A) X", "CLEAR QLOCAL(name) [QSGDISP(PRIVATE | SHARED)]"),
        (
            "DEFINE 4711(A)",
            "DEFINE QLOCAL | QALIAS | QREMOTE | QMODEL | PROCESS | CFSTRUCT | USER | AUTHINFO | CHANNEL",
        ),
        (
            "DELETE QALIAS(A) PURGE",
            f"DELETE QALIAS(name) [AUTHREC(NO | YES)] [IGNSTATE(NO | YES)] {DISPOSITION}",
        ),
        ("DELETE PROCESS(A) X", f"DELETE PROCESS(name) [AUTHREC(NO | YES)] [IGNSTATE(NO | YES)] {DISPOSITION}"),
        (
            "DEF PRO(P) X",
            f"DEFINE PROCESS(name) [LIKE(name)] [REPLACE] [NOREPLACE] {DISPOSITION} [APPLICID( )] [APPLTYPE( )] "
            "[DESCR( )] [ENVRDATA( )] [USERDATA( )]",
        ),
    ],
)
def test_a_syntax_error_is_answered_with_the_valid_syntax(manager: Manager, text: str, usage: str) -> None:
    advice = ["AMQ8427I: Valid syntax for the MQSC command:", f"    {usage}"]
    assert manager.run(text).text.split("\n")[3:] == advice


NOT_SUPPORTED = [
    ("DIS CHS(*)", "DISPLAY CHSTATUS"),
    ("DISPLAY QSTATUS(Q) TYPE(QUEUE) ALL", "DISPLAY QSTATUS TYPE(QUEUE)"),
    ("DIS QS(Q) CURDEPTH", "DISPLAY QSTATUS TYPE(QUEUE)"),
    ("DISPLAY THREAD(*) TYPE(REGIONS)", "DISPLAY THREAD TYPE(REGIONS)"),
    ("DISPLAY THREAD(*)", "DISPLAY THREAD TYPE(ACTIVE)"),
    ("RESOLVE CHANNEL(C) ACTION(COMMIT)", "RESOLVE CHANNEL"),
    ("RES CHL(C) ACTION(COMMIT)", "RESOLVE CHANNEL"),
    ("RESET CHANNEL(C) SEQNUM(1)", "RESET CHANNEL"),
    ("DIS CONN(*) TYPE(CONN) WHERE(EXTCONN EQ '00')", "DISPLAY CONN"),
    ("DISPLAY QMSTATUS", "DISPLAY QMSTATUS"),
    ("ALTER LISTENER(L) TRPTYPE(TCP) PORT(1415)", "ALTER LISTENER"),
    ("DELETE NAMELIST(N)", "DELETE NAMELIST"),
    ("CLEAR TOPICSTR('a/b') CLRTYPE(RETAINED)", "CLEAR TOPICSTR"),
    ("SET POLICY(P) SIGNALG(SHA256)", "SET POLICY"),
    ("REFRESH QMGR TYPE(CONFIGEV)", "REFRESH QMGR"),
    ("START LISTENER(L)", "START LISTENER"),
    ("DISPLAY SECURITY", "DISPLAY SECURITY"),
    ("STOP CONN(414D5143)", "STOP CONN"),
    ("PING QMGR", "PING QMGR"),
    ("RESET QMGR TYPE(STATISTICS)", "RESET QMGR"),
    ("SUSPEND", "SUSPEND"),
    ("DEFINE CFSTRUCT(S) OFFLOAD(SMDS)", "OFFLOAD"),
    ("ALTER QMGR TCPKEEP(YES)", "TCPKEEP"),
    ("DISPLAY QUEUE(*) CLUSINFO", "CLUSINFO"),
]


@pytest.mark.parametrize(("text", "what"), NOT_SUPPORTED)
def test_what_ibm_mq_knows_is_no_syntax_error(manager: Manager, text: str, what: str) -> None:
    reply = manager.run(text)
    assert (reply.code, reply.ok, reply.syntax_error) == ("EMQ0001E", False, False)
    assert reply.text == f"EMQ0001E: {what} is not supported by EverMQ."


HINTS = [
    ("DEFIN QLOCAL(A)", "DEFIN: did you mean DEFINE?"),
    ("DEFINE QLOCL(A)", "QLOCL: did you mean QLOCAL?"),
    ("DEFINE CHANEL(A)", "CHANEL: did you mean CHANNEL?"),
    ("DEFINE QLOCAL(A) MAXDEPHT(5)", "MAXDEPHT: did you mean MAXDEPTH?"),
    ("DEFINE QLOCAL(A) NOTRIGER", "NOTRIGER: did you mean NOTRIGGER?"),
    ("DEFINE QLOCAL(A) RPLACE", "RPLACE: did you mean REPLACE?"),
    ("ALTER QMGR DEDQ(A)", "DEDQ: did you mean DEADQ?"),
    ("DELETE QLOCAL(A) PURG", "PURG: did you mean PURGE?"),
    ("DISPLAY QUEUE(*) CURDEPHT", "CURDEPHT: did you mean CURDEPTH?"),
    ("DISPLAY QUEUE(*) WHERE(CURDEPHT GT 0)", "CURDEPHT: did you mean CURDEPTH?"),
    ("ALTER QLOCAL(A) CURDEPTH(5)", "CURDEPTH cannot be given here."),
    ("ALTER QMGR QMID(X)", "QMID cannot be given here."),
    ("DEFINE QALIAS(A) MAXDEPTH(5)", "MAXDEPTH is an attribute of QLOCAL, QMODEL and cannot be given here."),
    ("DELETE QLOCAL(A) NOTRIGGER", "NOTRIGGER is an attribute of QLOCAL, QMODEL and cannot be given here."),
    ("ZMQSC DEFINE QL-A MAXDEPHT-5", "MAXDEPHT: did you mean MAXDEPTH?"),
    ("ZMQSC DEFINN QL-A", "DEFINN: did you mean DEFINE?"),
    ("ZMQSC DEFINE PROCES-A", "PROCES: did you mean PROCESS?"),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_a_mistyped_word_is_answered_with_the_nearest_right_one(manager: Manager, text: str, hint: str) -> None:
    reply = manager.run(text)
    assert (reply.code, reply.syntax_error) == ("AMQ8405I", True)
    assert reply.text.split("\n")[3] == hint


@pytest.mark.parametrize("text", ["X QL(A)", "FROBNICATE QL(A)", f"{'DEFINE' * 9} QL(A)", "DEFINE QLOCAL(A) X(1)"])
def test_a_word_like_no_other_is_answered_without_a_guess(manager: Manager, text: str) -> None:
    assert manager.run(text).text.split("\n")[3].startswith("AMQ842")


def test_a_command_of_absurd_length_is_refused_with_its_end_only(manager: Manager) -> None:
    reply = manager.run("DEF QL(A) " + "X(1) " * 100_000)
    assert reply.syntax_error
    assert len(reply.text) < 3000
