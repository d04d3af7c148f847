"""Lines to commands: continuations, comments, blank lines, semicolons and END (L8 to L13)."""

from __future__ import annotations

import pytest

from broker.commands.language.script import ScriptReader, commands_of, located

SCRIPTS = [
    ("L8 each line is a command", "DEF QL(A)\nDEF QL(B)\n", ["DEF QL(A)", "DEF QL(B)"]),
    ("L8 plus skips blanks of the next line", "def ql(q1) descr('a+\n   b')", ["def ql(q1) descr('ab')"]),
    ("L8 minus goes on in column 1", "def ql(q1) descr('a-\n b')", ["def ql(q1) descr('a b')"]),
    ("L8 plus inside a word", "DEF Q+\n  L(A)", ["DEF QL(A)"]),
    ("L8 blanks may follow the plus", "DEF QL(A) + \t\nREPLACE", ["DEF QL(A) REPLACE"]),
    ("L8 both marks in one string", "D('Fr-\ned+\n  dy')", ["D('Freddy')"]),
    ("L9 plus inserts no blank", "DEF QL(A)+\nREPLACE", ["DEF QL(A)REPLACE"]),
    ("L10 comments and blank lines", "* one\n\n  * two\nDEF QL(A)\n", ["DEF QL(A)"]),
    ("L10 between the parts", "DEF QL(A) +\n* note\n\n  * more\nMAXDEPTH(1)", ["DEF QL(A) MAXDEPTH(1)"]),
    ("L10 an asterisk within a string", "D('a-\n * b')", ["D('a * b')"]),
    ("L11 long lines", "DEF QL(A) DESCR('" + "x" * 5000 + "')", ["DEF QL(A) DESCR('" + "x" * 5000 + "')"]),
    ("L12 semicolon after plus", "DEF QL(A) +\n;", ["DEF QL(A)"]),
    ("L12 semicolon at the end", "DEF QL(A);\nDEF QL(B) ; ", ["DEF QL(A)", "DEF QL(B)"]),
    ("L12 semicolons part commands", "DEF QL(A);DEF QL(B)", ["DEF QL(A)", "DEF QL(B)"]),
    ("L12 not within strings", "D('a;b') X(\"c;\")", ["D('a;b') X(\"c;\")"]),
    ("L12 doubled quotes do not matter", "D('don''t;') ; E", ["D('don''t;')", "E"]),
    ("L13 END", "DEF QL(A)\n end \nDEF QL(B)", ["DEF QL(A)"]),
    ("L13 EXIT", "exit\nDEF QL(B)", []),
    ("L13 QUIT with a semicolon", "DEF QL(A);quit;DEF QL(B)\nDEF QL(C)", ["DEF QL(A)"]),
    ("L13 end of file completes", "DEF QL(A) +\n", ["DEF QL(A)"]),
    ("L13 END within a command is text", "DEF QL(A) +\nEND\n", ["DEF QL(A) END"]),
    ("L15 tabs are blanks", "\tDEF QL(A)\t+\t\n\tREPLACE\t\n", ["DEF QL(A)\tREPLACE"]),
    ("lines may end in CR LF", "DEF QL(A) +\r\n REPLACE\r\n\r\nEND\r\n", ["DEF QL(A) REPLACE"]),
    ("an open string ends with its line", "D('a\nDEF QL(B);DEF QL(C)", ["D('a", "DEF QL(B)", "DEF QL(C)"]),
    ("nothing", "", []),
    ("only marks", "+\n-\n;\n;;", []),
    ("ZMQSC like MQSC", "ZMQSC DEF QL-A +\n PUT-ENABLED", ["ZMQSC DEF QL-A PUT-ENABLED"]),
]


@pytest.mark.parametrize(("script", "commands"), [row[1:] for row in SCRIPTS], ids=[row[0] for row in SCRIPTS])
def test_a_script_is_parted_into_commands(script: str, commands: list[str]) -> None:
    assert commands_of(script) == commands


def test_a_reader_tells_whether_a_command_goes_on() -> None:
    reader = ScriptReader()
    lines = ["DEF QL(A) +", "* note", "REPLACE", "DEF QL(B)"]
    assert [(reader.feed(line), reader.pending) for line in lines] == [
        ([], True),
        ([], True),
        (["DEF QL(A) REPLACE"], False),
        (["DEF QL(B)"], False),
    ]


def test_a_reader_ignores_what_follows_the_end() -> None:
    reader = ScriptReader()
    lines = ["DEF QL(A)", "END", "DEF QL(B)"]
    assert [(reader.feed(line), reader.ended) for line in lines] == [(["DEF QL(A)"], False), ([], True), ([], True)]
    assert reader.finish() == []


@pytest.mark.parametrize(("script", "commands"), [row[1:] for row in SCRIPTS], ids=[row[0] for row in SCRIPTS])
def test_located_commands_are_the_commands(script: str, commands: list[str]) -> None:
    assert [command for _, command in located(script)] == commands


def test_a_command_is_located_where_it_begins() -> None:
    script = "* note\nA\n\nB +\n* note\n  more\nC; D; E +\nmore; F\nG -\n"
    assert located(script) == [(2, "A"), (4, "B more"), (7, "C"), (7, "D"), (7, "E more"), (8, "F"), (9, "G")]
