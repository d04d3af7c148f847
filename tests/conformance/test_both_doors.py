"""Random values in the structures of calls: a program in the queue manager's process and one behind a socket are
answered the same, and nobody after them finds anything broken.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st

from broker import MQError, QueueManager
from broker.interface.answers import GetAnswer
from broker.interface.port import answer
from broker.mqi import (
    MQGMO,
    MQPMO,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    PutMessageOptions,
)
from broker.mqi.layouts.packing import unpack_md
from broker.testing import VirtualClock
from tests.conformance.expect import ALL
from tests.conformance.ways import WAYS
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Queue
    from broker.interface.answers import Placed

INTEGERS = st.sampled_from([0, 1, 2, 3, 5, 8, 100, 546, 1208, 65_536, 999_999_999, 2**31, 2**32 - 1, -1, -2, -(2**31)])
WRONG_INTEGERS = st.sampled_from([2**32, -(2**31) - 1, 2**70, 1.5, None, "1", b"1", [1], object])
"""Without True and 1.0: what equals the value of the call before may be taken for it at either end."""
TEXTS = st.text(st.sampled_from("QMSTR \0é"), max_size=50) | st.sampled_from(["MQSTR   ", "MQHMDE", "Q", "QM1 ", "R"])
WRONG_TEXTS: st.SearchStrategy[Any] = st.sampled_from([5, None, b"Q", "\ud800", [], object])
BYTES = st.sampled_from([bytes(24), bytes(23) + b"X", bytearray(24), memoryview(b"Y" * 24), bytes(32), bytes(16)])
WRONG_BYTES = st.sampled_from([b"", b"short", bytes(33), "x" * 24, None, 5, object])


def values(default: object) -> st.SearchStrategy[Any]:
    """Values for a field: mostly such as it can hold."""
    right, wrong = (
        (TEXTS, WRONG_TEXTS) if isinstance(default, str)
        else (BYTES, WRONG_BYTES) if isinstance(default, bytes)
        else (INTEGERS, WRONG_INTEGERS)
    )  # fmt: skip
    return st.one_of(right, right, right, wrong)


def structures(kind: type, *left_out: str) -> st.SearchStrategy[Any]:
    """A structure in which up to four fields have values of chance."""
    names = [field.name for field in fields(kind) if field.name not in left_out]
    chosen = st.lists(st.sampled_from(names), max_size=4, unique=True)
    return chosen.flatmap(lambda few: st.fixed_dictionaries({name: values(getattr(kind(), name)) for name in few})).map(
        lambda given: kind(**given)
    )


PUTS = st.tuples(
    st.just("put"), structures(MessageDescriptor), structures(PutMessageOptions, "options", "records"),
    st.sampled_from([0, MQPMO.SYNCPOINT.value, MQPMO.NEW_MSG_ID.value, MQPMO.LOGICAL_ORDER.value, 2**40, "1"]),
)  # fmt: skip
GETS = st.tuples(
    st.just("get"), structures(MessageDescriptor), structures(GetMessageOptions, "options"),
    st.sampled_from([0, MQGMO.CONVERT.value, MQGMO.BROWSE_FIRST.value, MQGMO.SYNCPOINT.value, 2**40, None]),
)  # fmt: skip
PUT1S = st.tuples(st.just("put1"), structures(ObjectDescriptor, "records"), structures(MessageDescriptor), st.just(0))


class Door:
    """A program with a queue of its own, and what it is answered."""

    def __init__(self, connection: Connection, queue: Queue) -> None:
        self._connection = connection
        self._queue = queue

    async def outcome(self, verb: str, first: Any, second: Any, options: Any) -> object:
        """Return the outcome of a call."""
        port: Any = self._connection.port
        hobj = self._queue.hobj
        try:
            match verb:
                case "put":
                    second.options = options
                    return shown(await answer(port.put(hobj, first, second, b"data")))
                case "get":
                    second.options = options
                    return shown(await answer(port.get(hobj, first, second, None)))
                case _:
                    if first.object_name == "Q":
                        first.object_name = self._queue.name
                    return shown(await answer(port.put1(first, second, PutMessageOptions(), b"data")))
        except MQError as error:
            return error.reason


def shown(result: Placed | GetAnswer) -> object:
    """All of an answer but the identifiers that were made, tokens, and who is behind the connection."""
    md = MessageDescriptor()
    unpack_md(result.packed_md, md)
    ids = (result.correl_id, result.group_id if not result.group_id.startswith(b"AMQ ") else b"")
    rest = result._replace(packed_md=b"", msg_id=b"", correl_id=b"", group_id=b"")
    if isinstance(rest, GetAnswer):
        rest = rest._replace(token=b"")
    return replace(md, user_identifier=""), ids, rest


@asynccontextmanager
async def doors() -> AsyncIterator[tuple[Door, Door]]:
    """One queue manager and both ways to it."""
    async with (
        QueueManager.open(clock=VirtualClock()) as manager,
        WAYS["tcp"](manager) as tcp,
        manager.connect() as near,
        tcp.connect("") as far,
    ):
        await near.mqsc("DEFINE QLOCAL(NEAR)\nDEFINE QLOCAL(FARR)")
        yield Door(near, await near.open("NEAR", ALL)), Door(far, await far.open("FARR", ALL))
        for connection, name in ((near, "NEAR"), (far, "FARR")):
            await connection.backout()
            async with connection.open(name, ALL) as queue:
                await queue.put(b"last")
                while (await queue.get()).data != b"last":
                    pass


@example(calls=[("get", MessageDescriptor(version=2**70), GetMessageOptions(version=0), 0)])  # no frame can carry it
@tries(60)
@given(calls=st.lists(st.one_of(PUTS, GETS, PUT1S), min_size=1, max_size=25))
async def test_both_doors_give_the_same_answers(calls: list[tuple[Any, ...]]) -> None:
    async with doors() as (near, far):
        for call in calls:
            async with asyncio.timeout(60):
                assert await near.outcome(*call) == await far.outcome(*call), call
