"""The message queue interface as Python programs see it: connections, queues, messages.

Written once, over a `Port`: embedded, the port is a conversation of the queue manager in this process; over the wire it
is the client's. Nothing here knows which.
"""

from broker.interface.answers import Distribution as Distribution
from broker.interface.answers import GetAnswer as GetAnswer
from broker.interface.answers import Opened as Opened
from broker.interface.answers import PendingQueue as PendingQueue
from broker.interface.answers import PendingStarts as PendingStarts
from broker.interface.answers import Placed as Placed
from broker.interface.answers import StartLease as StartLease
from broker.interface.batches.async_puts import AsyncStatus as AsyncStatus
from broker.interface.batches.column_messages import ColumnMessage as ColumnMessage
from broker.interface.batches.columns import Columns as Columns
from broker.interface.blocking import SyncConnection as SyncConnection
from broker.interface.blocking import SyncQueue as SyncQueue
from broker.interface.claims.claim_calls import Claims as Claims
from broker.interface.claims.claims import BrowseSelection as BrowseSelection
from broker.interface.claims.claims import ConsumerState as ConsumerState
from broker.interface.claims.claims import Cut as Cut
from broker.interface.claims.claims import Publication as Publication
from broker.interface.claims.claims import QueueRange as QueueRange
from broker.interface.claims.claims import Registration as Registration
from broker.interface.claims.claims import Staged as Staged
from broker.interface.claims.claims import UnitName as UnitName
from broker.interface.claims.claims import Winner as Winner
from broker.interface.claims.consumer import ClaimedBatch as ClaimedBatch
from broker.interface.claims.consumer import Consumer as Consumer
from broker.interface.claims.sinks import Sink as Sink
from broker.interface.claims.sinks import SinkBatch as SinkBatch
from broker.interface.claims.sinks import Sinks as Sinks
from broker.interface.claims.staging import Row as Row
from broker.interface.claims.staging import Staging as Staging
from broker.interface.connection import Connection as Connection
from broker.interface.handlers.deliveries import Delivered as Delivered
from broker.interface.handlers.deliveries import Deliveries as Deliveries
from broker.interface.handlers.delivery_connection import DeliveryConnection as DeliveryConnection
from broker.interface.handlers.starts import TriggerStart as TriggerStart
from broker.interface.handlers.starts import TriggerStarts as TriggerStarts
from broker.interface.message import Message as Message
from broker.interface.message import PutResult as PutResult
from broker.interface.port import Call as Call
from broker.interface.port import Port as Port
from broker.interface.portal import Portal as Portal
from broker.interface.portal import portal_here as portal_here
from broker.interface.queue import Queue as Queue
from broker.interface.units import UnitOfWork as UnitOfWork
from broker.mqi.delivery_fields import Settled as Settled
