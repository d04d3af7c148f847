"""EverMQ: a durable queue manager with IBM MQ's message queue interface, for asyncio.

async with QueueManager.open(name="QM1", data="qm1-data") as manager:  # embedded
    async with manager.connect() as connection: ...

async with connect("mq://127.0.0.1:1414") as connection: ...  # a client of the daemon
"""

from broker.client import connect as connect
from broker.clock import Clock as Clock
from broker.engine import QueueManager as QueueManager
from broker.interface import Connection as Connection
from broker.interface import Message as Message
from broker.interface import PendingQueue as PendingQueue
from broker.interface import PutResult as PutResult
from broker.interface import Queue as Queue
from broker.interface import TriggerStart as TriggerStart
from broker.interface import TriggerStarts as TriggerStarts
from broker.mqi import MQError as MQError
from broker.storage.store import StoreUnusableError as StoreUnusableError
