"""No text can crash the interpreter, and what it shows can be read again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.commands.language.script import commands_of
from broker.commands.language.session import ScriptSession
from broker.commands.table.attributes import TABLE
from tests.commands.catalog import Manager

WORDS = [
    "DEFINE", "ALT", "DIS", "DELETE", "CLEAR", "QL", "Q", "PROCESS", "QMGR", "ZMQSC", "DEF", "PROCESS-P", "QL-A", "QL-",
    "LIKE", "WHERE", "ALL", "REPLACE", "FORCE", "PURGE", "COMMON-YES", "MAXDEPTH-0", "EQ", "GT", "LK", "A", "*", "A*",
    "(", ")", "(A)", "(1)", "(-1)", "('", "'", "''", '"', "-", "+", ";", ",", "\n", "\t", "\0", "é", "²", "END",
    "RESOLVE", "RESET", "CONSUMER", "INDOUBT", "SINK", "QS", "TYPE(CLAIM)", "THREAD", "ACTION(COMMIT)",
    "99999999999", *TABLE["QLOCAL"], *TABLE["QMGR"],
]  # fmt: skip
SCRIPTS = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=25).map("".join),
    st.lists(st.sampled_from(WORDS), max_size=12).map(lambda words: "DEF QL(A) " + " ".join(words)),
    st.lists(st.sampled_from(WORDS), max_size=12).map(lambda words: "ZMQSC ALTER QL-A " + " ".join(words)),
    st.lists(st.sampled_from(WORDS), max_size=8).map(lambda words: f"DIS QL(*) WHERE({' '.join(words)})"),
)


@given(SCRIPTS)
def test_any_text_has_an_answer(script: str) -> None:
    manager = Manager()
    manager.run("DEF QL(A)")
    session = ScriptSession("QM1", "0")
    commands = [command for line in script.split("\n") for command in session.feed(line).commands] + session.finish()
    assert commands == commands_of(script)
    for command in [*commands, script]:
        reply = manager.run(command)
        assert reply.text.startswith(f"{reply.code}: ")
        assert reply.ok == (reply.code[-1] == "I" and reply.code != "AMQ8405I")


@given(st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), max_size=64))
def test_any_description_comes_back_as_it_was_given(text: str) -> None:
    manager = Manager()
    doubled = text.replace("'", "''")
    assert manager.script(f"DEF QL(A) DESCR('{doubled}')") in (["AMQ8006I"], ["AMQ8405I"])
    if not text.rstrip().endswith(("+", "-")):
        assert manager.run("DIS QL(A) DESCR").attributes[0]["DESCR"] == text.rstrip(" ")


@given(SCRIPTS)
def test_a_command_sent_on_its_own_is_still_one_command(script: str) -> None:
    for command in commands_of(script):
        assert len(commands_of(command)) <= 1
