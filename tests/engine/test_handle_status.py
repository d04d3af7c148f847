"""DISPLAY QSTATUS TYPE(HANDLE): who has a queue open, and for what."""

from __future__ import annotations

from broker import QueueManager
from broker.mqi import MQOO, ObjectDescriptor, ObjectRecord
from broker.testing import VirtualClock

KEYWORDS = ("QUEUE", "APPLTAG", "INPUT", "BROWSE", "OUTPUT", "INQUIRE", "SET")


async def test_each_handle_is_shown_with_its_program_and_what_it_may_do() -> None:
    async with QueueManager.open(name="QM1", defaults="mq") as manager, manager.connect("orders") as connection:
        await connection.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\nDEFINE QALIAS(ALIAS) TARGET(A)")
        async with (
            connection.open("ALIAS", MQOO.INPUT_EXCLUSIVE | MQOO.INQUIRE),
            connection.open("B", MQOO.INPUT_SHARED | MQOO.BROWSE),
            connection.open("B", MQOO.OUTPUT | MQOO.SET),
        ):
            [reply] = await connection.mqsc("DISPLAY QSTATUS(*) TYPE(HANDLE) ALL")
            shown = sorted(tuple(str(each[name]) for name in KEYWORDS) for each in reply.attributes)
            assert [each for each in shown if not each[0].startswith("SYSTEM.")] == [
                ("A", "orders", "EXCL", "NO", "NO", "YES", "NO"),
                ("B", "orders", "NO", "NO", "YES", "NO", "YES"),
                ("B", "orders", "SHARED", "YES", "NO", "NO", "NO"),
            ]
            [only] = await connection.mqsc("DISPLAY QSTATUS(B) TYPE(HANDLE) WHERE(OUTPUT EQ YES)")
            assert [each["QUEUE"] for each in only.attributes] == ["B"]
        [none] = await connection.mqsc("DISPLAY QSTATUS(B) TYPE(HANDLE)")
        assert not none.attributes


async def test_a_handle_tells_since_when_it_is_open() -> None:
    clock = VirtualClock()
    async with (
        QueueManager.open(name="QM1", clock=clock) as manager,
        manager.connect("orders") as connection,
    ):
        await connection.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\nDEFINE QMODEL(M)")
        records = [ObjectRecord("A"), ObjectRecord("B")]
        descriptor = ObjectDescriptor(records=records)
        async with connection.open("M", MQOO.INPUT_SHARED), connection.open(descriptor, MQOO.OUTPUT):
            await clock.advance(90)
            async with connection.open("A", MQOO.BROWSE):
                [reply] = await connection.mqsc("DISPLAY QSTATUS(*) TYPE(HANDLE) AGE")
        ages = sorted((str(each["QUEUE"])[:3], each["AGE"]) for each in reply.attributes)
        assert [each for each in ages if each[0] != "SYS"] == [("A", 0), ("A", 90), ("AMQ", 90), ("B", 90)]
