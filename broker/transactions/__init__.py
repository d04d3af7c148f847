"""Transactions of a program's own database together with a unit of work of the queue manager (transactions rule 1).

    commit              the steps from the marker to the decision, written once for all who commit so
    producing           the transaction of a producer: a unit of work of a connection of its own
    transaction         `connection.transaction(db)`, for programs of the MQI
    unit_port           the connection whose unit of work is that of a transaction
    coordinator         a database that a program has opened, with what the program does for its units
    open_transactions   names transactions that are open for long
    turn_calls          what is asked for in one turn of the event loop, in one call
    decisions           decisions on their way to the queue manager
    asking              the search for the outcome of a COMMIT that was not answered
    resolver            decides the units that their owners have left
    markers             deletes markers that nobody needs any more: at once, and what others have left
    time_limit          work that may take so long, and no longer
    steps               the names of the steps, for tests that stop a program between two of them

It stands over `interface` and `databases`, and knows nothing of apps and handlers.
"""

from broker.databases.calls import driven as driven
from broker.databases.database import database_of as database_of
from broker.databases.errors import CommitRefusedError as CommitRefusedError
from broker.databases.errors import DatabaseAwayError as DatabaseAwayError
from broker.databases.errors import OutcomeUnknownError as OutcomeUnknownError
from broker.mqi.external_units import SHARED_UNIT as SHARED_UNIT
from broker.mqi.external_units import Decision as Decision
from broker.mqi.external_units import PreparedDelivery as PreparedDelivery
from broker.transactions.asking import pending as pending
from broker.transactions.commit import Side as Side
from broker.transactions.commit import end_prepared as end_prepared
from broker.transactions.commit import finished as finished
from broker.transactions.coordinator import Coordinator as Coordinator
from broker.transactions.producing import ProducerTransaction as ProducerTransaction
from broker.transactions.steps import TransactionStep as TransactionStep
from broker.transactions.turn_calls import TurnCalls as TurnCalls
from broker.transactions.unit_port import TransactionConnection as TransactionConnection
from broker.transactions.unit_port import unit_connection as unit_connection
