"""The words about delayed messages and about deliveries (`docs/rules/handlers.md`).

A delivery is a lease on trigger starts together with their messages, in a unit of work of its own. Whoever takes one
settles it: with what the handler has done, the queue manager decides what becomes of the messages.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Final, NamedTuple

from broker.mqi.errors import MQError
from broker.mqi.exception_text import head, tail
from broker.mqi.reasons import MQRC

FEEDBACK_MIN: Final = 65536
FEEDBACK_MAX: Final = 999_999_999
"""The range of Feedback that MQ leaves to applications (MQFB_APPL_FIRST, MQFB_APPL_LAST): that of a rejection."""

DEAD: Final = ".DEAD"
"""Behind the name of a queue: the queue for its dead letters, where nothing else names one."""

_NAME_CHARACTERS: Final = 48

WINDOW: Final = 300.0
"""Seconds for which a key suppresses duplicates, by default."""

KEY_BYTES: Final = 255
"""The longest key."""

SECONDS_MAX: Final = 10 * 366 * 86400.0
"""The longest delay, the longest wait before another attempt, and the longest window of a key: ten years."""

BATCH_MAX: Final = 1000
"""The most messages of one delivery of a batch."""

SETTLE_MAX: Final = 500
FAILURES_MAX: Final = 1000
"""The most settlements in one call, and the most failures that these name."""

EXCEPTION_BYTES: Final = 256
ERROR_BYTES: Final = 1024
TRACEBACK_BYTES: Final = 4096
"""The bytes in UTF-8 that are kept of the fields of a failure."""

HISTORY_VALUE: Final = 4096
HISTORY_VALUE_MAX: Final = 64 * 1024
"""The bytes of JSON that a record of the history has of a returned value at most, unless told otherwise, and ever."""

TYPE_BYTES: Final = 256
"""The bytes in UTF-8 of the name of a returned value's type."""


class PutExtras(NamedTuple):
    """The options of a put beyond those of the MQI; at most one of `delay` and `deliver_at` is above 0.

    `delay` is in seconds, and follows the monotonic clock; `deliver_at` in seconds since 1970, of the wall clock. `key`
    has up to 255 bytes, and is remembered for `window` seconds after the first message's delivery instant; None: for as
    long as that is on its queue.
    """

    delay: float = 0.0
    deliver_at: float = 0.0
    key: bytes = b""
    window: float | None = WINDOW


NO_EXTRAS: Final = PutExtras()


class ServiceOptions(NamedTuple):
    """The options with which a queue is served (handlers rules 1.3, 2.1, 6, 7.1).

    - `handler`: who handles them, for people: `module:function`.
    - `attempts`: after how many charged attempts a message is given up; 0: BOTHRESH of the queue where it is above 0,
      else 18; None: never.
    - `backoff`: seconds to wait after a charged attempt: with `doubles` the least and the most, else a table whose last
      value repeats. `jitter`: times 0.5 to 1, by MsgId and attempt.
    - `crashes`: after how many charged crashes a message is given up.
    - `dead_letter`: where a message goes then; "": BOQNAME, else DEADQ, else `last_dead_letter`.
    - `traceback`: how many bytes of the traceback a dead letter bears.
    - `batch`: how many messages make a delivery at most, waiting for `batch_wait` seconds for as many; 1: each its own.
    - `groups`: a delivery is a whole group, or a logical message with all its segments.
    - `whole`: the segments of a logical message are put together, each delivery one message.
    - `order_by`: deliveries of one value of this property follow one another; also "correl_id", "group_id", "*": the
      whole queue. "": as they come.
    - `total`: how many deliveries of the queue there may be at a time, whoever has taken them; 0: any number.
    - `rate`: deliveries a second, for all who take them, with up to `burst` at once; 0: any number.
    - `retry_unreadable`: whether what no handler can read is a failure like any other, and no dead letter at once.
    - `history`: the queue for the records of what became of the messages, for `history_span` seconds, each with up to
      `history_value` bytes of what the handler has returned; "": there are none (transactions rule 6.1).
    """

    handler: str = ""
    attempts: int | None = 0
    backoff: tuple[float, ...] = (0.5, 600.0)
    doubles: bool = True
    jitter: bool = True
    crashes: int = 3
    dead_letter: str = ""
    last_dead_letter: str = ""
    traceback: int = 4096
    batch: int = 1
    batch_wait: float = 0.05
    groups: bool = False
    whole: bool = False
    order_by: str = ""
    total: int = 0
    rate: float = 0.0
    burst: int = 0
    retry_unreadable: bool = False
    history: str = ""
    history_span: float = 0.0
    history_value: int = HISTORY_VALUE


ATTEMPTS: Final = 18
"""The attempts of a message whose service and whose queue say nothing."""


@unique
class Outcome(IntEnum):
    """The outcome of a delivery, given by its handler or by who was to call it."""

    DONE = 0  # the handler has returned: commit
    FAILED = 1  # it raised: charged, and tried again after the backoff, unless that was the last attempt
    REJECTED = 2  # it raised Reject, or what is never tried again: a dead letter at once
    UNREADABLE = 3  # nobody could read it: a dead letter at once, unless the options say otherwise
    LATER = 4  # it raised Later
    RETURNED = 5  # it did not begin, or was cancelled by a stop: nothing has happened


DONE: Final = Outcome.DONE
"""For what is done for each message: to ask an enum for its member takes Python 3.11 ten times as long."""


