"""SET, DELETE and DISPLAY AUTHREC, DISPLAY ENTAUTH, and records that come and go with objects (security 2.4, 6.4)."""

from __future__ import annotations

import pytest

from broker.commands.requests import EntityRightsRequest
from broker.commands.security.records import record_of_creator
from broker.core.names.definitions import Define, Definition, Delete, Together
from broker.core.security.facts import AuthorityRecord, Principal
from broker.core.security.rights import Right, all_of
from broker.mqi.constants.objects import MQOT
from tests.commands.catalog import Manager
from tests.first_user import FIRST_USER

Q, Q_MGR = MQOT.Q.value, MQOT.Q_MGR.value
ALL_OF_A_QUEUE = "BROWSE,CHG,CLR,DLT,DSP,GET,INQ,PUT,PASSALL,PASSID,SET,SETALL,SETID"


def records(manager: Manager) -> list[tuple[int | str | bool, ...]]:
    """Profile, entity and rights of all records."""
    shown = manager.run("DISPLAY AUTHREC").attributes
    return [(row["PROFILE"], row["ENTTYPE"], row["ENTITY"], row["OBJTYPE"], row["AUTHLIST"]) for row in shown]


def rights(manager: Manager, *commands: str) -> int | str | bool:
    """The rights of the one record that the commands leave."""
    for command in commands:
        reply = manager.run(f"SET AUTHREC PROFILE(Q) PRINCIPAL('a') OBJTYPE(QUEUE) {command}")
        assert reply.code == "AMQ8862I", reply.text
    ((*_, words),) = records(manager)
    return words


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (["AUTHADD(PUT,GET)"], "GET,PUT"),
        (["AUTHADD(put)"], "PUT"),
        (["AUTHADD(PUT)", "AUTHADD(GET)"], "GET,PUT"),
        (["AUTHADD(PUT,GET)", "AUTHRMV(PUT)"], "GET"),
        (["AUTHADD(PUT)", "AUTHRMV(PUT)"], "NONE"),
        (["AUTHADD(NONE)"], "NONE"),
        (["AUTHRMV(GET)"], "NONE"),
        (["AUTHADD(ALL)"], ALL_OF_A_QUEUE),
        (["AUTHADD(ALL,CRT)"], "BROWSE,CHG,CLR,CRT,DLT,DSP,GET,INQ,PUT,PASSALL,PASSID,SET,SETALL,SETID"),
        (["AUTHADD(ALLMQI)"], "BROWSE,GET,INQ,PUT,PASSALL,PASSID,SET,SETALL,SETID"),
        (["AUTHADD(ALLADM)"], "CHG,CLR,DLT,DSP"),
        (["AUTHADD(ALL) AUTHRMV(SETID)"], ALL_OF_A_QUEUE.removesuffix(",SETID")),
        (["AUTHADD(PUT)", "AUTHADD(DSP) AUTHRMV(ALL)"], "DSP"),
        (["AUTHADD(PUT,GET)", "AUTHADD(INQ) AUTHRMV(GET)"], "INQ,PUT"),
    ],
)
def test_lists_are_expanded_and_shown_in_ibms_order(manager: Manager, commands: list[str], expected: str) -> None:
    assert rights(manager, *commands) == expected


REFUSED = [
    ("SET AUTHREC PROFILE(Q) PRINCIPAL(A) AUTHADD(GET)", "AMQ8421E", "OBJTYPE"),
    ("SET AUTHREC OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(GET)", "AMQ8421E", "PROFILE"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) AUTHADD(GET)", "AMQ8421E", "PRINCIPAL or GROUP"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(' ') AUTHADD(GET)", "AMQ8421E", "PRINCIPAL or GROUP"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(A)", "AMQ8421E", "AUTHADD or AUTHRMV"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(FETCH)", "AMQ8425E", "AUTHADD(FETCH)"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(CONNECT)", "AMQ8425E", "CONNECT is no right"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(GET) AUTHRMV(GET)", "AMQ8425E", "both name GET"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(DSP) AUTHRMV(ALLADM)", "AMQ8425E", "both name DSP"),
    ("SET AUTHREC PROFILE('@class') OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(PUT)", "AMQ8425E", "which has CRT"),
    ("SET AUTHREC PROFILE('@process') OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(CRT)", "AMQ8425E", "@queue"),
    ("SET AUTHREC PROFILE('A.**.**') OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(PUT)", "AMQ8425E", "more than once"),
    ("SET AUTHREC PROFILE(OTHER) OBJTYPE(QMGR) PRINCIPAL(A) AUTHADD(CONNECT)", "AMQ8147E", "OTHER"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('thirteenchars') AUTHADD(PUT)", "AMQ8424E", "1 to 12"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) GROUP('a b') AUTHADD(PUT)", "AMQ8424E", "1 to 12"),
    ("SET AUTHREC PROFILE(Q) OBJTYPE(TABLE) PRINCIPAL(A) AUTHADD(PUT)", "AMQ8425E", "OBJTYPE(TABLE)"),
    ("SET AUTHREC(Q) OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(PUT)", "AMQ8405I", "SET AUTHREC"),
    ("DELETE AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(A)", "AMQ8147E", "PRINCIPAL(A)"),
    ("DISPLAY AUTHREC PRINCIPAL(A) GROUP(B)", "AMQ8425E", "only one"),
    ("DISPLAY AUTHREC GROUP(A) MATCH(MEMBERSHIP)", "AMQ8421E", "PRINCIPAL"),
    ("DISPLAY AUTHREC PROFILE(NOSUCH)", "AMQ8147E", "not found"),
    ("DISPLAY ENTAUTH OBJNAME(Q) OBJTYPE(QUEUE)", "AMQ8421E", "PRINCIPAL or GROUP"),
    ("DISPLAY ENTAUTH PRINCIPAL(A) OBJTYPE(QUEUE)", "AMQ8421E", "OBJNAME"),
]


