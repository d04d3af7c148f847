"""Stores keep messages and definitions: the Store protocol and the stores that satisfy it.

It holds no rule of a queue. What whoever writes a store of their own needs is exported here; `memory` and `log_store`
have a store each.

Rooms: `disk` (the operating system), `log` (the journal), `snapshot` (the SQLite database behind it), `tools` (for
administrators). `creation` and `start` open what lies in a directory, `snapshot_keeper` and `upkeep` keep it in order.
"""

from broker.storage.store import DataDamagedError as DataDamagedError
from broker.storage.store import Done as Done
from broker.storage.store import MessageRow as MessageRow
from broker.storage.store import Numbering as Numbering
from broker.storage.store import ObjectRow as ObjectRow
from broker.storage.store import Rows as Rows
from broker.storage.store import Store as Store
from broker.storage.store import StoreFailedError as StoreFailedError
from broker.storage.store import StoreFullError as StoreFullError
from broker.storage.store import StoreUnusableError as StoreUnusableError
