"""The reasons of dead letters, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.dead_letters import DeadLetter

_WORDS: Final = {
    "failed": "The handler raised an exception at its last attempt.",
    "timed_out": "The handler took longer than its timeout at the last attempt.",
    "crashed": "The worker was gone before it had settled the message, as often as its handler allows.",
    "rejected": "The handler gave the message up: it raised Reject, and wanted no other attempt.",
    "unreadable": "The handler could not read the body: it does not fit the type that it takes.",
    "later": "The handler put the message off as often as it may.",
    "MQRC_Q_FULL": "The queue that it was for had as many messages as its MAXDEPTH allows.",
    "MQRC_UNKNOWN_OBJECT_NAME": "The queue that it was for is not defined.",
    "MQRC_UNKNOWN_REMOTE_Q_MGR": "The queue manager that it was for is not known here.",
    "MQRC_PUT_INHIBITED": "The queue that it was for takes no messages: PUT(DISABLED).",
    "MQRC_NOT_AUTHORIZED": "Its user may not put to the queue that it was for.",
    "MQRC_MSG_TOO_BIG_FOR_Q": "It is longer than MAXMSGL of the queue that it was for.",
    "MQRC_MSG_TOO_BIG_FOR_Q_MGR": "It is longer than MAXMSGL of the queue manager.",
    "MQRC_PERSISTENT_NOT_ALLOWED": "It is persistent, and the queue that it was for is a temporary dynamic one.",
    "MQRC_STORAGE_MEDIUM_FULL": "The disk was full.",
    "MQFB_APPL_CANNOT_BE_STARTED": "The program that it was to start could not be started.",
    "MQFB_APPL_TYPE_ERROR": "The program that it was to start is of a type that the trigger monitor cannot start.",
    "MQFB_TM_ERROR": "It is no trigger message that the trigger monitor can read.",
}


def in_words(why: str) -> str:
    """Return what a letter died of, in a sentence; empty where nothing more is to be told than the word."""
    return _WORDS.get(why, "Nothing in the message tells why it is here." if not why else "")


@dataclass(frozen=True, slots=True)
class SameDeath:
    """The letters that died of the same, under the same handler. `until`: those that failed then or before, so that one
    that has come since somebody looked is not meant; 0 for all.
    """

    why: str
    handler: str
    until: float = 0.0

    def __call__(self, letter: DeadLetter) -> bool:
        """True if this letter is meant."""
        same = letter.why == self.why and letter.handler == self.handler
        return same and (not self.until or letter.failed_at <= self.until)
