"""The queue manager on asyncio: it makes what the core decides durable, and brings the outcome to those who wait."""

from broker.engine.manager import QueueManager as QueueManager
