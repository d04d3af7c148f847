"""ZMQSC, TPF's command language, with the two commands S-25 and S-26 as they were published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.commands.catalog import Manager

S_25 = "ZMQSC DEF PROCESS-MYPROCESS APPLICID-appl ENVRDATA-MYENVR USERDATA-TESTING"
S_26 = "ZMQSC ALTER QL-TESTQ PROCESS-MYPROCESS TRIGGER TRIGTYPE-EVERY TRIGDATA-THISISTRIGGER"


def test_s_25_defines_a_process(manager: Manager) -> None:
    assert manager.run(S_25).text == "AMQ8010I: IBM MQ process created."
    process = manager.process("MYPROCESS")
    assert (process["APPLTYPE"], process["APPLICID"]) == (23, "APPL")
    assert (process["ENVRDATA"], process["USERDATA"]) == ("MYENVR", "TESTING")


def test_s_26_triggers_a_queue(manager: Manager) -> None:
    manager.script(f"ZMQSC DEF QL-TESTQ\n{S_25}")
    assert manager.run(S_26).text == "AMQ8008I: IBM MQ queue changed."
    assert manager.run("DIS QL(TESTQ) TRIGGER TRIGTYPE PROCESS TRIGDATA").attributes == (
        {"QUEUE": "TESTQ", "TYPE": "QLOCAL", "TRIGGER": True, "PROCESS": "MYPROCESS", "TRIGDATA": "THISISTRIGGER",
         "TRIGTYPE": "EVERY"},
    )  # fmt: skip


VALID = [
    ("zmqsc define ql-q", {}),
    ("ZMQSC DEF QL-Q MAXMSGL-100 PUT-DISABLED GET-DISABLED", {"MAXMSGL": 100, "PUT": 1, "GET": 1}),
    ("ZMQSC DEFI QL-Q DEFPSIST-YES USAGE-XMITQ QDEPTHHI-0", {"DEFPSIST": 1, "USAGE": 1, "QDEPTHHI": 0}),
    ("ZMQSC DEF QL-Q COMMON-NO MAXDEPTH-7", {"MAXDEPTH": 7}),
    ("ZMQSC DEF QL-Q DEFPSIST-YES MAXDEPTH-0", {"MAXDEPTH": 999999999}),
    ("ZMQSC DEF QL-'Q'", {}),
    ("ZMQSC DEF QL-Q TRIGGER TRIGTYPE-FIRST", {"TRIGGER": 1, "TRIGTYPE": 1}),
    ("ZMQSC DEF QL-Q NOTRIGGER TRIGTYPE-EVERY", {"TRIGGER": 0, "TRIGTYPE": 2}),
    ("ZMQSC DEF QL-Q TRIGDATA-a-b-c", {"TRIGDATA": "A-B-C"}),
    ("ZMQSC DEF QL-Q TRIGDATA-'don''t - do'", {"TRIGDATA": "don't - do"}),
    ("ZMQSC DEF QL-Q TRIGDATA-''", {"TRIGDATA": ""}),
]


@pytest.mark.parametrize(("text", "given"), VALID)
def test_keywords_and_values_are_joined_by_hyphens(manager: Manager, text: str, given: dict[str, int | str]) -> None:
    assert manager.run(text).code == "AMQ8006I"
    assert {keyword: manager.queue("Q")[keyword] for keyword in given} == given


INVALID = [
    ("ZMQSC DEF PROCESS-P APPLICID-ABCDE", "AMQ8413E"),
    ("ZMQSC DEF PROCESS-P APPLICID-'abcde'", "AMQ8413E"),
    ("ZMQSC DEF PROCESS-P DESCR-X", "AMQ8405I"),
    ("ZMQSC DEF QL-ALL", "AMQ8424E"),
    ("ZMQSC DEF QL-all", "AMQ8424E"),
    ("ZMQSC DELETE QL-ALL", "AMQ8424E"),
    ("ZMQSC ALT QL-Q COMMON-YES", "AMQ8405I"),
    ("ZMQSC ALT QL-Q USAGE-XMITQ", "AMQ8405I"),
    ("ZMQSC DEF QL-R COMMON-MAYBE", "AMQ8425E"),
    ("ZMQSC DEF QL-R COMMON", "AMQ8425E"),
    ("ZMQSC DEF QL-R COMMON-NO COMMON-NO", "AMQ8411E"),
    ("ZMQSC DEF QL-R TRIGGER TRIGTYPE-EVERY", "AMQ8425E"),
    ("ZMQSC ALT QL-Q TRIGGER TRIGTYPE-EVERY", "AMQ8425E"),
    ("ZMQSC DEF QL-R TRIGTYPE-DEPTH", "AMQ8425E"),
    ("ZMQSC DEF QL-R MAXDEPTH-1000000000", "AMQ8412E"),
    ("ZMQSC DEF QL-R MAXDEPTH--1", "AMQ8412E"),
    ("ZMQSC DEF QL-R MAXDEPTH", "AMQ8405I"),
    ("ZMQSC DEF QL-R TRIGGER-YES", "AMQ8405I"),
    ("ZMQSC DEF QL-R SWEEP-YES", "EMQ0001E"),
    ("ZMQSC DEF QL-R MAXDEPTH(3)", "AMQ8405I"),
    ("ZMQSC DEF QL-R MAXDEPTH- 3", "AMQ8405I"),
    ("ZMQSC DEF QL-R MAXDEPTH -3", "AMQ8405I"),
    ("ZMQSC DEF QL-R, PUT-ENABLED", "AMQ8424E"),
    ("ZMQSC DEF QL-R TRIGDATA-'a", "AMQ8405I"),
    ("ZMQSC DEF QL-R TRIGDATA-'a'b", "AMQ8405I"),
    ("ZMQSC DEF QL-A*", "AMQ8424E"),
    ("ZMQSC DEF QL", "AMQ8421E"),
    ("ZMQSC DEF QL-Q", "AMQ8150E"),
    ("ZMQSC DEL QL-R", "AMQ8147E"),
    ("ZMQSC DE QL-R", "AMQ8405I"),
    ("ZMQSC RES QL-R", "AMQ8405I"),
    ("ZMQSC ALTERED QL-R", "AMQ8405I"),
    ("ZMQSC CLEAR QL-Q", "AMQ8405I"),
    ("ZMQSC DEF QLOCAL-R", "AMQ8405I"),
    ("ZMQSC DISP QMGR-QM1", "AMQ8405I"),
    ("ZMQSC", "AMQ8405I"),
    ("ZMQSC DEF", "AMQ8405I"),
    ("ZMQSCDEF QL-R", "AMQ8405I"),
]


@pytest.mark.parametrize(("text", "code"), INVALID)
def test_what_tpf_refuses_is_refused(manager: Manager, text: str, code: str) -> None:
    manager.run("ZMQSC DEF QL-Q")
    before = dict(manager.objects)
    reply = manager.run(text)
    assert (reply.code, reply.ok) == (code, False)
    assert manager.objects == before


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ZMQSC MIGRATE BEGIN", "MIGRATE"),
        ("ZMQSC SWEEP QL-Q", "SWEEP"),
        ("ZMQSC DEF MQP-QM1", "DEFINE MQP"),
        ("ZMQSC ALT QL-Q SWEEP-YES", "SWEEP"),
    ],
)
def test_commands_of_tpf_that_have_no_place_here_say_so(manager: Manager, text: str, word: str) -> None:
    reply = manager.run(text)
    assert (reply.text, reply.syntax_error) == (f"EMQ0001E: ZMQSC {word} is not supported by EverMQ.", False)


def test_a_trigger_may_be_switched_on_where_the_process_is_already_named(manager: Manager) -> None:
    manager.run("ZMQSC DEF QL-Q PROCESS-P")
    assert manager.run("ZMQSC ALT QL-Q TRIGGER TRIGTYPE-EVERY").ok
    assert manager.run("ZMQSC ALT QL-Q PROCESS-''").code == "AMQ8425E"


def test_a_queue_triggered_by_mqsc_without_a_process_can_still_be_altered(manager: Manager) -> None:
    manager.run("DEF QL(Q) TRIGGER TRIGTYPE(EVERY)")
    assert manager.run("ZMQSC ALT QL-Q MAXDEPTH-5").ok


def test_an_unquoted_name_folds_and_a_quoted_name_keeps_its_case(manager: Manager) -> None:
    manager.script("ZMQSC DEF PROCESS-p APPLICID-'appl'\nZMQSC DEF PROCESS-'p'")
    assert manager.names("PROCESS") == ["P", "p"]
    assert manager.process("P")["APPLICID"] == "appl"


def test_alter_leaves_the_application_type_as_it_is(manager: Manager) -> None:
    manager.script("DEF PROCESS(P) APPLTYPE(UNIX)\nZMQSC ALT PROCESS-P USERDATA-X")
    assert (manager.process("P")["APPLTYPE"], manager.process("P")["USERDATA"]) == (6, "X")


def test_display_has_the_layout_of_mqsc_with_hyphens(manager: Manager) -> None:
    manager.script("ZMQSC DEF QL-Q MAXDEPTH-0\nZMQSC DEF PROCESS-P APPLICID-APPL")
    lines = manager.run("ZMQSC DISP QL-Q").text.split("\n")
    assert lines[:2] == ["AMQ8409I: Display Queue details.", "   QUEUE-Q                                 TYPE-QLOCAL"]
    assert lines[-1] == "   TRIGTYPE-FIRST                          USAGE-NORMAL"
    assert "   IPPROCS-0                               MAXDEPTH-0" in lines
    assert "   NOTRIGGER                               NPMCLASS-NORMAL" in lines
    assert manager.run("ZMQSC DISPLAY PROCESS-P").text.split("\n")[2] == (
        "   ALTTIME-12.30.15                        APPLICID-APPL"
    )
    assert manager.run("zmqsc dis qmgr").text.split("\n")[1].startswith("   QMNAME-QM1  ")


def test_display_of_all_lists_the_queues(manager: Manager) -> None:
    manager.script("ZMQSC DEF QL-A\nZMQSC DEF QL-B")
    assert [shown["QUEUE"] for shown in manager.run("ZMQSC DISP QL-ALL").attributes] == ["A", "B"]


def test_delete_needs_an_empty_queue(manager: Manager) -> None:
    manager.run("ZMQSC DEF QL-Q")
    manager.live["Q"] = {"CURDEPTH": 1}
    assert manager.run("ZMQSC DEL QL-Q").code == "AMQ8143E"
    manager.live.clear()
    assert manager.run("ZMQSC DELETE QL-Q").code == "AMQ8007I"


def test_a_syntax_error_is_answered_with_the_syntax_of_the_verb(manager: Manager) -> None:
    assert manager.run("ZMQSC DEL XX-A").text.split("\n")[3:] == [
        "AMQ8427I: Valid syntax for the ZMQSC command:",
        "    ZMQSC DELETE QL-name",
        "    ZMQSC DELETE QA-name",
        "    ZMQSC DELETE QR-name",
        "    ZMQSC DELETE PROCESS-name",
    ]


def test_aliases_and_remote_queues_are_queues_too(manager: Manager) -> None:
    codes = ["ZMQSC DEF QA-A TARGQ-Q PUT-DISABLED", "ZMQSC DEF QR-R RNAME-'there' RQMNAME-QM2 XMITQ-X DEFPSIST-YES"]
    assert [manager.run(text).code for text in codes] == ["AMQ8006I", "AMQ8006I"]
    alias, remote = manager.queue("A"), manager.queue("R")
    assert (alias["TARGET"], alias["PUT"]) == ("Q", 1)
    assert (remote["RNAME"], remote["RQMNAME"], remote["XMITQ"], remote["DEFPSIST"]) == ("there", "QM2", "X", 1)
    assert manager.run("ZMQSC ALT QA-A TARGET-R").code == "AMQ8008I"
    assert manager.run("ZMQSC DISP QA-ALL").attributes == ({"QUEUE": "A", "TYPE": "QALIAS"},)
    assert "TARGET-R" in manager.run("ZMQSC DISP QA-A").text
    assert manager.run("ZMQSC DEF QA-ALL").code == "AMQ8424E"
    assert manager.run("ZMQSC DEL QR-R").code == "AMQ8007I"
    assert manager.run("ZMQSC DEF QR-S MAXDEPTH-1").code == "AMQ8405I"
