"""A whole session, character by character."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.commands.language.session import NO_SUCH_QUEUE_MANAGER, QUEUE_MANAGER_NOT_AVAILABLE, ScriptSession

if TYPE_CHECKING:
    from tests.commands.catalog import Manager


def play(manager: Manager, script: str, *, echo: bool = True) -> tuple[str, int]:
    """Return the output of a session with this input, and its exit code."""
    session = ScriptSession("QM1", "0.1.0", echo=echo)
    output = session.header()
    for line in script.splitlines(keepends=True):
        if session.ended:
            break
        text, commands = session.feed(line)
        output += text + "".join(session.reply(manager.run(command)) for command in commands)
    output += "".join(session.reply(manager.run(command)) for command in session.finish())
    return output + session.summary(), session.exit_code


def test_a_session_looks_like_runmqsc(manager: Manager) -> None:
    script = "* queues\nDEFINE QLOCAL(Q1) +\n\nREPLACE\n\ndis ql(nosuch)\nend\nDEF QL(NEVER)\n"
    output, exit_code = play(manager, script)
    assert output == (
        "EverMQ 0.1.0\n"
        "Starting MQSC for queue manager QM1.\n"
        "\n"
        "\n"
        "       : * queues\n"
        "     1 : DEFINE QLOCAL(Q1) +\n"
        "       : \n"
        "       : REPLACE\n"
        "AMQ8006I: IBM MQ queue created.\n"
        "       : \n"
        "     2 : dis ql(nosuch)\n"
        "AMQ8147E: IBM MQ object NOSUCH not found.\n"
        "     3 : end\n"
        "2 MQSC commands read.\n"
        "No commands have a syntax error.\n"
        "One valid MQSC command could not be processed.\n"
    )
    assert exit_code == 10


NOTHING_READ = [
    "No MQSC commands read.",
    "No commands have a syntax error.",
    "All valid MQSC commands were processed.",
]
SUMMARIES = [
    ("DEF QL(A)\nDEF BOGUS(B)\nDEF QL(C)\nend\n", ["3 MQSC commands read.", "One command has a syntax error.",
     "All valid MQSC commands were processed."], 10),
    ("DIS QL(NOSUCH)", ["One MQSC command read.", "No commands have a syntax error.",
     "One valid MQSC command could not be processed."], 10),
    ("", NOTHING_READ, 0),
    ("end", NOTHING_READ, 0),
    ("X\nY\nDEL QL(A)\nDEL QL(A)\n", ["4 MQSC commands read.", "2 commands have a syntax error.",
     "2 valid MQSC commands could not be processed."], 10),
    ("DEF QL(A) +", ["One MQSC command read.", "No commands have a syntax error.",
     "All valid MQSC commands were processed."], 0),
]  # fmt: skip


@pytest.mark.parametrize(("script", "summary", "exit_code"), SUMMARIES)
def test_a_session_ends_with_its_summary(manager: Manager, script: str, summary: list[str], exit_code: int) -> None:
    output, code = play(manager, script)
    assert output.splitlines()[-3:] == summary
    assert code == exit_code


def test_without_echo_only_replies_are_printed(manager: Manager) -> None:
    output, _ = play(manager, "* note\n\nDEF QL(A) +\nREPLACE\n", echo=False)
    assert output.splitlines()[4:] == [
        "AMQ8006I: IBM MQ queue created.",
        "One MQSC command read.",
        "No commands have a syntax error.",
        "All valid MQSC commands were processed.",
    ]


def test_commands_parted_by_semicolons_share_a_line(manager: Manager) -> None:
    output, _ = play(manager, "DEF QL(A); DEF QL(B)\nDEF QL(C)\n")
    assert output.splitlines()[4:8] == [
        "     1 : DEF QL(A); DEF QL(B)",
        "AMQ8006I: IBM MQ queue created.",
        "AMQ8006I: IBM MQ queue created.",
        "     3 : DEF QL(C)",
    ]


def test_an_interactive_session_knows_when_a_command_goes_on() -> None:
    session = ScriptSession("QM1", "0.1.0", echo=False)
    assert session.feed("DEF QL(A) +\n") == ("", [])
    assert session.pending
    assert session.feed("REPLACE\n") == ("", ["DEF QL(A) REPLACE"])
    assert not session.pending


def test_a_session_that_reaches_no_queue_manager_exits_with_20() -> None:
    unknown = ScriptSession("QM1", "0.1.0")
    assert unknown.not_run(NO_SUCH_QUEUE_MANAGER) == "AMQ8118E: IBM MQ queue manager does not exist.\n"
    assert unknown.exit_code == 20
    stopped = ScriptSession("QM1", "0.1.0")
    assert stopped.not_run(QUEUE_MANAGER_NOT_AVAILABLE).splitlines()[:2] == [
        "AMQ8146E: IBM MQ queue manager not available.",
        "No MQSC commands read.",
    ]
    assert stopped.exit_code == 20


def test_a_session_warns_of_an_attribute_once(manager: Manager) -> None:
    script = "DEFINE QLOCAL(A) STATQ(ON)\nDEFINE QLOCAL(B) STATQ(ON) ACCTQ(ON)\nDEFINE QLOCAL(C) ACCTQ(ON)\n"
    output, exit_code = play(manager, script, echo=False)
    assert output.split("\n")[4:9] == [
        "AMQ8006I: IBM MQ queue created.",
        "EMQ0002W: STATQ is kept and shown, but EverMQ does not act on it.",
        "AMQ8006I: IBM MQ queue created.",
        "EMQ0002W: ACCTQ is kept and shown, but EverMQ does not act on it.",
        "AMQ8006I: IBM MQ queue created.",
    ]
    assert exit_code == 0
