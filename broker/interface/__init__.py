"""The message queue interface as Python programs see it: connections, queues, messages.

Written once, over a `Port`: embedded, the port is a conversation of the queue manager in this process; over the wire it
is the client's. Nothing here knows which.
"""

from broker.interface.async_puts import AsyncStatus as AsyncStatus
from broker.interface.connection import Connection as Connection
from broker.interface.message import Message as Message
from broker.interface.message import PutResult as PutResult
from broker.interface.port import Call as Call
from broker.interface.port import Delivery as Delivery
from broker.interface.port import Distribution as Distribution
from broker.interface.port import Lease as Lease
from broker.interface.port import Opened as Opened
from broker.interface.port import PendingQueue as PendingQueue
from broker.interface.port import PendingStarts as PendingStarts
from broker.interface.port import Placed as Placed
from broker.interface.port import Port as Port
from broker.interface.queue import Queue as Queue
from broker.interface.starts import TriggerStart as TriggerStart
from broker.interface.starts import TriggerStarts as TriggerStarts
from broker.interface.units import UnitOfWork as UnitOfWork
