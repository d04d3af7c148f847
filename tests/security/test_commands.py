"""The rights that commands need: each is carried out as its caller (security 2.4, 7)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker.commands.language.words import COMMANDS
from broker.core.security.profiles import CLASS
from broker.core.security.rights import Q, Right, all_of
from broker.mqi import MQOO, MQRC, MQError
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQCO
from tests.first_user import FIRST_USER, HASH
from tests.security.test_verbs import consumer, staged
from tests.security.world import MANAGER, Rights, World, world

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection
    from broker.mqi.replies import CommandReply

PROCESS, CHANNEL, AUTHINFO = MQOT.PROCESS.value, MQOT.CHANNEL.value, MQOT.AUTH_INFO.value
R = Right
DENIED = "AMQ8135E: Not authorized."
LOCAL, ALIAS, REMOTE, MODEL = (f"SYSTEM.DEFAULT.{kind}.QUEUE" for kind in ("LOCAL", "ALIAS", "REMOTE", "MODEL"))


class Case(NamedTuple):
    """A command, and the rights that it needs beside CONNECT and DSP on the queue manager. The owner prepares it."""

    command: str
    needs: Rights
    prepare: str | Callable[[World], Awaitable[object]] = ""


def defining(kind: str, model: str, more: str = "") -> Case:
    return Case(f"DEFINE {kind}(NEW) {more}", {(Q, CLASS): R.CRT, (Q, model): R.DSP})


def on(object_type: int, right: Right, name: str = "Q") -> Rights:
    return {(object_type, name): right}


def on_manager(right: Right) -> Rights:
    return {MANAGER: right}


CHANNEL_C = "DEFINE CHANNEL(C) CHLTYPE(SVRCONN)"
AUTHINFO_I = "DEFINE AUTHINFO(I) AUTHTYPE(IDPWOS)"
RECORD = "PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob')"
CFSTRUCT = on_manager(R.CTRL)

CASES: dict[tuple[str, str], list[Case]] = {
    ("ALTER", "QLOCAL"): [
        Case("ALTER QLOCAL(Q) MAXDEPTH(7)", on(Q, R.CHG)),
        Case("ALTER QLOCAL(Q) USAGE(XMITQ)", {(Q, "Q"): R.CHG, MANAGER: R.CHG}),
        Case("ALTER QLOCAL(Q) INITQ(OTHER)", {(Q, "Q"): R.CHG, (Q, "OTHER"): R.CHG}),
        Case("ALTER QLOCAL(Q) BOQNAME(OTHER)", {(Q, "Q"): R.CHG, (Q, "OTHER"): R.CHG}),
        Case("ALTER QLOCAL(Q) PROCESS(WORK)", {(Q, "Q"): R.CHG, (PROCESS, "WORK"): R.CHG}),
    ],
    ("ALTER", "QALIAS"): [
        Case("ALTER QALIAS(ALIAS) DESCR('x')", on(Q, R.CHG, "ALIAS")),
        Case("ALTER QALIAS(ALIAS) TARGET(OTHER)", on(Q, R.CHG, "ALIAS")),  # as it was
        Case("ALTER QALIAS(ALIAS) TARGET(Q)", {(Q, "ALIAS"): R.CHG, (Q, "Q"): R.CHG}),
    ],
    ("ALTER", "QREMOTE"): [
        Case("ALTER QREMOTE(REMOTE) DESCR('x')", on(Q, R.CHG, "REMOTE")),
        Case("ALTER QREMOTE(REMOTE) XMITQ(OTHER)", {(Q, "REMOTE"): R.CHG, (Q, "OTHER"): R.CHG}),
        Case("ALTER QREMOTE(REMOTE) RQMNAME(' ')", {(Q, "REMOTE"): R.CHG, (Q, "THERE"): R.CHG}),
        Case("ALTER QREMOTE(REMOTE) RQMNAME(QM1) RNAME(Q)", {(Q, "REMOTE"): R.CHG, (Q, "Q"): R.CHG}),
        Case("ALTER QREMOTE(REMOTE) XMITQ(' ') RQMNAME(XQ)", {(Q, "REMOTE"): R.CHG, (Q, "XQ"): R.CHG}),
        Case(
            "ALTER QREMOTE(REMOTE) XMITQ(' ')",
            {(Q, "REMOTE"): R.CHG, (Q, "XQ"): R.CHG},
            "ALTER QMGR DEFXMITQ(XQ)",
        ),
    ],
    ("ALTER", "QMODEL"): [Case("ALTER QMODEL(MODEL) MAXDEPTH(7)", on(Q, R.CHG, "MODEL"))],
    ("ALTER", "PROCESS"): [Case("ALTER PROCESS(WORK) USERDATA('x')", on(PROCESS, R.CHG, "WORK"))],
    ("ALTER", "CFSTRUCT"): [Case("ALTER CFSTRUCT(S) RECOVER(YES)", CFSTRUCT)],
    ("ALTER", "USER"): [Case("ALTER USER('root') DESCR('x')", on_manager(R.CHG), FIRST_USER)],
    ("ALTER", "AUTHINFO"): [
        Case("ALTER AUTHINFO(I) AUTHTYPE(IDPWOS) FAILDLAY(2)", {(AUTHINFO, "I"): R.CHG, MANAGER: R.CHG}, AUTHINFO_I)
    ],
    ("ALTER", "CHANNEL"): [
        Case("ALTER CHANNEL(C) CHLTYPE(SVRCONN) MAXINST(7)", {(CHANNEL, "C"): R.CHG, MANAGER: R.CHG}, CHANNEL_C)
    ],
    ("ALTER", "QMGR"): [Case("ALTER QMGR DESCR('x')", on_manager(R.CHG))],
    ("BACKUP", "CFSTRUCT"): [Case("BACKUP CFSTRUCT(S)", CFSTRUCT)],
    ("CLEAR", "QLOCAL"): [Case("CLEAR QLOCAL(Q)", on(Q, R.CLR))],
    ("DEFINE", "QLOCAL"): [
        defining("QLOCAL", LOCAL),
        Case("DEFINE QLOCAL(NEW)", {(Q, "NEW"): R.CRT, (Q, LOCAL): R.DSP}),  # of a profile of names
        Case("DEFINE QLOCAL(NEW) LIKE(OTHER)", {(Q, CLASS): R.CRT, (Q, "OTHER"): R.DSP}),
        Case("DEFINE QLOCAL(Q) REPLACE", {(Q, "Q"): R.CHG, (Q, LOCAL): R.DSP}),
        Case("DEFINE QLOCAL(NEW) REPLACE", {(Q, CLASS): R.CRT, (Q, LOCAL): R.DSP}),
    ],
    ("DEFINE", "QALIAS"): [
        defining("QALIAS", ALIAS),
        Case("DEFINE QALIAS(NEW) TARGET(Q)", {(Q, CLASS): R.CRT, (Q, ALIAS): R.DSP, (Q, "Q"): R.CHG}),
        Case("DEFINE QALIAS(NEW) LIKE(ALIAS)", {(Q, CLASS): R.CRT, (Q, "ALIAS"): R.DSP, (Q, "OTHER"): R.CHG}),
    ],
    ("DEFINE", "QREMOTE"): [defining("QREMOTE", REMOTE)],
    ("DEFINE", "QMODEL"): [defining("QMODEL", MODEL)],
    ("DEFINE", "PROCESS"): [
        Case("DEFINE PROCESS(NEW)", {(PROCESS, CLASS): R.CRT, (PROCESS, "SYSTEM.DEFAULT.PROCESS"): R.DSP})
    ],
    ("DEFINE", "CFSTRUCT"): [Case("DEFINE CFSTRUCT(S)", CFSTRUCT)],
    ("DEFINE", "USER"): [Case("DEFINE USER('bob')", on_manager(R.CHG), FIRST_USER)],
    ("DEFINE", "AUTHINFO"): [
        Case(
            AUTHINFO_I,
            {(AUTHINFO, CLASS): R.CRT, (AUTHINFO, "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"): R.DSP, MANAGER: R.CHG},
        )
    ],
    ("DEFINE", "CHANNEL"): [
        Case(CHANNEL_C, {(CHANNEL, CLASS): R.CRT, (CHANNEL, "SYSTEM.DEF.SVRCONN"): R.DSP, MANAGER: R.CHG}),
        Case(
            "DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) CONNAME('x')",
            {(MQOT.CLNTCONN_CHANNEL.value, CLASS): R.CRT, MANAGER: R.CHG},
        ),
    ],
    **{
        ("DELETE", kind): [Case(f"DELETE {kind}({name})", on(Q, R.DLT, name))]
        for kind, name in (("QLOCAL", "OTHER"), ("QALIAS", "ALIAS"), ("QREMOTE", "REMOTE"), ("QMODEL", "MODEL"))
    },
    ("DELETE", "PROCESS"): [Case("DELETE PROCESS(WORK)", on(PROCESS, R.DLT, "WORK"))],
    ("DELETE", "CFSTRUCT"): [Case("DELETE CFSTRUCT(S)", CFSTRUCT)],
    ("DELETE", "USER"): [Case("DELETE USER('root')", on_manager(R.CHG), FIRST_USER)],
    ("DELETE", "AUTHINFO"): [Case("DELETE AUTHINFO(I)", {(AUTHINFO, "I"): R.DLT, MANAGER: R.CHG}, AUTHINFO_I)],
    ("DELETE", "CHANNEL"): [Case("DELETE CHANNEL(C)", on(CHANNEL, R.DLT, "C"), CHANNEL_C)],
    ("DELETE", "AUTHREC"): [Case(f"DELETE AUTHREC {RECORD}", on_manager(R.CHG), f"SET AUTHREC {RECORD} AUTHADD(GET)")],
    ("DISPLAY", "QUEUE"): [Case("DISPLAY QUEUE(Q)", on(Q, R.DSP))],
    **{
        ("DISPLAY", kind): [Case(f"DISPLAY {kind}({name})", on(Q, R.DSP, name))]
        for kind, name in (("QLOCAL", "OTHER"), ("QALIAS", "ALIAS"), ("QREMOTE", "REMOTE"), ("QMODEL", "MODEL"))
    },
    ("DISPLAY", "PROCESS"): [Case("DISPLAY PROCESS(WORK)", on(PROCESS, R.DSP, "WORK"))],
    ("DISPLAY", "AUTHINFO"): [Case("DISPLAY AUTHINFO(I)", on(AUTHINFO, R.DSP, "I"), AUTHINFO_I)],
    ("DISPLAY", "CHANNEL"): [Case("DISPLAY CHANNEL(C)", on(CHANNEL, R.DSP, "C"), CHANNEL_C)],
    ("DISPLAY", "QSTATUS"): [Case("DISPLAY QSTATUS(Q) TYPE(CLAIM)", on(Q, R.DSP), consumer)],
    **{
        ("DISPLAY", noun): [Case(command, on_manager(R.DSP))]
        for noun, command in {
            "QMGR": "DISPLAY QMGR",
            "USER": "DISPLAY USER(*)",
            "CHLAUTH": "DISPLAY CHLAUTH(*)",
            "AUTHREC": "DISPLAY AUTHREC",
            "ENTAUTH": "DISPLAY ENTAUTH PRINCIPAL('bob') OBJNAME(Q) OBJTYPE(QUEUE)",
            "CFSTRUCT": "DISPLAY CFSTRUCT(*)",
            "CFSTATUS": "DISPLAY CFSTATUS(*)",
            "GROUP": "DISPLAY GROUP",
            "THREAD": "DISPLAY THREAD(*) TYPE(INDOUBT)",
        }.items()
    },
    ("MOVE", "QLOCAL"): [Case("MOVE QLOCAL(Q) TOQLOCAL(OTHER)", {(Q, "Q"): R.GET, (Q, "OTHER"): R.PUT})],
    ("RECOVER", "CFSTRUCT"): [Case("RECOVER CFSTRUCT(S)", CFSTRUCT)],
    ("REFRESH", "CONFIG"): [Case("REFRESH CONFIG", on_manager(R.CHG))],
    ("REFRESH", "SECURITY"): [Case("REFRESH SECURITY", on_manager(R.CHG))],
    ("RESET", "SINK"): [Case("RESET SINK(S)", on(Q, R.CLR), staged)],
    ("RESET", "CFSTRUCT"): [Case("RESET CFSTRUCT(S) ACTION(FAIL)", CFSTRUCT)],
    ("RESOLVE", "CONSUMER"): [Case("RESOLVE CONSUMER(C) ACTION(BACKOUT) PINNED(YES)", on(Q, R.CLR), consumer)],
    ("RESOLVE", "INDOUBT"): [
        Case("RESOLVE INDOUBT(jobs/0/0/0) ACTION(BACKOUT)", on_manager(R.CTRL)),
        Case("RESOLVE INDOUBT(jobs/0/0/0) QMNAME(QM2) ACTION(BACKOUT)", on_manager(R.CTRL)),
    ],
    ("SET", "AUTHREC"): [Case(f"SET AUTHREC {RECORD} AUTHADD(GET)", on_manager(R.CHG))],
    ("SET", "CHLAUTH"): [Case("SET CHLAUTH('C') TYPE(USERMAP) CLNTUSER('x') MCAUSER('y')", on_manager(R.CHG))],
    ("START", "CHANNEL"): [Case("START CHANNEL(C)", on(CHANNEL, R.CTRL, "C"), CHANNEL_C)],
    ("STOP", "CHANNEL"): [Case("STOP CHANNEL(C)", on(CHANNEL, R.CTRL, "C"), CHANNEL_C)],
}
EACH = [case for cases in CASES.values() for case in cases]
NOT_HERE = ("CFSTRUCT", "GROUP", "CFSTATUS", "MOVE", "QMNAME", "CONFIG")
"""Commands that are refused for another reason where there is no group or no daemon, once they are judged."""
FOUND_NOTHING = "AMQ8147E"


def test_x7_1_each_command_has_a_right() -> None:
    assert {*CASES} == {(verb, noun) for verb, nouns in COMMANDS.items() for noun in nouns}


@pytest.mark.parametrize("case", EACH, ids=[case.command for case in EACH])
async def test_x7_1_each_command_needs_its_right(case: Case) -> None:
    async with world() as it:
        await _prepare(it, case)
        for where, rights in case.needs.items():
            for right in rights:
                if (where, right) == (MANAGER, Right.DSP):
                    continue  # below
                _give(it, {**case.needs, where: rights & ~right})
                async with it.connect("alice") as connection:
                    assert (await _run(connection, case.command)).text == DENIED
        _give(it, case.needs)
        async with it.connect("alice") as connection:
            reply = await _run(connection, case.command)
        assert reply.code != "AMQ8135E"
        assert reply.ok or reply.code == FOUND_NOTHING or any(word in case.command for word in NOT_HERE), reply.text


async def _prepare(it: World, case: Case) -> None:
    if isinstance(case.prepare, str):
        for reply in await it.owner.mqsc(case.prepare):
            assert reply.ok, reply.text
    else:
        await case.prepare(it)


def _give(it: World, rights: Rights) -> None:
    it.give("alice", {**rights, MANAGER: rights.get(MANAGER, Right.NONE) | Right.CONNECT | Right.DSP})


async def _run(connection: Connection, command: str) -> CommandReply:
    (reply,) = await connection.mqsc(command)
    return reply


async def test_x7_1_rows_are_shown_to_whom_may_display_them() -> None:
    async with world() as it:
        await consumer(it)
        it.let_connect("alice", {"OTHER": R.DSP, "ALIAS": R.DSP}, R.DSP)
        async with it.connect("alice") as connection:
            shown = await connection.mqsc("DISPLAY QUEUE(*)")
            assert [row["QUEUE"] for row in shown[0].attributes] == ["ALIAS", "OTHER"]
            (reply,) = await connection.mqsc("DISPLAY QSTATUS(*) TYPE(CLAIM)")
            assert reply.code == "AMQ8147E"
            (reply,) = await connection.mqsc("DISPLAY QUEUE(NOWHERE)")
            assert reply.text == DENIED  # whether it exists is not told


async def test_x7_1_a_row_of_several_queues_needs_all_of_them() -> None:
    async with world() as it:
        await staged(it)
        for rights, seen in (({}, 0), ({"Q": R.DSP}, 1)):
            it.let_connect("alice", rights, R.DSP)
            async with it.connect("alice") as connection:
                (reply,) = await connection.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)")
            assert len(reply.attributes) == seen


async def test_x7_1_a_user_that_is_disabled_commands_nothing_more() -> None:
    async with world() as it:
        await it.owner.mqsc(f"{FIRST_USER}\nDEFINE USER('alice')")
        it.let_connect("alice", {"Q": R.DSP}, R.DSP)
        async with it.connect("alice") as connection:
            assert (await _run(connection, "DISPLAY QUEUE(Q)")).ok
            await it.owner.mqsc("ALTER USER('alice') STATUS(DISABLED)")
            with pytest.raises(MQError) as ended:
                await _run(connection, "DISPLAY QUEUE(Q)")
            assert ended.value.reason == MQRC.CONNECTION_BROKEN


async def test_x7_1_a_refusal_is_logged_with_its_rule(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with world() as it:
        it.let_connect("alice", on_manager=R.DSP)
        async with it.connect("alice") as connection:
            await connection.mqsc("DELETE QLOCAL(Q)")
    assert "not_authorized user=alice application= step=command rule=alice has no DLT on QUEUE Q" in caplog.text


@pytest.mark.parametrize(
    "command",
    [
        "DEFINE QALIAS(MINE) TARGET(OTHER)",
        "DEFINE QALIAS(MINE) LIKE(ALIAS)",
        "DEFINE QLOCAL(MINE) BOQNAME(OTHER)",
        "DEFINE QLOCAL(MINE) INITQ(OTHER)",
        "DEFINE QLOCAL(MINE) PROCESS(WORK)",
        "DEFINE QLOCAL(MINE) USAGE(XMITQ)",
        "DEFINE QMODEL(MINE) BOQNAME(OTHER)",
        "DEFINE QREMOTE(MINE) RNAME(OTHER) RQMNAME(QM1)",
        "DEFINE QREMOTE(MINE) RNAME(OTHER)",
        "DEFINE QREMOTE(MINE) RNAME(OTHER) RQMNAME(XQ)",
        "DEFINE QREMOTE(MINE) RNAME(OTHER) RQMNAME(QM2) XMITQ(XQ)",
        "DEFINE QREMOTE(MINE) RNAME(' ') RQMNAME(QM2) XMITQ(XQ)",
        "DEFINE QREMOTE(MINE) RNAME(OTHER) RQMNAME(QM7)",
        "DEFINE QLOCAL(OTHER) REPLACE",
        "ALTER QALIAS(OWN.ALIAS) TARGET(OTHER)",
        "ALTER QLOCAL(OWN) BOQNAME(OTHER)",
        "ALTER QLOCAL(OWN) INITQ(OTHER)",
        "ZMQSC DEFINE QA-MINE TARGQ-OTHER",
    ],
)
async def test_x7_3_who_may_create_alone_reaches_no_queue_of_others(command: str) -> None:
    async with world() as it:
        templates = dict.fromkeys((LOCAL, ALIAS, REMOTE, MODEL, "ALIAS"), R.DSP)
        it.let_connect("alice", {CLASS: R.CRT, **templates}, R.DSP)
        async with it.connect("alice") as connection:
            for reply in await connection.mqsc("DEFINE QLOCAL(OWN)\nDEFINE QALIAS(OWN.ALIAS) TARGET(OWN)"):
                assert reply.ok, reply.text
            assert (await _run(connection, command)).text == DENIED


async def test_x7_1_commands_for_other_members_are_not_for_users_who_are_judged() -> None:
    async with world() as it, it.connect("mqm") as connection:
        (reply,) = await connection.mqsc("DISPLAY QUEUE(Q) CMDSCOPE(QM1)")
        assert reply.ok


# Who creates


async def test_who_creates_an_object_may_do_everything_with_it() -> None:
    async with world() as it:
        it.let_connect("alice", {CLASS: R.CRT, LOCAL: R.DSP}, R.DSP)
        authority = it.manager.core.objects.authority
        async with it.connect("alice") as connection:
            await connection.mqsc("DEFINE QLOCAL(MINE) DEFPSIST(NO)")
            assert authority.rights("alice", Q, "MINE") == all_of(Q)
            async with connection.open("MINE", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
                await queue.put(b"x")
            for reply in await connection.mqsc("DEFINE QLOCAL(MINE) REPLACE\nDELETE QLOCAL(MINE) PURGE"):
                assert reply.ok, reply.text
        assert authority.rights("alice", Q, "MINE") == Right.NONE
        assert it.manager.core.objects.records == {}


async def test_administrators_and_the_owner_need_no_record() -> None:
    async with world() as it, it.connect("mqm") as connection:
        for each in (it.owner, connection):
            (reply,) = await each.mqsc("DEFINE QLOCAL(MINE) REPLACE")
            assert reply.ok
        await connection.mqsc("DEFINE QLOCAL(OTHERS)")
        assert it.manager.core.objects.records == {}


async def test_a_permanent_dynamic_queue_comes_and_goes_with_its_record() -> None:
    async with world() as it:
        it.let_connect("alice", {"LASTING": R.GET | R.DSP})
        authority = it.manager.core.objects.authority
        async with it.connect("alice") as connection:
            queue = await connection.open("LASTING", MQOO.INPUT_SHARED)
            assert authority.rights("alice", Q, queue.name) == all_of(Q)
            async with connection.open(queue.name, MQOO.OUTPUT):
                pass
            await queue.close(MQCO.DELETE)
            assert it.manager.core.objects.records == {}


async def test_a_temporary_queue_has_no_record() -> None:
    async with world() as it:
        it.let_connect("alice", {"MODEL": R.GET | R.DSP})
        async with it.connect("alice") as connection, connection.open("MODEL", MQOO.INPUT_SHARED):
            assert it.manager.core.objects.records == {}


# The first user


@pytest.mark.parametrize(
    "given",
    ["", "GROUPS('mqm')", "GROUPS('app') PASSWORD('{HASH}')", "GROUPS('mqm') PASSWORD('{HASH}') STATUS(DISABLED)"],
)
async def test_x1_3_the_first_user_is_an_administrator_with_a_password(given: str) -> None:
    async with world() as it:
        reply = await _run(it.owner, f"DEFINE USER('bob') {given.format(HASH=HASH)}")
        assert (reply.ok, reply.code) == (False, "EMQ0026E")
        assert "evermq user add" in reply.text
        assert "CHECKED" not in it.manager.core.objects.definition.attributes
        assert (await _run(it.owner, FIRST_USER)).ok
        assert it.manager.core.objects.definition.attributes["CHECKED"] == 1
        assert (await _run(it.owner, "DEFINE USER('bob')")).ok
        await it.owner.mqsc("DELETE USER('bob')\nDELETE USER('root')\nALTER QMGR DESCR('x')")
        assert it.manager.core.objects.definition.attributes["CHECKED"] == 1
