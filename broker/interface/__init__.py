"""The message queue interface as Python programs see it: connections, queues, messages.

Written once, over a `Port`: embedded, the port is a conversation of the queue manager in this process; over the wire it
is the client's. Nothing here knows which.
"""

from broker.interface.async_puts import AsyncStatus as AsyncStatus
from broker.interface.blocking import SyncConnection as SyncConnection
from broker.interface.blocking import SyncQueue as SyncQueue
from broker.interface.claim_calls import Claims as Claims
from broker.interface.claims import ConsumerState as ConsumerState
from broker.interface.claims import Cut as Cut
from broker.interface.claims import Publication as Publication
from broker.interface.claims import QueueRange as QueueRange
from broker.interface.claims import Registration as Registration
from broker.interface.claims import Staged as Staged
from broker.interface.claims import UnitName as UnitName
from broker.interface.claims import Wanted as Wanted
from broker.interface.claims import Winner as Winner
from broker.interface.column_messages import ColumnMessage as ColumnMessage
from broker.interface.columns import Columns as Columns
from broker.interface.connection import Connection as Connection
from broker.interface.consumer import ClaimedBatch as ClaimedBatch
from broker.interface.consumer import Consumer as Consumer
from broker.interface.deliveries import Delivered as Delivered
from broker.interface.deliveries import Deliveries as Deliveries
from broker.interface.delivery_connection import DeliveryConnection as DeliveryConnection
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
from broker.interface.portal import Portal as Portal
from broker.interface.portal import portal_here as portal_here
from broker.interface.queue import Queue as Queue
from broker.interface.sinks import Sink as Sink
from broker.interface.sinks import SinkBatch as SinkBatch
from broker.interface.sinks import Sinks as Sinks
from broker.interface.staging import Row as Row
from broker.interface.staging import Staging as Staging
from broker.interface.starts import TriggerStart as TriggerStart
from broker.interface.starts import TriggerStarts as TriggerStarts
from broker.interface.units import UnitOfWork as UnitOfWork
from broker.mqi.handling import Settled as Settled
