"""The queue manager on asyncio: it makes what the core decides durable, and brings the outcome to those who wait.

`manager` is its life, which begins with `opening` and `starting`. `conversation` is a connection, where each call of
the Port is a method, and `context` what all parts share. `shared_queues` says what is asked of a queue-sharing group.

    calls       calls in their order, from their arguments to their answers
    security    passwords, tokens, limits of users
    jobs        calls that take more than one step, and what they wait for
    journal     when a message is durable, visible, acknowledged: the numbered rules; bodies in memory and on disk
    claims      consumers, prepared units and sinks
    external    units of work that a program's own database decides
    handlers    trigger starts and deliveries
    admin       commands, the status, backups
    figures     the figures of all parts for Prometheus: their table, and a scrape of them
"""

from broker.engine.manager import QueueManager as QueueManager
