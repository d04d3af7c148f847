"""SET and DISPLAY CHLAUTH: actions, what each type takes, and which records are shown (security 2, 2.5)."""

from __future__ import annotations

import pytest

from broker.commands.requests import RunCheckRequest
from broker.commands.table.default_objects import default_objects
from tests.commands.catalog import NOON, Manager


def rows(manager: Manager, choice: str = "'*'", more: str = "") -> list[dict[str, int | str | bool]]:
    return list(manager.run(f"DISPLAY CHLAUTH({choice}) {more}").attributes)


REFUSED = [
    ("SET CHLAUTH('*') USERLIST('a')", "AMQ8421E", "TYPE"),
    ("SET CHLAUTH TYPE(BLOCKUSER) USERLIST('a')", "AMQ8421E", "CHLAUTH needs a name"),
    ("SET CHLAUTH('A') TYPE(BLOCKUSER)", "AMQ8421E", "USERLIST"),
    ("SET CHLAUTH('A') TYPE(BLOCKADDR) ADDRLIST('192.0.2.1')", "AMQ8425E", "all channels"),
    ("SET CHLAUTH('A') TYPE(ADDRESSMAP) USERSRC(CHANNEL)", "AMQ8421E", "ADDRESS"),
    ("SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('*')", "AMQ8421E", "MCAUSER"),
    ("SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL) MCAUSER('a')", "AMQ8425E", "MCAUSER"),
    ("SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS) CHCKCLNT(REQUIRED)", "AMQ8425E", "CHCKCLNT"),
    ("SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('192.0.2.300') USERSRC(CHANNEL)", "AMQ8425E", "ADDRESS"),
    ("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('192.0.2.1','192.0.2.9-1')", "AMQ8425E", "ADDRLIST"),
    ("SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('*') USERLIST('a')", "AMQ8425E", "USERLIST is not for"),
    ("SET CHLAUTH('A') TYPE(SSLPEERMAP) SSLPEER('CN') USERSRC(CHANNEL)", "AMQ8425E", "SSLPEER"),
    ("SET CHLAUTH('A') TYPE(USERMAP) CLNTUSER('a') USERSRC(CHANNEL) ACTION(REMOVE)", "AMQ8425E", "USERSRC is not for"),
    ("SET CHLAUTH('A') TYPE(USERMAP) CLNTUSER('a') ACTION(REMOVEALL)", "AMQ8425E", "CLNTUSER is not for"),
    ("SET CHLAUTH('A') TYPE(USERMAP) CLNTUSER('a') ACTION(REMOVE)", "AMQ8884E", "not found"),
    ("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('thirteenchars')", "AMQ8424E", "1 to 12"),
    ("SET CHLAUTH('A?') TYPE(BLOCKUSER) USERLIST('a')", "AMQ8424E", "asterisks"),
    ("SET CHLAUTH('TWENTYONE.CHARACTERS.') TYPE(BLOCKUSER) USERLIST('a')", "AMQ8424E", "20"),
    ("SET CHLAUTH('A') TYPE(NONE)", "AMQ8425E", "TYPE(NONE)"),
    ("DISPLAY CHLAUTH('A') MATCH(RUNCHECK)", "AMQ8421E", "ADDRESS"),
    ("DISPLAY CHLAUTH('A*') MATCH(RUNCHECK) ADDRESS('192.0.2.1')", "AMQ8424E", "RUNCHECK"),
    ("DISPLAY CHLAUTH('A') ADDRESS('192.0.2.1')", "AMQ8425E", "RUNCHECK"),
]


@pytest.mark.parametrize(("command", "code", "what"), REFUSED)
def test_what_is_wrong_is_refused_with_its_reason(manager: Manager, command: str, code: str, what: str) -> None:
    reply = manager.run(command)
    assert (reply.code, reply.ok, manager.changes) == (code, False, [])
    assert what in reply.text


def test_a_map_is_added_once_and_replaced(manager: Manager) -> None:
    rule = "SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('192.0.2.*')"
    assert manager.run(f"{rule} USERSRC(CHANNEL) DESCR('first')").code == "AMQ8877I"
    assert manager.run(f"{rule} USERSRC(NOACCESS)").code == "EMQ0024E"
    assert manager.run(f"{rule} MCAUSER('a') ACTION(REPLACE)").code == "AMQ8877I"
    (row,) = rows(manager, "A", "ALL")
    assert (row["USERSRC"], row["MCAUSER"], row["DESCR"]) == ("MAP", "a", "")
    assert manager.run(f"{rule} ACTION(REMOVE)").code == "AMQ8877I"
    assert rows(manager, "A") == []


LISTS = [
    (["ADD('a')", "ADD('b','a')"], "a,b"),
    (["ADD('a','b')", "REPLACE('c')"], "c"),
    (["REPLACE('a')"], "a"),
    (["ADD('a','b')", "REMOVE('a')"], "b"),
    (["ADD('a','b')", "REMOVE('a','b')"], None),
    (["ADD('a')", "REPLACE()"], None),
    (["ADD('a')", "REMOVEALL()"], None),
    (["REMOVEALL()"], None),
    (["ADD('*MQADMIN')"], "*MQADMIN"),
]


