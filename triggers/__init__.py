"""The fast-path trigger monitor: starts a coroutine for the messages that arrive on triggered queues.

    @process("MYPROCESS")
    async def on_message(trigger: TriggerMessage, connection: broker.Connection) -> None: ...

    async with TriggerMonitor(manager, handlers=["my.handlers"]): ...

It is a user of the public interface of `broker` like any other: it runs beside an embedded queue manager, inside the
daemon, or in a process of its own, over the wire. The queue manager counts what is to be started; this counts nothing.
"""

from triggers.handlers import HandlerImportError as HandlerImportError
from triggers.monitor import TriggerMonitor as TriggerMonitor
from triggers.monitor import TriggerStatistics as TriggerStatistics
from triggers.process import TriggerMessage as TriggerMessage
from triggers.process import process as process
