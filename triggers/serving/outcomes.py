"""The log of handlers: one record an outcome, with fields (handlers rule 13.2).

A record's text has the fields as `name=value`; they are attributes of the record too, for handlers of logging that
write them in another form. Bodies are never among them.

What a handler raised is shown with its traceback where the message becomes a dead letter; a body that is not what the
annotation says is one line, since all of the traceback would be ours. The same exception of one
handler, that is of one type from one line, is shown so once in `FULL_INTERVAL`; the next traceback says how many there
were without one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.mqi import Became, MQError, Outcome, log_exception, text_of
from triggers.bodies.bodies import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker import Clock
    from broker.mqi import Settled, Settlement
    from triggers.serving.run import Run

logger = logging.getLogger(__name__)

FULL_INTERVAL: Final = 10.0
"""Seconds between two tracebacks of the same exception of one handler."""

_BRIEF_BYTES: Final = 1024

KEPT: Final = 1000
"""The number of exceptions that are told apart."""

LEVELS: Final[Mapping[str, int]] = {
    "done": logging.DEBUG,
    "later": logging.DEBUG,
    "returned": logging.INFO,
    "expired": logging.INFO,
    "retry": logging.WARNING,
    "refused": logging.WARNING,
    "unknown": logging.WARNING,
    "dead": logging.ERROR,
    "held": logging.ERROR,
}
"""The outcomes of a delivery, and the level at which each is logged.

`refused`: the handler has returned, and the queue manager could not commit; it tries again. `held` is a dead letter
that cannot be moved yet, `unknown` an outcome that the queue manager did not report: the line was cut, its word holds.
"""

_WORDS: Final = {
    Became.GONE: "done",
    Became.DELAYED: "retry",
    Became.DEAD: "dead",
    Became.HELD: "held",
    Became.RETURNED: "returned",
    Became.EXPIRED: "expired",
}

_GONE: Final = Became.GONE  # asked for each message: see `DONE` of `broker.mqi.delivery_fields`
_WITH_TRACEBACK: Final = ("dead", "held")


class Ended(NamedTuple):
    """The end of a delivery. `waited` and `ran` are seconds, `next_at` in seconds since 1970 (0: never), `limit` is the
    number of the last attempt (0: there is none).
    """

    outcome: str
    queue: str
    handler: str
    msg_id: bytes
    attempt: int
    limit: int
    waited: float
    ran: float
    next_at: float = 0.0
    error: BaseException | None = None
    messages: int = 1
    """The number of messages, of a batch or a group."""
    failed: int = 0
    """The number of them that failed alone."""


def ended(run: Run, settlement: Settlement, settled: Settled | None) -> Ended:
    """Return the end of the delivery of a run, by the queue manager's answer; None: it has not ended."""
    handler, delivered = run.server.handler, run.delivered
    next_at, error = 0.0, run.error
    if settled is None:
        outcome = "unknown"
    else:
        outcome, next_at = _WORDS[Became(settled.became)], settled.next_at
        if settlement.outcome == Outcome.LATER and outcome == "retry":
            outcome, error = "later", None
        elif settlement.outcome == Outcome.DONE and outcome != "done" and len(settlement.failed) < len(run.messages):
            outcome = "refused"
        if settled.reason and error is None:
            error = MQError(settled.reason, "its unit of work could not be committed")
    return Ended(
        outcome,
        handler.q_name,
        handler.name,
        run.messages[0].md.msg_id,
        delivered.attempt,
        delivered.limit,
        delivered.waited,
        settlement.ran,
        next_at,
        error,
        len(run.messages),
        len(settlement.failed),
    )


class _LastShown:
    """The time at which an exception was last shown in full, and how many times it was not since."""

    __slots__ = ("at", "unshown")

    def __init__(self, at: float) -> None:
        self.at = at
        self.unshown = 0


class OutcomeLog:
    """Writes the records of a worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown: dict[tuple[str, type[BaseException], str, int], _LastShown] = {}

    def reported(self, run: Run, settlement: Settlement, settled: Settled | None) -> None:
        """Write the record of a delivery that has ended."""
        if settled is not None and settled.became == _GONE and not logger.isEnabledFor(logging.DEBUG):
            return  # most are done, and the descriptor need not be decoded
        self.write(ended(run, settlement, settled))

    def write(self, ended: Ended) -> None:
        """Write the record of an outcome. What is not logged at this level costs next to nothing."""
        level = LEVELS[ended.outcome]
        if not logger.isEnabledFor(level):
            return
        fields: dict[str, object] = {
            "outcome": ended.outcome,
            "queue": ended.queue,
            "handler": ended.handler,
            "msg_id": ended.msg_id.hex(),
            "attempt": ended.attempt,
            "limit": ended.limit or "none",
            "wait_s": round(ended.waited, 6),
            "run_s": round(ended.ran, 6),
        }
        if ended.messages > 1:
            fields |= {"messages": ended.messages, "failed": ended.failed}
        if ended.next_at:
            fields["next_at"] = round(ended.next_at, 3)
        traceback = None
        if ended.error is not None:
            fields["error"] = brief(ended.error)
            if ended.outcome in _WITH_TRACEBACK and not isinstance(ended.error, UnreadableError):
                traceback, unshown = self._full(ended.handler, ended.error)
                if unshown:
                    fields["unshown"] = unshown
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        if traceback is None:
            logger.log(level, "handled %s", text, extra={"event": "handled", **fields})
        else:
            log_exception(logger, level, traceback, "handled %s", text, extra={"event": "handled", **fields})

    def _full(self, handler: str, error: BaseException) -> tuple[BaseException | None, int]:
        """The exception, where it is to be shown with its traceback, and how many like it were not since the last."""
        now = self._clock.monotonic()
        kind = (handler, type(error), *_raised_at(error))
        shown = self._shown.get(kind)
        if shown is not None and now - shown.at < FULL_INTERVAL:
            shown.unshown += 1
            return None, 0
        if shown is None and len(self._shown) >= KEPT:
            self._shown.pop(next(iter(self._shown)))
        self._shown.pop(kind, None)  # so that the first is the one shown longest ago
        self._shown[kind] = _LastShown(now)
        return error, 0 if shown is None else shown.unshown


def brief(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its text."""
    text = text_of(error, _BRIEF_BYTES)
    first = text.splitlines()[0] if text.strip() else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _raised_at(error: BaseException) -> tuple[str, int]:
    """The file and line from which it was raised."""
    trace = error.__traceback__
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
