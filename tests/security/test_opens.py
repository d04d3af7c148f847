"""Rights on what a program opens (security 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker.core.security.rights import Q, Right
from broker.mqi import MQOO, MQPMO, MQRC, MessageDescriptor, MQError, ObjectDescriptor, PutMessageOptions
from broker.mqi.constants.descriptor import MQRO
from broker.mqi.constants.objects import MQOT
from broker.mqi.structures import ObjectRecord
from tests.security.world import MANAGER, Rights, world

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection

PROCESS = MQOT.PROCESS.value
NOTHING: Rights = {}


class Case(NamedTuple):
    """A call, and all the rights that it needs; those of `other` belong to the alternate user."""

    name: str
    call: Callable[[Connection], Awaitable[object]]
    needs: Rights
    other: Rights = NOTHING


def opening(options: int, name: str = "Q", **fields: object) -> Callable[[Connection], Awaitable[object]]:
    async def call(connection: Connection) -> object:
        od = ObjectDescriptor(object_name=name, **fields)  # type: ignore[arg-type]
        async with connection.open(od, options):
            return None

    return call


def putting(options: int = 0, name: str = "Q", **fields: object) -> Callable[[Connection], Awaitable[object]]:
    async def call(connection: Connection) -> object:
        od = ObjectDescriptor(object_name=name, **fields)  # type: ignore[arg-type]
        return await connection.put1(od, b"x", options=PutMessageOptions(options=options))

    return call


R, P = Right, MQPMO
CASES = [
    Case("input shared", opening(MQOO.INPUT_SHARED), {(Q, "Q"): R.GET}),
    Case("input exclusive", opening(MQOO.INPUT_EXCLUSIVE), {(Q, "Q"): R.GET}),
    Case("input as the queue has it", opening(MQOO.INPUT_AS_Q_DEF), {(Q, "Q"): R.GET}),
    Case("browse", opening(MQOO.BROWSE), {(Q, "Q"): R.BROWSE}),
    Case("output", opening(MQOO.OUTPUT), {(Q, "Q"): R.PUT}),
    Case("inquire", opening(MQOO.INQUIRE), {(Q, "Q"): R.INQ}),
    Case("set", opening(MQOO.SET), {(Q, "Q"): R.SET}),
    Case("all at once", opening(MQOO.INPUT_SHARED | MQOO.BROWSE | MQOO.OUTPUT), {(Q, "Q"): R.GET | R.BROWSE | R.PUT}),
    Case("save context", opening(MQOO.INPUT_SHARED | MQOO.SAVE_ALL_CONTEXT), {(Q, "Q"): R.GET}),
    Case("pass identity", opening(MQOO.OUTPUT | MQOO.PASS_IDENTITY_CONTEXT), {(Q, "Q"): R.PUT | R.PASSID}),
    Case("pass all", opening(MQOO.OUTPUT | MQOO.PASS_ALL_CONTEXT), {(Q, "Q"): R.PUT | R.PASSALL}),
    Case(
        "set identity", opening(MQOO.OUTPUT | MQOO.SET_IDENTITY_CONTEXT), {(Q, "Q"): R.PUT | R.SETID, MANAGER: R.SETID}
    ),
    Case("set all", opening(MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT), {(Q, "Q"): R.PUT | R.SETALL, MANAGER: R.SETALL}),
    Case("a transmission queue", opening(MQOO.OUTPUT, "XQ"), {(Q, "XQ"): R.PUT | R.SETALL, MANAGER: R.SETALL}),
    Case("a transmission queue, to get", opening(MQOO.INPUT_SHARED, "XQ"), {(Q, "XQ"): R.GET}),
    Case("an alias", opening(MQOO.OUTPUT, "ALIAS"), {(Q, "ALIAS"): R.PUT}),
    Case("an alias, to get", opening(MQOO.INPUT_SHARED, "ALIAS"), {(Q, "ALIAS"): R.GET}),
    Case("a remote queue", opening(MQOO.OUTPUT, "REMOTE"), {(Q, "REMOTE"): R.PUT}),
    Case("by queue manager", opening(MQOO.OUTPUT, "THERE", object_q_mgr_name="XQ"), {(Q, "XQ"): R.PUT}),
    Case("by an alias of another", opening(MQOO.OUTPUT, "THERE", object_q_mgr_name="QM8"), {(Q, "XQ"): R.PUT}),
    Case("by an alias of this one", opening(MQOO.OUTPUT, "Q", object_q_mgr_name="QM9"), {(Q, "Q"): R.PUT}),
    Case("a model", opening(MQOO.INPUT_SHARED, "MODEL"), {(Q, "MODEL"): R.GET | R.DSP}),
    Case(
        "a model, by a name of one's own",
        opening(MQOO.INPUT_SHARED, "MODEL", dynamic_q_name="APP.*"),
        {(Q, "MODEL"): R.GET | R.DSP, (Q, "APP.*"): R.GET},
    ),
    Case("a process", opening(MQOO.INQUIRE, "WORK", object_type=MQOT.PROCESS), {(PROCESS, "WORK"): R.INQ}),
    Case("the queue manager", opening(MQOO.INQUIRE, "", object_type=MQOT.Q_MGR), {MANAGER: R.INQ}),
    Case(
        "an alternate user",
        opening(MQOO.OUTPUT | MQOO.ALTERNATE_USER_AUTHORITY, alternate_user_id="bob"),
        {MANAGER: R.ALTUSR},
        {(Q, "Q"): R.PUT},
    ),
    Case("MQPUT1", putting(), {(Q, "Q"): R.PUT}),
    Case("MQPUT1 to an alias", putting(name="ALIAS"), {(Q, "ALIAS"): R.PUT}),
    Case("MQPUT1, set identity", putting(P.SET_IDENTITY_CONTEXT), {(Q, "Q"): R.PUT | R.SETID, MANAGER: R.SETID}),
    Case("MQPUT1, set all", putting(P.SET_ALL_CONTEXT), {(Q, "Q"): R.PUT | R.SETALL, MANAGER: R.SETALL}),
    Case(
        "MQPUT1, an alternate user",
        putting(P.ALTERNATE_USER_AUTHORITY, alternate_user_id="bob"),
        {MANAGER: R.ALTUSR},
        {(Q, "Q"): R.PUT},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_x5_1_each_right_counts(case: Case) -> None:
    async with world() as it:
        everything = {"alice": case.needs, "bob": case.other}
        for user, needs in everything.items():
            it.give(user, _with_connect(needs))
        async with it.connect("alice") as connection:
            await case.call(connection)
            await case.call(connection)  # as known from the first
            for user, needs in everything.items():
                for where, rights in needs.items():
                    for right in rights:
                        it.give(user, _with_connect({**needs, where: rights & ~right}))
                        with pytest.raises(MQError) as refused:
                            await case.call(connection)
                        assert refused.value.reason == MQRC.NOT_AUTHORIZED
                it.give(user, _with_connect(needs))
            await case.call(connection)


def _with_connect(rights: Rights) -> Rights:
    return {**rights, MANAGER: rights.get(MANAGER, Right.NONE) | Right.CONNECT}


async def test_x1_6_a_user_without_rights_does_not_connect() -> None:
    async with world() as it:
        with pytest.raises(MQError) as refused:
            async with it.connect("alice"):
                pass
        assert refused.value.reason == MQRC.NOT_AUTHORIZED


async def test_x5_1_an_administrator_needs_no_record() -> None:
    async with world() as it, it.connect("mqm") as connection:
        for case in CASES:
            if not case.other:
                await case.call(connection)


async def test_x5_1_each_entry_of_a_list_is_judged() -> None:
    async with world() as it:
        it.let_connect("alice", {"Q": Right.PUT})
        records = [ObjectRecord(object_name=name) for name in ("Q", "OTHER")]
        async with (
            it.connect("alice") as connection,
            connection.open(ObjectDescriptor(records=records), MQOO.OUTPUT) as both,
        ):
            assert [record.reason for record in both.records] == [MQRC.NONE, MQRC.NOT_AUTHORIZED]


async def test_x5_2_an_open_handle_keeps_its_rights() -> None:
    async with world() as it:
        it.let_connect("alice", {"Q": Right.PUT})
        async with it.connect("alice") as connection, connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put(b"before")
            it.let_connect("alice", {"Q": Right.NONE})
            await queue.put(b"after")
            with pytest.raises(MQError) as refused:
                async with connection.open("Q", MQOO.OUTPUT):
                    pass
            assert refused.value.reason == MQRC.NOT_AUTHORIZED


@pytest.mark.parametrize("report", [MQRO.COA_WITH_FULL_DATA, MQRO.COD, MQRO.EXPIRATION, MQRO.EXCEPTION])
async def test_x5_3_a_report_needs_put_on_its_queue(report: MQRO) -> None:
    async with world() as it:
        it.let_connect("alice", {"Q": Right.PUT})
        md = MessageDescriptor(report=report, reply_to_q="OTHER")
        async with it.connect("alice") as connection, connection.open("Q", MQOO.OUTPUT) as queue:
            for _ in range(3):
                with pytest.raises(MQError) as refused:
                    await queue.put(b"secret", md)
                assert refused.value.reason == MQRC.NOT_AUTHORIZED
            with pytest.raises(MQError):
                await queue.put_many([(b"secret", md)])
            it.let_connect("alice", {"Q": Right.PUT, "OTHER": Right.PUT})
            await queue.put(b"x", md)


async def test_x5_3_a_reply_queue_that_is_not_there_is_judged_too() -> None:
    async with world() as it:
        it.let_connect("alice", {"Q": Right.PUT})
        md = MessageDescriptor(report=MQRO.COD, reply_to_q="LATER")
        async with it.connect("alice") as connection, connection.open("Q", MQOO.OUTPUT) as queue:
            with pytest.raises(MQError) as refused:
                await queue.put(b"x", md)
            assert refused.value.reason == MQRC.NOT_AUTHORIZED


async def test_an_unknown_name_tells_nothing_of_others() -> None:
    async with world() as it:
        it.let_connect("alice")
        async with it.connect("alice") as connection:
            with pytest.raises(MQError) as unknown:
                async with connection.open("other", MQOO.OUTPUT):
                    pass
            assert unknown.value.reason == MQRC.UNKNOWN_OBJECT_NAME
            assert "OTHER" not in unknown.value.detail


async def test_who_makes_a_temporary_queue_may_use_it() -> None:
    async with world() as it:
        it.let_connect("alice", {"MODEL": Right.GET | Right.DSP})
        it.let_connect("bob")
        async with (
            it.connect("alice") as connection,
            it.connect("bob") as other,
            connection.open("MODEL", MQOO.INPUT_SHARED) as made,
        ):
            async with connection.open(made.name, MQOO.OUTPUT) as queue:
                await queue.put(b"mine")
            with pytest.raises(MQError) as refused:
                async with other.open(made.name, MQOO.OUTPUT):
                    pass
            assert refused.value.reason == MQRC.NOT_AUTHORIZED


async def test_messages_bear_the_user_whose_calls_are_judged() -> None:
    async with world() as it:
        it.let_connect("alice", {"Q": Right.PUT | Right.GET})
        async with (
            it.connect("alice") as first,
            await first.connect() as connection,
            connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue,
        ):
            await queue.put(b"x")
            assert (await queue.get()).md.user_identifier == "alice"
            with pytest.raises(MQError):
                async with connection.open("OTHER", MQOO.OUTPUT):
                    pass
