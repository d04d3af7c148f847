"""Resumable groups: a message group put or got over several units of work, which goes on after a crash where it was.

    async with GroupPutter(connection, "Q", "Q.STATUS", messages_per_unit=100) as putter:
        for number in range(putter.resumed_at + 1, len(parts) + 1):
            await putter.put(parts[number - 1], last=number == len(parts))

    async with GroupGetter(connection, "Q", "Q.DONE", messages_per_unit=100) as getter:
        async for message in getter: ...  # the messages of one group, in order

A group that is too large for one unit of work is cut into several; so that a restart knows how far it came, each unit
also replaces a status message on a queue that only this program uses ("Putting and getting a group that spans units of
work" in IBM's documentation; semantics 15.1, scenarios S2 to S7). The status is committed with the messages that it
tells of, so what it says is true after a crash at any point.

Written over the interface alone: what is done here any program can do, embedded or over the wire.
"""

from broker.groups.getter import GroupGetter as GroupGetter
from broker.groups.putter import GroupPutter as GroupPutter
from broker.groups.status import StatusInfo as StatusInfo
