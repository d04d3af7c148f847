"""Errors of the program's database: each says what has happened, and what to do about it."""

from __future__ import annotations


class ProgramDatabaseError(Exception):
    """The base of all errors of this package that are no misuse."""


class DatabaseAwayError(ProgramDatabaseError):
    """The database could not be reached, gave no place in its pool, or refused BEGIN: nothing has happened there."""


class DatabaseUnusableError(ProgramDatabaseError):
    """The database is there, and cannot be used as it is: table, rights, durability. The text has the remedy."""


class CommitRefusedError(ProgramDatabaseError):
    """The transaction is not committed, and will not be: the database has said so, or COMMIT was never sent."""


class TransactionEndedError(CommitRefusedError):
    """The program has ended the transaction itself, or has swallowed the error of a statement that ended it."""


class OutcomeUnknownError(ProgramDatabaseError):
    """The connection was lost in COMMIT: the transaction may be committed, or not. The marker tells."""