@pytest.mark.parametrize(("command", "code", "what"), REFUSED)
def test_what_is_wrong_is_refused_with_its_reason(manager: Manager, command: str, code: str, what: str) -> None:
    reply = manager.run(command)
    assert (reply.code, reply.ok, manager.changes) == (code, False, [])
    assert what in reply.text


@pytest.mark.parametrize("profile", ["", "PROFILE(SELF)", "PROFILE('self')", "PROFILE('*')", "PROFILE(QM1)"])
def test_the_queue_manager_has_one_profile(manager: Manager, profile: str) -> None:
    manager.run(f"SET AUTHREC {profile} OBJTYPE(QMGR) PRINCIPAL('a') AUTHADD(CONNECT)")
    assert records(manager) == [("self", "PRINCIPAL", "a", "QMGR", "CONNECT")]
    assert len(manager.run(f"DISPLAY AUTHREC {profile} OBJTYPE(QMGR)").attributes) == 1


def test_several_entities_are_one_transaction(manager: Manager) -> None:
    manager.run("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('a','b') GROUP('c') AUTHADD(PUT)")
    change = manager.changes[0]
    assert isinstance(change, Together)
    found = [AuthorityRecord.of(each.definition.attributes) for each in change.changes if isinstance(each, Define)]
    assert found == [
        AuthorityRecord("Q", Q, kind, name, Right.PUT)
        for kind, name in ((Principal.USER, "a"), (Principal.USER, "b"), (Principal.GROUP, "c"))
    ]
    assert manager.run("DELETE AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('a') GROUP('c')").code == "AMQ8863I"
    assert records(manager) == [("Q", "PRINCIPAL", "b", "QUEUE", "PUT")]


def test_delete_of_several_deletes_all_or_none(manager: Manager) -> None:
    manager.run("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('a') AUTHADD(PUT)")
    assert manager.run("DELETE AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('a','b')").code == "AMQ8147E"
    assert len(records(manager)) == 1


def test_x2_3_the_reply_warns_of_who_is_not_there(manager: Manager) -> None:
    manager.script(f"DEFINE QLOCAL(Q)\n{FIRST_USER}\nDEFINE USER('bob') GROUPS('app')")
    set_get = "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) AUTHADD(GET)"
    replies = [
        manager.run(f"{set_get} {who}") for who in ("GROUP(app)", "GROUP('app')", "PRINCIPAL(bob)", "PRINCIPAL(x)")
    ]
    assert [reply.code for reply in replies] == ["AMQ8862I"] * 4
    assert [reply.warnings for reply in replies] == [
        ("EMQ0023W: no user is in a group APP yet, but there is app: names keep their case only in quotes.",),
        (),
        ("EMQ0023W: there is no user BOB yet, but there is bob: names keep their case only in quotes.",),
        ("EMQ0023W: there is no user X yet.",),
    ]
    assert replies[0].text.split("\n")[0] == "AMQ8862I: IBM MQ authority record set."
    reply = manager.run("SET AUTHREC PROFILE(NONE.YET) OBJTYPE(QUEUE) GROUP('mqm') AUTHADD(GET)")
    assert reply.warnings == ("EMQ0023W: there is no queue NONE.YET yet.",)


def test_types_that_are_only_kept_say_so(manager: Manager) -> None:
    reply = manager.run("SET AUTHREC PROFILE(T) OBJTYPE(TOPIC) GROUP('mqm') AUTHADD(PUB,SUB,RESUME)")
    assert reply.warnings == ("EMQ0002W: OBJTYPE(TOPIC) is kept and shown, but EverMQ does not act on it.",)


