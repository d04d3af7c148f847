"""Handlers of messages: apps, for programs that know no MQ, and the fast-path trigger monitor, for those that do.

    app = App("mq://127.0.0.1:1414")

    @app.handler("ORDERS")
    async def ship(order: Order) -> None: ...

    async with app.running(): ...

The trigger monitor starts a coroutine for the messages that arrive on triggered queues:

    @process("MYPROCESS")
    async def on_message(trigger: TriggerMessage, connection: broker.Connection) -> None: ...

    async with TriggerMonitor(manager, handlers=["my.handlers"]): ...

Both are users of the public interface of `broker` like any other: they run beside an embedded queue manager, inside the
daemon, or in a process of their own, over the wire. The queue manager counts what is to be started, not they.
"""

from broker import Message as Message
from triggers.app import App as App
from triggers.attempt import Attempt as Attempt
from triggers.bodies import Group as Group
from triggers.bodies import UnreadableError as UnreadableError
from triggers.commands import Commands as Commands
from triggers.definitions import NotServableError as NotServableError
from triggers.handler import HandlerOptions as HandlerOptions
from triggers.handlers import HandlerImportError as HandlerImportError
from triggers.initiation import InitiationMonitor as InitiationMonitor
from triggers.initiation import InitiationStatistics as InitiationStatistics
from triggers.middleware import Delivery as Delivery
from triggers.middleware import Middleware as Middleware
from triggers.monitor import TriggerMonitor as TriggerMonitor
from triggers.monitor import TriggerStatistics as TriggerStatistics
from triggers.process import TriggerMessage as TriggerMessage
from triggers.process import process as process
from triggers.putting import PutOptions as PutOptions
from triggers.tick import Tick as Tick
from triggers.verdicts import BatchError as BatchError
from triggers.verdicts import Later as Later
from triggers.verdicts import Reject as Reject
from triggers.verdicts import RequestError as RequestError
from triggers.verdicts import Retry as Retry
