"""DEFINE, ALTER, DELETE and CLEAR: sections on LIKE and REPLACE, and the replies to each command."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from broker.commands.table.attributes import validate
from broker.commands.table.channel_rules import ORDER
from broker.commands.table.default_objects import default_objects
from broker.core.names.definitions import Clear, Define, Definition, Delete

if TYPE_CHECKING:
    from tests.commands.catalog import Manager

LATER = datetime(2027, 1, 1, 8, 0, 5)

REPLIES = [
    ("DEF QL(A)", "AMQ8006I: IBM MQ queue created."),
    ("ALT QL(A) PUT(DISABLED)", "AMQ8008I: IBM MQ queue changed."),
    ("ALTER QLOCAL ( A ) , MAXDEPTH ( 10 )", "AMQ8008I: IBM MQ queue changed."),
    ("CLEAR QL(A)", "AMQ8022I: IBM MQ queue cleared."),
    ("DEL QL(A)", "AMQ8007I: IBM MQ queue deleted."),
    ("DEF PRO(P)", "AMQ8010I: IBM MQ process created."),
    ("ALTER PROCESS(P) USERDATA(X)", "AMQ8012I: IBM MQ process changed."),
    ("DELETE PROCESS(P)", "AMQ8011I: IBM MQ process deleted."),
    ("ALTER QMGR TRIGINT(5)", "AMQ8005I: IBM MQ queue manager changed."),
    ("ALTER QMGR", "AMQ8005I: IBM MQ queue manager changed."),
    ("ALTER QMGR DEADQ(NOSUCH) FORCE", "AMQ8005I: IBM MQ queue manager changed."),
    ("DIS QL(NOSUCH)", "AMQ8147E: IBM MQ object NOSUCH not found."),
    ("ALTER QL(NOSUCH)", "AMQ8147E: IBM MQ object NOSUCH not found."),
    ("DELETE QL(NOSUCH)", "AMQ8147E: IBM MQ object NOSUCH not found."),
    ("DELETE QL(NOSUCH) IGNSTATE(YES)", "AMQ8007I: IBM MQ queue deleted."),
    ("DELETE PROCESS(NOSUCH) IGNSTATE(NO)", "AMQ8147E: IBM MQ object NOSUCH not found."),
    ("CLEAR QL(NOSUCH)", "AMQ8147E: IBM MQ object NOSUCH not found."),
    ("DEF QL(B) LIKE(NOSUCH)", "AMQ8147E: IBM MQ object NOSUCH not found."),
]


def test_each_command_has_its_reply(manager: Manager) -> None:
    assert [(text, manager.run(text).text) for text, _ in REPLIES] == REPLIES


def test_a_failure_at_run_time_is_no_syntax_error(manager: Manager) -> None:
    reply = manager.run("DELETE QL(NOSUCH)")
    assert (reply.ok, reply.syntax_error) == (False, False)


def test_a_define_carries_the_whole_definition(manager: Manager) -> None:
    manager.run("DEF PROCESS(P) APPLICID(PAY)")
    attributes: dict[str, int | str] = {
        "ALTDATE": "2026-03-04", "ALTTIME": "12.30.15", "APPLICID": "PAY", "APPLTYPE": 23, "DESCR": "", "ENVRDATA": "",
        "QSGDISP": 0, "USERDATA": "",
    }  # fmt: skip
    assert manager.changes == [Define(Definition("PROCESS", "P", attributes))]


def test_without_replace_an_existing_queue_stays_as_it_is(manager: Manager) -> None:
    assert manager.script("DEF QL(A) MAXDEPTH(7)\nDEF QL(A)\nDEF QL(A) NOREPLACE") == ["AMQ8006I"] + ["AMQ8150E"] * 2
    assert manager.queue("A")["MAXDEPTH"] == 7


def test_replace_resets_every_attribute_not_given_but_not_the_time_of_creation(manager: Manager) -> None:
    manager.run("DEF QL(A) MAXDEPTH(7) DESCR(OLD)")
    manager.now = LATER
    assert manager.run("DEF QL(A) REPLACE DESCR(NEW)").code == "AMQ8006I"
    queue = manager.queue("A")
    assert (queue["MAXDEPTH"], queue["DESCR"]) == (5000, "NEW")
    assert (queue["CRDATE"], queue["CRTIME"]) == ("2026-03-04", "12.30.15")
    assert (queue["ALTDATE"], queue["ALTTIME"]) == ("2027-01-01", "08.00.05")


def test_alter_changes_only_what_is_given(manager: Manager) -> None:
    manager.run("DEF QL(A) MAXDEPTH(7) DESCR(OLD)")
    before = manager.queue("A")
    manager.now = LATER
    manager.run("ALTER QL(A) MAXDEPTH(8)")
    assert manager.queue("A") == {**before, "MAXDEPTH": 8, "ALTDATE": "2027-01-01", "ALTTIME": "08.00.05"}
    assert before["MAXDEPTH"] == 7


def test_like_copies_attributes_and_keywords_override_them(manager: Manager) -> None:
    manager.script("DEF QL(A) MAXDEPTH(7) PUT(DISABLED)\nDEF QL(B) LIKE(A) DESCR('x') PUT(ENABLED)")
    queue = manager.queue("B")
    assert (queue["MAXDEPTH"], queue["PUT"], queue["DESCR"]) == (7, 0, "x")


def test_like_copies_no_times(manager: Manager) -> None:
    manager.run("DEF QL(A)")
    manager.now = LATER
    manager.run("DEF QL(B) LIKE(A)")
    assert (manager.queue("B")["CRDATE"], manager.queue("B")["ALTDATE"]) == ("2027-01-01", "2027-01-01")


def test_the_default_object_gives_the_defaults(manager: Manager) -> None:
    manager.script("DEF QL(SYSTEM.DEFAULT.LOCAL.QUEUE) MAXDEPTH(11)\nDEF PRO(SYSTEM.DEFAULT.PROCESS) USERDATA(U)")
    manager.script("DEF QL(A)\nDEF PRO(P)")
    assert manager.queue("A")["MAXDEPTH"] == 11
    assert manager.process("P")["USERDATA"] == "U"


@pytest.mark.parametrize(
    "text", ["DEF QL(A) REPLACE", "ALTER QL(A)", "DELETE QL(A)", "CLEAR QL(A)", "DEF QL(B) LIKE(A)"]
)
def test_an_object_of_another_kind_in_the_same_name_space_is_left_alone(manager: Manager, text: str) -> None:
    manager.objects["QUEUE", "A"] = Definition("QALIAS", "A", {})
    assert manager.run(text).code == "AMQ8151E"
    assert manager.changes == []


def test_processes_and_queues_have_name_spaces_of_their_own(manager: Manager) -> None:
    assert manager.script("DEF QL(A)\nDEF PROCESS(A)\nDELETE QL(A)") == ["AMQ8006I", "AMQ8010I", "AMQ8007I"]
    assert (manager.names("QUEUE"), manager.names("PROCESS")) == ([], ["A"])


IN_USE = [
    ("DELETE QL(A)", {"CURDEPTH": 1}, "AMQ8143E"),
    ("DELETE QL(A) NOPURGE", {"CURDEPTH": 1}, "AMQ8143E"),
    ("DELETE QL(A) PURGE AUTHREC(YES)", {"CURDEPTH": 1}, "AMQ8007I"),
    ("DELETE QL(A) PURGE", {"CURDEPTH": 1, "UNCOM": 1}, "AMQ8148E"),
    ("DELETE QL(A)", {"UNCOM": 1}, "AMQ8148E"),
    ("DELETE QL(A) PURGE", {"HANDLES": 1}, "AMQ8148E"),
    ("CLEAR QL(A)", {"CURDEPTH": 3}, "AMQ8022I"),
    ("CLEAR QL(A)", {"CURDEPTH": 3, "UNCOM": 1}, "AMQ8148E"),
    ("CLEAR QL(A)", {"HANDLES": 1}, "AMQ8148E"),
    ("ALTER QL(A) USAGE(XMITQ)", {}, "AMQ8008I"),
    ("ALTER QL(A) USAGE(NORMAL)", {"HANDLES": 1}, "AMQ8008I"),
    ("ALTER QL(A) USAGE(XMITQ)", {"HANDLES": 1}, "AMQ8148E"),
    ("ALTER QL(A) USAGE(XMITQ)", {"CURDEPTH": 1}, "AMQ8148E"),
    ("ALTER QL(A) USAGE(XMITQ) FORCE", {"HANDLES": 1, "CURDEPTH": 1}, "AMQ8008I"),
    ("ALTER QL(A) NOSHARE", {"HANDLES": 2, "IPPROCS": 1}, "AMQ8008I"),
    ("ALTER QL(A) NOSHARE", {"HANDLES": 2, "IPPROCS": 2}, "AMQ8148E"),
    ("ALTER QL(A) NOSHARE FORCE", {"HANDLES": 2, "IPPROCS": 2}, "AMQ8008I"),
    ("ALTER QL(A) PUT(DISABLED)", {"HANDLES": 2, "IPPROCS": 2, "CURDEPTH": 1}, "AMQ8008I"),
    ("DEF QL(A) REPLACE USAGE(XMITQ)", {"HANDLES": 1}, "AMQ8148E"),
]


@pytest.mark.parametrize(("text", "live", "code"), IN_USE)
def test_handles_messages_and_units_of_work_hold_a_queue(
    manager: Manager, text: str, live: dict[str, int | str], code: str
) -> None:
    manager.run("DEF QL(A)")
    manager.changes.clear()
    manager.live["A"] = live
    assert manager.run(text).code == code
    assert bool(manager.changes) == code.endswith("I")


def test_changes_name_what_the_engine_is_to_do(manager: Manager) -> None:
    manager.script("DEF QL(A)\nCLEAR QL(A)\nDELETE QL(A)\nDEF PRO(P)\nDELETE PRO(P)")
    assert [change for change in manager.changes if not isinstance(change, Define)] == [
        Clear("A"),
        Delete("QUEUE", "A"),
        Delete("PROCESS", "P"),
    ]


ELSEWHERE = [
    ("ALTER QA(A) TARGET(R)", "AMQ8148E"),
    ("ALTER QA(A) TARGTYPE(TOPIC)", "AMQ8148E"),
    ("ALTER QA(A) TARGQ(Q)", "AMQ8008I"),
    ("ALTER QA(A) PUT(DISABLED) DEFPRTY(3)", "AMQ8008I"),
    ("ALTER QA(A) TARGET(R) FORCE", "AMQ8008I"),
    ("DEF QA(A) REPLACE TARGET(R)", "AMQ8148E"),
    ("DEF QA(A) REPLACE TARGET(Q)", "AMQ8006I"),
    ("DELETE QA(A)", "AMQ8148E"),
    ("ALTER QR(A) RNAME(S)", "AMQ8148E"),
    ("ALTER QR(A) RQMNAME(QM3)", "AMQ8148E"),
    ("ALTER QR(A) XMITQ(Y)", "AMQ8148E"),
    ("ALTER QR(A) XMITQ(Y) FORCE", "AMQ8008I"),
    ("ALTER QR(A) PUT(DISABLED)", "AMQ8008I"),
]


@pytest.mark.parametrize(("text", "code"), ELSEWHERE)
def test_handles_hold_what_a_name_leads_to(manager: Manager, text: str, code: str) -> None:
    manager.run("DEF QR(A) RNAME(R) RQMNAME(QM2) XMITQ(X)" if "QR(" in text else "DEF QA(A) TARGET(Q)")
    manager.live["A"] = {"HANDLES": 1}
    assert manager.run(text).code == code


@pytest.mark.parametrize("kind", ["QALIAS", "QREMOTE", "QMODEL"])
def test_queues_of_other_kinds_are_defined_altered_and_deleted(manager: Manager, kind: str) -> None:
    manager.run(f"DEF {kind}(SYSTEM.DEFAULT.{kind.removeprefix('Q')}.QUEUE) DEFPRTY(4)")
    texts = ["DEF {}(A) DESCR('d')", "DEF {}(A)", "ALTER {}(A) DEFPRTY(5)", "DEF {}(B) LIKE(A)", "DELETE {}(A)"]
    codes = [manager.run(text.format(kind)).code for text in texts]
    assert codes == ["AMQ8006I", "AMQ8150E", "AMQ8008I", "AMQ8006I", "AMQ8007I"]
    assert (manager.queue("B")["DEFPRTY"], manager.queue("B")["DESCR"]) == (5, "d")
    assert manager.run("DEF QL(B) REPLACE").code == "AMQ8151E"
    assert manager.run(f"DEF {kind}(C)").ok
    assert manager.queue("C")["DEFPRTY"] == 4


def test_a_new_queue_manager_has_its_default_objects() -> None:
    objects = default_objects(LATER, durable=True)
    assert [(each.kind, each.name) for each in objects[:5]] == [
        ("QLOCAL", "SYSTEM.DEFAULT.LOCAL.QUEUE"),
        ("QALIAS", "SYSTEM.DEFAULT.ALIAS.QUEUE"),
        ("QREMOTE", "SYSTEM.DEFAULT.REMOTE.QUEUE"),
        ("QMODEL", "SYSTEM.DEFAULT.MODEL.QUEUE"),
        ("PROCESS", "SYSTEM.DEFAULT.PROCESS"),
    ]
    assert len({each.name for each in objects}) == len(objects)
    for each in objects:
        attributes = {word: value for word, value in each.attributes.items() if word != ORDER}
        assert [word for word, value in attributes.items() if not validate(each.kind, word, value)] == []


# As recorded of a new queue manager of IBM MQ 9.4; what is not named is as in the default object of the kind.
SYSTEM_QUEUES = {
    "SYSTEM.ADMIN.PERFM.EVENT": "NOSHARE DEFSOPT(EXCL) MAXDEPTH(3000) MAXMSGL(9000) TRIGTYPE(NONE)",
    "SYSTEM.ADMIN.QMGR.EVENT": "NOSHARE DEFSOPT(EXCL) MAXDEPTH(3000) MAXMSGL(32762) TRIGTYPE(NONE)",
    "SYSTEM.ADMIN.CONFIG.EVENT": "NOSHARE DEFSOPT(EXCL) MAXDEPTH(5000) MAXMSGL(4194304) TRIGTYPE(NONE)",
    "SYSTEM.ADMIN.COMMAND.QUEUE": "NOSHARE DEFSOPT(EXCL) MAXDEPTH(3000) MAXMSGL(32762) TRIGTYPE(NONE)",
    "SYSTEM.ADMIN.STATISTICS.QUEUE": "MAXDEPTH(3000) TRIGTYPE(NONE) ACCTQ(OFF) STATQ(OFF)",
    "SYSTEM.ADMIN.ACCOUNTING.QUEUE": "MAXDEPTH(3000) TRIGTYPE(NONE) ACCTQ(OFF) STATQ(OFF)",
    "SYSTEM.DEFAULT.INITIATION.QUEUE": "MAXDEPTH(1000) MAXMSGL(1000) TRIGTYPE(NONE)",
    "SYSTEM.BROKER.DEFAULT.STREAM": "DEFPSIST(YES) MSGDLVSQ(FIFO)",
    "SYSTEM.CLUSTER.TRANSMIT.QUEUE": "MAXDEPTH(999999999) USAGE(XMITQ)",
    "SYSTEM.DEAD.LETTER.QUEUE": "MAXDEPTH(999999999) TRIGTYPE(NONE)",
    "SYSTEM.MQSC.REPLY.QUEUE": "HARDENBO MAXDEPTH(999999999) MAXMSGL(32762) TRIGTYPE(NONE) DEFTYPE(TEMPDYN)",
    "SYSTEM.NDURABLE.MODEL.QUEUE": "HARDENBO SHARE DEFSOPT(SHARED) MAXDEPTH(999999999) DEFREADA(YES) DEFTYPE(TEMPDYN)",
    "SYSTEM.DURABLE.MODEL.QUEUE": "HARDENBO SHARE DEFSOPT(SHARED) MAXDEPTH(999999999) DEFTYPE(PERMDYN)",
}


@pytest.mark.parametrize("name", SYSTEM_QUEUES)
def test_system_queues_are_as_ibm_mq_makes_them(manager: Manager, name: str) -> None:
    found = next(each for each in default_objects(manager.now, durable=True) if each.name == name)
    assert manager.run(f"DEFINE {found.kind}({name}) DESCR('{found.attributes['DESCR']}') {SYSTEM_QUEUES[name]}").ok
    assert manager.objects["QUEUE", name] == found


TOGETHER = [
    ("DEF QL(A) QDEPTHHI(10) QDEPTHLO(20)", "AMQ8425E", True),
    ("DEF QL(A) QDEPTHHI(20) QDEPTHLO(20)", "AMQ8006I", False),
    ("DEF QL(A) CLUSTER(C) CLUSNL(N)", "AMQ8425E", False),
    ("DEF QL(A) MAXMSGL(104857601)", "AMQ8412E", True),
    ("DEF QL(A) MAXMSGL(104857600)", "AMQ8006I", False),
]


@pytest.mark.parametrize(("text", "code", "syntax_error"), TOGETHER)
def test_attributes_have_to_fit_each_other(manager: Manager, text: str, code: str, syntax_error: bool) -> None:
    manager.run("ALTER QMGR MAXMSGL(40000)")
    reply = manager.run(text)
    assert (reply.code, reply.syntax_error) == (code, syntax_error)


def test_the_queue_manager_is_altered_under_its_name(manager: Manager) -> None:
    manager.now = LATER
    manager.run("ALTER QMGR DEADQ(DEAD) DESCR('test')")
    attributes = manager.queue_manager.attributes
    assert (manager.queue_manager.kind, manager.queue_manager.name) == ("QMGR", "QM1")
    assert (attributes["DEADQ"], attributes["DESCR"], attributes["ALTDATE"]) == ("DEAD", "test", "2027-01-01")
    assert attributes["CRDATE"] == "2026-03-04"
