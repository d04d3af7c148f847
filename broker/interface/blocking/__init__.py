"""The blocking faces of connections, queues and units of work, for threads and programs without an event loop.

A face has the calls of what is behind it under their names and with their arguments. Each runs there, on the event loop
of its portal, while the thread waits. Nothing is decided here: `Blocking` makes all calls out of those of the
asynchronous interface, and type checkers take their signatures from there.

A handler that runs in a thread is given such a face of its connection. Where an event loop runs, its calls are
coroutines all the same (`Portal.gives_coroutines`), and what it opens there is as of the asynchronous interface.
"""

from broker.interface.blocking.connection import SyncConnection as SyncConnection
from broker.interface.blocking.connection import SyncDeliveries as SyncDeliveries
from broker.interface.blocking.own import OwnConnection as OwnConnection
from broker.interface.blocking.queue import SyncQueue as SyncQueue
from broker.interface.blocking.queue import SyncUnitOfWork as SyncUnitOfWork
from broker.interface.blocking.work import SyncClaimedBatch as SyncClaimedBatch
from broker.interface.blocking.work import SyncClaims as SyncClaims
from broker.interface.blocking.work import SyncConsumer as SyncConsumer
from broker.interface.blocking.work import SyncSink as SyncSink
from broker.interface.blocking.work import SyncSinkBatch as SyncSinkBatch
from broker.interface.blocking.work import SyncSinks as SyncSinks
from broker.interface.blocking.work import SyncTriggerStart as SyncTriggerStart
from broker.interface.blocking.work import SyncTriggerStarts as SyncTriggerStarts