def test_a_record_is_laid_out_as_runmqsc_does(manager: Manager) -> None:
    manager.run("SET AUTHREC PROFILE(APP.Q) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET)")
    assert manager.run("DIS AUTHREC PROFILE(APP.Q) OBJTYPE(QUEUE)").text == (
        "AMQ8864I: Display authority record details.\n"
        "   PROFILE(APP.Q)                          ENTITY(app)\n"
        "   ENTTYPE(PRINCIPAL)                      OBJTYPE(QUEUE)\n"
        "   AUTHLIST(GET,PUT)"
    )
    assert manager.run("DIS AUTHREC AUTHLIST").attributes == ({"AUTHLIST": "GET,PUT"},)


DISPLAYS = [
    ("PROFILE(A.B)", ["A.*", "A.*", "A.B"]),
    ("PROFILE('A.*')", ["A.*", "A.*"]),
    ("PROFILE(A.B) MATCH(EXACT)", ["A.B"]),
    ("PROFILE(A.C) MATCH(EXACT)", None),
    ("PROFILE(A.B) PRINCIPAL('bob')", ["A.B"]),
    ("PROFILE(A.B) PRINCIPAL('bob') MATCH(MEMBERSHIP)", ["A.*", "A.B"]),
    ("GROUP('team')", ["A.*"]),
    ("OBJTYPE(QMGR)", ["self"]),
    ("OBJTYPE(QUEUE) WHERE(AUTHLIST CT GET)", ["A.*"]),
    ("OBJTYPE(ALL) WHERE(AUTHLIST EX GET)", ["A.*", "A.B", "self"]),
]


@pytest.mark.parametrize(("choice", "profiles"), DISPLAYS)
def test_display_chooses_by_profile_entity_and_match(manager: Manager, choice: str, profiles: list[str] | None) -> None:
    manager.run(FIRST_USER)
    manager.script("""
        DEFINE USER('bob') GROUPS('team')
        SET AUTHREC PROFILE('A.*') OBJTYPE(QUEUE) GROUP('team') AUTHADD(GET)
        SET AUTHREC PROFILE('A.*') OBJTYPE(QUEUE) GROUP('others') AUTHADD(PUT)
        SET AUTHREC PROFILE(A.B) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)
    """)
    reply = manager.run(f"DISPLAY AUTHREC {choice}")
    assert (reply.ok, [row["PROFILE"] for row in reply.attributes]) == (profiles is not None, profiles or [])


def test_delete_takes_the_records_of_that_exact_name_along(manager: Manager) -> None:
    manager.script("""
        DEFINE QLOCAL(A)
        DEFINE QLOCAL(B)
        DEFINE PROCESS(A)
        SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('x','y') AUTHADD(GET)
        SET AUTHREC PROFILE(A) OBJTYPE(PROCESS) PRINCIPAL('x') AUTHADD(INQ)
        SET AUTHREC PROFILE(A*) OBJTYPE(QUEUE) PRINCIPAL('x') AUTHADD(GET)
        SET AUTHREC PROFILE(B) OBJTYPE(QUEUE) PRINCIPAL('x') AUTHADD(GET)
    """)
    manager.script("DELETE QLOCAL(A)\nDELETE QLOCAL(B) AUTHREC(NO)")
    *_, of_a, of_b = manager.changes
    assert of_a == Delete("QUEUE", "A", records=("1 A user x", "1 A user y"))
    assert of_b == Delete("QUEUE", "B")
    assert [row[0] for row in records(manager)] == ["A*", "B", "A"]


def test_who_creates_an_object_may_do_everything_with_it(manager: Manager) -> None:
    manager.run("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('a') AUTHADD(CRT)")
    made = record_of_creator(Definition("QLOCAL", "Q", {}), "a", manager)
    assert made is not None
    assert AuthorityRecord.of(made.definition.attributes).rights == all_of(Q) | Right.CRT
    assert record_of_creator(Definition("USER", "b", {}), "a", manager) is None


def test_entauth_is_a_question_for_the_judge(manager: Manager) -> None:
    manager.run("DISPLAY ENTAUTH GROUP('team') OBJNAME(Q) OBJTYPE(QUEUE)")
    manager.run("DISPLAY ENTAUTH PRINCIPAL('bob') OBJTYPE(QMGR) ALL")
    assert manager.asked == [
        EntityRightsRequest((Principal.GROUP, "team"), Q, "Q"),
        EntityRightsRequest((Principal.USER, "bob"), Q_MGR, "self"),
    ]
