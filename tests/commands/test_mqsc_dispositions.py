"""QSGDISP and CMDSCOPE: which object of a name a command is about, and at which member (queue-sharing 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.commands.requests import BackUpRequest, FailRequest, MoveRequest, RecoverRequest, ScopedRequest
from broker.core.names.definitions import COPY, GROUP, OWN, SHARED, Clear, Define, Delete

if TYPE_CHECKING:
    from tests.commands.catalog import Manager

MADE = [
    ("DEF QL(N)", OWN),
    ("DEF QL(N) QSGDISP(QMGR)", OWN),
    ("DEF QL(N) QSGDISP(GROUP)", GROUP),
    ("DEF QL(N) QSGDISP(SHARED)", SHARED),
    ("DEF QL(G) QSGDISP(COPY)", COPY),
    ("DEF PRO(N) QSGDISP(GROUP)", GROUP),
    ("ALT QL(Q) DESCR(X)", OWN),
    ("ALT QL(Q) QSGDISP(SHARED) DESCR(X)", SHARED),
    ("ALT QL(S) DESCR(X)", SHARED),
    ("ALT QL(C) QSGDISP(COPY) DESCR(X)", COPY),
    ("ALT QL(C) QSGDISP(PRIVATE) DESCR(X)", COPY),
    ("ALT QL(Q) QSGDISP(PRIVATE) DESCR(X)", OWN),
    ("ALT QL(G) QSGDISP(GROUP) DESCR(X)", GROUP),
    ("DELETE QL(Q)", OWN),
    ("DELETE QL(Q) QSGDISP(SHARED)", SHARED),
    ("DELETE QL(S)", SHARED),
    ("DELETE QL(G) QSGDISP(GROUP)", GROUP),
    ("CLEAR QL(Q)", OWN),
    ("CLEAR QL(Q) QSGDISP(SHARED)", SHARED),
    ("CLEAR QL(S)", SHARED),
    ("CLEAR QL(C) QSGDISP(PRIVATE)", COPY),
    ("ZMQSC DEF QL-N COMMON-YES", SHARED),
    ("ZMQSC DEF QL-N COMMON-NO", OWN),
    ("ZMQSC ALT QL-S MAXDEPTH-5", SHARED),
    ("ZMQSC DELETE QL-S", SHARED),
]
"""What each acts on. Q is private and shared, S shared, G of the group, C of the group and copied."""

REFUSED = [
    ("ALT QL(C) DESCR(X)", "AMQ8147E"),  # a copy is altered only if that is said
    ("ALT QL(G) DESCR(X)", "AMQ8147E"),
    ("ALT QL(S) QSGDISP(QMGR) DESCR(X)", "AMQ8147E"),
    ("ALT QL(G) QSGDISP(COPY) DESCR(X)", "AMQ8147E"),
    ("DEF QL(N) QSGDISP(COPY)", "AMQ8147E"),  # of nothing
    ("DEF QL(S) QSGDISP(SHARED)", "AMQ8150E"),
    ("DEF QL(C) REPLACE", "AMQ8150E"),
    ("DEF QA(S) REPLACE QSGDISP(SHARED)", "AMQ8425E"),
    ("DEF PRO(N) QSGDISP(SHARED)", "AMQ8425E"),
    ("DEF QL(N) QSGDISP(PRIVATE)", "AMQ8425E"),
    ("CLEAR QL(S) QSGDISP(GROUP)", "AMQ8425E"),
    ("DEF QL(N) QSGDISP(SHARED) CFSTRUCT(NONE)", "AMQ8147E"),
    ("DEF QM(N) DEFTYPE(SHAREDYN) CFSTRUCT(NONE)", "AMQ8147E"),
    ("DEF CFSTRUCT(THIRTEENCHARS)", "AMQ8424E"),
    ("DEF QL(N) CMDSCOPE(QM2) CMDSCOPE(QM3)", "AMQ8411E"),
    ("DEF QL(N) CMDSCOPE('no name')", "AMQ8424E"),
    ("DEF QL(N) QSGDISP(GROUP) CMDSCOPE(QM2)", "AMQ8425E"),
    ("RESET CFSTRUCT(APPL)", "AMQ8421E"),
]


@pytest.fixture
def manager(manager: Manager) -> Manager:
    manager.script(
        "DEF QL(Q)\nDEF QL(Q) QSGDISP(SHARED)\nDEF QL(S) QSGDISP(SHARED)\nDEF QL(G) QSGDISP(GROUP) DESCR(ALL)\n"
        "DEF QL(C) QSGDISP(GROUP)\nDEF QL(C) QSGDISP(COPY)"
    )
    manager.changes.clear()
    return manager


@pytest.mark.parametrize(("command", "disposition"), MADE, ids=[command for command, _ in MADE])
def test_a_command_is_about_the_object_with_this_disposition(manager: Manager, command: str, disposition: int) -> None:
    assert manager.run(command).ok
    (change,) = manager.changes
    assert isinstance(change, Define | Delete | Clear)
    found = change.definition.disposition if isinstance(change, Define) else change.disposition
    assert found == disposition


@pytest.mark.parametrize(("command", "code"), REFUSED, ids=[command for command, _ in REFUSED])
def test_what_cannot_be_meant_is_refused(manager: Manager, command: str, code: str) -> None:
    assert (manager.run(command).code, manager.changes) == (code, [])


def test_what_is_not_found_is_told_where_it_is(manager: Manager) -> None:
    assert manager.run("ALT QL(C) DESCR(X)").text == (
        "AMQ8147E: IBM MQ object C not found. There is one with QSGDISP(COPY) and one with QSGDISP(GROUP)."
    )


def test_a_copy_has_the_attributes_of_what_it_is_of(manager: Manager) -> None:
    manager.run("DEF QL(G) QSGDISP(COPY) MAXDEPTH(7)")
    assert (manager.queue("G")["DESCR"], manager.queue("G")["MAXDEPTH"]) == ("ALL", 7)


def test_like_takes_no_disposition_over(manager: Manager) -> None:
    manager.run("DEF QL(N) LIKE(S)")
    assert manager.queue("N")["QSGDISP"] == OWN


def test_a_shared_queue_is_in_the_default_structure_unless_another_is_named(manager: Manager) -> None:
    manager.script("DEF CFSTRUCT(OTHER)\nDEF QL(N) QSGDISP(SHARED) CFSTRUCT(OTHER)")
    found = [manager.find("QUEUE", name, SHARED) for name in ("S", "N")]
    assert [each.attributes["CFSTRUCT"] for each in found if each] == ["APPL", "OTHER"]


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        ("BACKUP CFSTRUCT(A*)", BackUpRequest("A*")),
        ("RECOVER CFSTRUCT(APPL)", RecoverRequest("APPL")),
        ("REC CFSTRUCT(APPL) TYPE(PURGE)", RecoverRequest("APPL", purge=True)),
        ("RESET CFSTRUCT(APPL) ACTION(FAIL)", FailRequest("APPL")),
        ("MOVE QL(Q) QSGDISP(PRIVATE) TOQLOCAL(S) TYPE(ADD)", MoveRequest("Q", "S", shared=False, added=True)),
        ("MOVE QL(Q) QSGDISP(SHARED)", MoveRequest("Q", "Q", shared=True)),
    ],
)
def test_what_the_group_does_is_asked_of_it(manager: Manager, command: str, request_: object) -> None:
    manager.run(command)
    assert manager.asked == [request_]


@pytest.mark.parametrize("scope", ["QM2", "*"])
def test_a_command_for_other_members_is_sent_to_them(manager: Manager, scope: str) -> None:
    manager.run(f"DEF QL(N) CMDSCOPE({scope})")
    (asked,) = manager.asked
    assert isinstance(asked, ScopedRequest)
    assert (asked.scope, asked.text, manager.changes) == (scope, f"DEF QL(N) CMDSCOPE({scope})", [])


@pytest.mark.parametrize("scope", ["QM1", "' '"])
def test_a_command_for_this_member_is_not_sent(manager: Manager, scope: str) -> None:
    assert manager.run(f"DEF QL(N) QSGDISP(SHARED) CMDSCOPE({scope})").ok
    assert manager.asked == []
