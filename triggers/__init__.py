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

    app         what a program declares, puts and asks for
    bodies      the data of messages as objects of the program
    serving     deliveries taken, their handlers run, and settled
    monitor     the trigger monitor in its generations
    initiation  the monitor of an initiation queue
    schedule    periodic work
    history     the results of messages
    testing     `app.test()`
    transactions  the program's own database together with what an app puts and handles
"""

from typing import TYPE_CHECKING

from broker import Message as Message
from triggers.app.app import App as App
from triggers.app.definitions import NotServableError as NotServableError
from triggers.app.handler import HandlerOptions as HandlerOptions
from triggers.app.middleware import Delivery as Delivery
from triggers.app.middleware import Middleware as Middleware
from triggers.app.putting import PutOptions as PutOptions
from triggers.app.verdicts import BatchError as BatchError
from triggers.app.verdicts import Later as Later
from triggers.app.verdicts import Reject as Reject
from triggers.app.verdicts import RequestError as RequestError
from triggers.app.verdicts import Retry as Retry
from triggers.app.verdicts import StepError as StepError
from triggers.bodies.bodies import Group as Group
from triggers.bodies.bodies import UnreadableError as UnreadableError
from triggers.initiation.commands import Commands as Commands
from triggers.initiation.monitor import InitiationMonitor as InitiationMonitor
from triggers.initiation.monitor import InitiationStatistics as InitiationStatistics
from triggers.monitor.handlers import HandlerImportError as HandlerImportError
from triggers.monitor.monitor import TriggerMonitor as TriggerMonitor
from triggers.monitor.monitor import TriggerStatistics as TriggerStatistics
from triggers.monitor.process import TriggerMessage as TriggerMessage
from triggers.monitor.process import process as process
from triggers.schedule.tick import Tick as Tick
from triggers.serving.attempt import Attempt as Attempt
from triggers.serving.attempt import SyncAttempt as SyncAttempt

if TYPE_CHECKING:
    from triggers.history.results import MessageResult as MessageResult
else:

    def __getattr__(name: str) -> object:
        if name == "MessageResult":  # most programs ask for none
            from triggers.history.results import MessageResult

            return MessageResult
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
