"""DISPLAY QSTATUS TYPE(HANDLE): who has a queue open, and for what."""

from __future__ import annotations

from broker import QueueManager
from broker.mqi import MQOO

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