@pytest.mark.parametrize(("steps", "users"), LISTS)
def test_a_list_grows_shrinks_and_goes(manager: Manager, steps: list[str], users: str | None) -> None:
    for step in steps:
        action, _, given = step.partition("(")
        listed = f"USERLIST({given}" if given != ")" else ""
        assert manager.run(f"SET CHLAUTH('A') TYPE(BLOCKUSER) {listed} ACTION({action})").code == "AMQ8877I"
    assert [row["USERLIST"] for row in rows(manager)] == ([users] if users else [])


def test_removing_from_a_list_what_it_does_not_have_is_refused(manager: Manager) -> None:
    manager.run("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('a')")
    reply = manager.run("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('a','b') ACTION(REMOVE)")
    assert (reply.code, "USERLIST has no b" in reply.text) == ("AMQ8884E", True)


def test_remove_all_takes_the_records_of_one_type_and_profile(manager: Manager) -> None:
    manager.script("""
        SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('192.0.2.1') USERSRC(CHANNEL)
        SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('192.0.2.2') USERSRC(CHANNEL)
        SET CHLAUTH('A') TYPE(USERMAP) CLNTUSER('u') USERSRC(CHANNEL)
        SET CHLAUTH('B') TYPE(ADDRESSMAP) ADDRESS('192.0.2.1') USERSRC(CHANNEL)
        SET CHLAUTH('A') TYPE(ADDRESSMAP) ACTION(REMOVEALL)
    """)
    assert [(row["CHLAUTH"], row["TYPE"]) for row in rows(manager)] == [("A", "USERMAP"), ("B", "ADDRESSMAP")]


def test_the_older_record_keeps_its_age_when_it_is_replaced(manager: Manager) -> None:
    manager.script("""
        SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('192.0.2.1') USERSRC(CHANNEL)
        SET CHLAUTH('B') TYPE(BLOCKUSER) USERLIST('a')
        SET CHLAUTH('A') TYPE(ADDRESSMAP) ADDRESS('192.0.2.1') USERSRC(NOACCESS) ACTION(REPLACE)
        SET CHLAUTH('B') TYPE(BLOCKUSER) USERLIST('b') ACTION(REPLACE)
        SET CHLAUTH('C') TYPE(BLOCKUSER) USERLIST('c')
    """)
    orders = {each.attributes["CHLAUTH"]: each.attributes["ORDER"] for each in manager.objects.values()}
    assert orders == {"A": 1, "B": 2, "C": 3}
    assert "ORDER" not in rows(manager, "A", "ALL")[0]


def with_defaults() -> Manager:
    manager = Manager()
    for each in default_objects(NOON, durable=True):
        manager.objects[each.space, each.name] = each
    return manager


def test_the_default_rules_are_laid_out_as_runmqsc_does() -> None:
    manager = with_defaults()
    assert manager.run("DISPLAY CHLAUTH(SYSTEM*)").text == (
        "AMQ8878I: Display channel authentication record details.\n"
        "   CHLAUTH(SYSTEM.*)                       TYPE(ADDRESSMAP)\n"
        "   ADDRESS(*)                              USERSRC(NOACCESS)\n"
        "AMQ8878I: Display channel authentication record details.\n"
        "   CHLAUTH(SYSTEM.ADMIN.SVRCONN)           TYPE(ADDRESSMAP)\n"
        "   ADDRESS(*)                              USERSRC(CHANNEL)"
    )
    assert [(row["CHLAUTH"], row["USERLIST"]) for row in rows(manager, "'*'", "TYPE(BLOCKUSER)")] == [
        ("*", "*MQADMIN"), ("EVERMQ.SVRCONN", "nobody"),
    ]  # fmt: skip
    (row,) = rows(manager, "EVERMQ.SVRCONN", "TYPE(ADDRESSMAP) ALL")
    assert (row["USERSRC"], row["CHCKCLNT"], row["ADDRESS"]) == ("CHANNEL", "REQUIRED", "*")


MATCHES = [
    ("'*'", "", 5),
    ("'*'", "MATCH(EXACT)", 1),
    ("SYSTEM.ADMIN.SVRCONN", "", 1),
    ("SYSTEM.ADMIN.SVRCONN", "MATCH(EXACT)", 1),
    ("SYSTEM.ADMIN.SVRCONN", "MATCH(ALL)", 3),
    ("'SYSTEM.*'", "MATCH(GENERIC)", 2),
    ("'*SVRCONN'", "", 3),
    ("'*'", "WHERE(USERLIST CT nobody)", 0),
    ("'*'", "WHERE(USERLIST CT 'nobody')", 1),
    ("'*'", "WHERE(USERSRC EQ NOACCESS)", 1),
]


@pytest.mark.parametrize(("name", "more", "count"), MATCHES)
def test_display_chooses_by_match_and_type(name: str, more: str, count: int) -> None:
    assert len(rows(with_defaults(), name, more)) == count


def test_runcheck_is_a_question_for_the_judge(manager: Manager) -> None:
    manager.run("DISPLAY CHLAUTH(A.B) MATCH(RUNCHECK) ADDRESS('192.0.2.7') CLNTUSER('jane') SSLPEER('CN=x')")
    assert manager.asked == [RunCheckRequest("A.B", "192.0.2.7", "CN=x", "", "jane", "")]


def test_what_is_only_kept_says_so(manager: Manager) -> None:
    reply = manager.run("SET CHLAUTH('A') TYPE(QMGRMAP) QMNAME('QM2') USERSRC(CHANNEL) CUSTOM('x')")
    assert [line.split()[1] for line in reply.warnings] == ["TYPE(QMGRMAP)", "CUSTOM"]