class Failure(NamedTuple):
    """The error of an attempt, as far as it is kept with the message: the exception's type (up to 256 bytes), its text
    (1 KiB), the end of the traceback (4 KiB).
    """

    exception: str = ""
    error: str = ""
    traceback: str = ""

    @property
    def kept(self) -> Failure:
        """The part of it that is kept."""
        if len(self.exception) + len(self.error) + len(self.traceback) <= _SHORT and "".join(self).isascii():
            return self
        return Failure(
            head(self.exception, EXCEPTION_BYTES), head(self.error, ERROR_BYTES), tail(self.traceback, TRACEBACK_BYTES)
        )


_SHORT: Final = 256
"""Texts of so many characters in all are short enough, if they are ASCII."""


NO_FAILURE: Final = Failure()


def failure_text(exception: str, error: str, otherwise: str = "") -> str:
    """Return the error of an attempt in words: the exception's type and its text, as far as there are any, else
    `otherwise`.
    """
    return ": ".join(filter(None, (exception, error))) or otherwise


class Returned(NamedTuple):
    """The value that a handler has returned, for the record of the history: its JSON, or where that has none or is too
    long the name of its type and its length: of the JSON in bytes, of what has none as `len` has it (0: it has none).
    """

    json: bytes = b""
    type: str = ""
    length: int = 0


NOT_RETURNED: Final = Returned()


class Settlement(NamedTuple):
    """The end of the delivery `id`.

    `failure` is for FAILED, REJECTED and UNREADABLE, and of LATER it is why the handler could not begin; `timed_out` is
    for FAILED. `feedback` is the reason of the dead letter of REJECTED (65536 to 999999999; 0:
    BACKOUT_THRESHOLD_REACHED, 2362). `seconds` and `counted` are for LATER. `failed` are the messages of a batch, by
    their places, that failed alone: the others are committed. `ran` is for how many seconds the handler ran. `value` is
    for DONE, where there is a history.
    """

    id: int
    outcome: int
    failure: Failure = NO_FAILURE
    timed_out: bool = False
    feedback: int = 0
    seconds: float = 0.0
    counted: bool = False
    failed: tuple[tuple[int, Failure], ...] = ()
    ran: float = 0.0
    value: Returned = NOT_RETURNED


class Became(IntEnum):
    """The fate of the messages of a delivery."""

    GONE = 0  # committed
    DELAYED = 1  # on their queue, until `next_at`
    WAITING = 1  # the old name of DELAYED, until 0.2
    DEAD = 2  # on the dead-letter queue
    HELD = 3  # to go there, which is not possible now: on their queue
    RETURNED = 4  # on their queue, as if they had not been taken
    EXPIRED = 5  # their time was up


class Settled(NamedTuple):
    """The answer for one delivery. `reason` is 0, or why a commit was undone, such as STORAGE_MEDIUM_FULL (2192) or
    Q_FULL (2053); OUTCOME_PENDING (2124) where that is not known yet; HOBJ_ERROR (2019) for a delivery that this
    connection does not hold any more. `next_at` is in seconds since 1970.
    """

    id: int
    became: int
    reason: int = 0
    attempts: int = 0
    next_at: float = 0.0


PREPARE_ENDS: Final = frozenset((0, int(MQRC.BACKED_OUT), int(MQRC.HOBJ_ERROR), int(MQRC.UNEXPECTED_ERROR)))
"""The answers to the preparation of a delivery after which it is not the connection's any more."""


def check_feedback(feedback: int) -> None:
    """Raise OPTIONS_ERROR (2046) for a feedback of a rejection that is neither 0 nor in the range of applications."""
    if feedback and not FEEDBACK_MIN <= feedback <= FEEDBACK_MAX:
        raise MQError(
            MQRC.OPTIONS_ERROR, f"feedback={feedback} of a settlement: {FEEDBACK_MIN} to {FEEDBACK_MAX}, or 0 for none"
        )


def dead_q_name(q_name: str) -> str:
    """Return the dead-letter queue of a queue for which nothing else names one; its name is cut to what a name may
    have.
    """
    return q_name[: _NAME_CHARACTERS - len(DEAD)] + DEAD


def check_seconds(form: str, seconds: float) -> None:
    """Raise ValueError for what is no number of seconds to delay a message: 0 or more, and at most ten years.
    `form` has `{}` for the value: `delay={}`.
    """
    if not 0 <= seconds <= SECONDS_MAX:
        said = form.format(_shown(seconds))
        raise ValueError(f"{said}: a number of seconds, 0 or more and at most {SECONDS_MAX:.0f}, which is ten years")


def _shown(number: float) -> str:
    """A number for people, be it too long to be written."""
    if isinstance(number, int) and number.bit_length() > 256:
        return f"an integer of {number.bit_length()} bits"
    return str(number)


def delivery_ended(delivery: int) -> MQError:
    """HCONN_ERROR (2018) for a step of a delivery that has ended, or that the connection never had."""
    return MQError(MQRC.HCONN_ERROR, f"delivery {delivery} has ended: what was done for it is not kept as a step")


def unit_of_delivery(call: str) -> MQError:
    """ENVIRONMENT_ERROR (2012) for a call that would end or begin a unit of work, on the connection of a delivery."""
    return MQError(
        MQRC.ENVIRONMENT_ERROR,
        f"{call}: the unit of work is that of the delivery, which is committed when its handler returns and backed out "
        "when it raises; for another one take connection.connect()",
    )
