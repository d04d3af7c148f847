"""The steps of a transaction, for tests that stop a program between two of them."""

from __future__ import annotations

from enum import Enum


class TransactionStep(Enum):
    """A step that has been made: the transaction has begun, the program has done its work, the marker is written, the
    unit is prepared, the database has committed, the queue manager has been told.
    """

    BEGIN = "begin"
    WORK = "work"
    MARK = "mark"
    PREPARE = "prepare"
    COMMIT = "commit"
    DECIDE = "decide"
