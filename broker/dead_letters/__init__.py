"""Dead letters: what is on a dead-letter queue, and why; put back to where it came from, or discarded.

    async with DeadLetterQueue(connection, "ORDERS.DEAD") as letters:
        async for letter in letters.browse(Wanted(why="crashed")): ...
        async for outcome in letters.retry(Wanted()): ...

`dead_letter_queues(connection)` says which queues there are for them.

A dead letter is a message with an MQDLH before its data, from whatever queue manager, or one that bears properties of
the folder `evermq`, with which this one tells what handlers have done to it (handlers rules 7.1 and 7.5). Retries and
purges are recorded on SYSTEM.ADMIN.AUDIT.QUEUE, each in the unit of work that does it.

Written over the interface alone: what is done here any program can do, embedded or over the wire.
"""

from broker.dead_letters.letter import DeadLetter as DeadLetter
from broker.dead_letters.letter import read_letter as read_letter
from broker.dead_letters.letter import stamped as stamped
from broker.dead_letters.outcome import Outcome as Outcome
from broker.dead_letters.queue import AUDIT_QUEUE as AUDIT_QUEUE
from broker.dead_letters.queue import DeadLetterQueue as DeadLetterQueue
from broker.dead_letters.queues import dead_letter_queues as dead_letter_queues
from broker.dead_letters.wanted import Wanted as Wanted
