"""For how long a message waits before its next attempt, and when there is none (handlers rules 1.3, 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from broker.mqi.delivery_fields import ATTEMPTS, Outcome, check_seconds
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.queues.message_queue import MessageQueue
    from broker.mqi.delivery_fields import ServiceOptions, Settlement

REFUSED_MIN: Final = 1.0
REFUSED_MAX: Final = 60.0
"""Seconds that a message waits which the store, or the dead-letter queue, has refused: the first time, and at most."""

_LATER: Final = Outcome.LATER  # as `DONE`


def check(options: ServiceOptions) -> None:
    """Raise OPTIONS_ERROR (2046) for a backoff that nobody can wait for."""
    for wait in options.backoff:
        _check_wait("backoff={}", wait)


def check_settlements(settlements: Iterable[Settlement]) -> None:
    """Raise OPTIONS_ERROR (2046) where a handler wants a message later than anybody can wait."""
    for each in settlements:
        if each.outcome == _LATER:
            _check_wait("Later({})", each.seconds)


def _check_wait(form: str, seconds: float) -> None:
    try:
        check_seconds(form, seconds)
    except ValueError as error:
        raise MQError(MQRC.OPTIONS_ERROR, str(error)) from error


def attempts(options: ServiceOptions, queue: MessageQueue) -> int | None:
    """After how many charged attempts a message is given up; None: never."""
    if options.attempts != 0:
        return options.attempts
    return int(queue.definition.attributes["BOTHRESH"]) or ATTEMPTS


def wait_after(options: ServiceOptions, charged: int, msg_id: bytes) -> float:
    """The seconds before the next attempt, after so many charged ones. The jitter is the same each time it is asked
    for: a hash of the MsgId and the attempt.
    """
    table = options.backoff
    if options.doubles:
        least, most = table[0], table[-1]
        doublings = charged - 1
        wait = most if doublings > 60 else min(most, least * 2.0**doublings)
    else:
        wait = table[min(charged, len(table)) - 1]
    if options.jitter:
        wait *= 0.5 + crc32(msg_id + charged.to_bytes(8, "big")) / 2**33
    return wait


def refused(tries: int) -> float:
    """The seconds before the next try, after so many that were refused."""
    return min(REFUSED_MAX, REFUSED_MIN * 2.0 ** min(tries - 1, 10))
