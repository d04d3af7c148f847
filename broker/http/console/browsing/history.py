"""The records of a message on the history of its queue, if the queue has one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from broker.http.console.browsing.search import MessageSearch
from broker.http.console.elements import badge, fields, section, shown, when
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.mqi.history import history_q_name, read_record

if TYPE_CHECKING:
    from htpy import Node

    from broker import Connection
    from broker.mqi.history import HistoryRecord

RECORDS_SHOWN: Final = 10
_ABSENT: Final = frozenset({MQRC.UNKNOWN_OBJECT_NAME, MQRC.NOT_AUTHORIZED, MQRC.OBJECT_NAME_ERROR})


async def history_of(connection: Connection, q_name: str, msg_id: bytes, now: float) -> Node:
    """The records of a message, the last ten; nothing where the queue has no history, or the caller may not see it."""
    records: list[HistoryRecord] = []
    search = MessageSearch(correl_id=msg_id)
    try:
        async with connection.open(history_q_name(q_name), MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as queue:
            async for message in queue.messages(search.descriptor, search.options(MQGMO.BROWSE_NEXT)):
                with suppress(ValueError):
                    records.append(read_record(message.data))
                if len(records) == RECORDS_SHOWN:
                    break
    except MQError as error:
        if error.reason not in _ABSENT:
            raise
    if not records:
        return None
    return section("History", [fields(_pairs(each, now)) for each in records])


def _pairs(record: HistoryRecord, now: float) -> list[tuple[Node, Node]]:
    good = record.outcome == "succeeded"
    pairs: list[tuple[Node, Node]] = [
        ("Outcome", badge(record.outcome.replace("_", " "), "good" if good else "bad")),
        ("Ended", when(record.ended, now)),
        ("Handler", shown(record.handler)),
        ("Attempts", str(record.attempts)),
    ]
    if record.ran is not None:
        pairs.append(("Ran", f"{record.ran:.3f} s"))
    if record.failure:
        pairs.append(("Error", shown(record.failure, 500)))
    if record.value is not None:
        pairs.append(("Value", shown(str(record.value), 500)))
    return pairs
