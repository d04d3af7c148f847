"""Periodic functions: the two handlers that each of them is, and the registration of its schedule.

What the rules are, and why there is no leader, says `triggers.schedule.periodic_schedule`. Of the two handlers one
takes the schedule message when it is due, and in its unit puts the run messages and the schedule message for the next
instant. The other is the function of the program, under which a run message is a message like any other: it is tried
again, and ends as a dead letter, without any effect on the schedule.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker import Connection, Message  # noqa: TC001  # the annotations of a handler are read
from broker.mqi import MQGMO, MQMO, MQOO, MQPER, MQRC, GetMessageOptions, MessageDescriptor, MQError, dead_q_name
from triggers.app.handler import handler
from triggers.app.verdicts import Reject, Retry
from triggers.bodies.bodies import UnreadableError
from triggers.schedule.periodic_schedule import RUN_KEY, SCHEDULE_KEY, read_schedule, read_tick, run_q_name
from triggers.serving.run import current

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker import Clock, PutResult, Queue
    from triggers.app.arguments import HandledDelivery
    from triggers.app.handler import Handler, HandlerOptions
    from triggers.schedule.periodic_schedule import DueRun, Schedule
    from triggers.schedule.tick import Tick

logger = logging.getLogger(__name__)

TURN_RETRY: Final = Retry(None, (1.0, 60.0), crashes=1_000_000_000)
"""A schedule message is never given up: no failure stops a schedule (handlers rule 5.1)."""

REGISTER_TRIES: Final = 300
REGISTER_PAUSE: Final = 0.1
"""The number of tries, and the seconds between them, of a registration while the schedule message is in other hands."""

_BUSY: Final = frozenset({MQRC.NO_MSG_AVAILABLE, MQRC.OBJECT_IN_USE})


@dataclass(frozen=True, slots=True)
class Periodic:
    """A periodic function. `schedule_handler` handles its schedule message, `run` its run messages; `at_once`: a
    schedule that is new begins with a run.
    """

    schedule: Schedule
    schedule_handler: Handler
    run: Handler
    at_once: bool = False


def periodic(
    function: Callable[..., Any],
    schedule: Schedule,
    options: HandlerOptions,
    *,
    at_once: bool = False,
    names: Mapping[str, Any] | None = None,
) -> Periodic:
    """A function as what a schedule runs. `options` and `names` are those of `triggers.app.handler.handler`.

    Raises what that does, and ValueError for `order_by` beside an `overlap` that orders the runs itself.
    """
    if schedule.overlap != "parallel":
        if options.get("order_by"):
            raise ValueError(f"order_by goes with overlap='parallel': {schedule.overlap!r} has one run after the other")
        options = {**options, "order_by": "*"}
    turns, runs = schedule.q_name, run_q_name(schedule.q_name)
    run = handler(function, runs, options, names, last_dead_letter=dead_q_name(runs), tick=_tick)
    turn_options: HandlerOptions = {"retry": TURN_RETRY, "concurrency": 1}
    schedule_handler = handler(_handler_of(run), turns, turn_options, last_dead_letter=dead_q_name(turns))
    return Periodic(schedule, schedule_handler, run, at_once)


def function_name(function: Callable[..., Any]) -> str:
    """The name of a function in the name of its schedule: that it has in its module, `report` or `Shop.report`."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).replace("<locals>.", "")


def _tick(delivery: HandledDelivery) -> Tick:
    try:
        return read_tick(delivery.messages[0].data)
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _handler_of(run: Handler) -> Callable[[Message, Connection], Any]:
    """The handler of a schedule message. What it does is what the message says, whatever this program's code says by
    now: that replaces the message when the program starts.
    """

    async def schedule_handler(message: Message, connection: Connection) -> None:
        try:
            schedule, at = read_schedule(message.data)
        except ValueError as error:
            raise Reject(str(error)) from error
        due = schedule.due(at, _now())
        for each in due.runs:
            placed = await put_run(connection, run.q_name, schedule, each)
            if placed.duplicate:
                logger.info(
                    "a run is skipped, since the one before has not ended: queue=%s at=%.0f",
                    run.q_name,
                    each.scheduled_at,
                    extra={"event": "run_skipped"},
                )
        if due.missed:
            logger.warning(
                "a schedule was not served: queue=%s missed=%d runs=%d",
                schedule.q_name,
                due.missed,
                len(due.runs),
                extra={"event": "schedule_not_served"},
            )
        await put_schedule(connection, schedule, due.next_at)

    schedule_handler.__qualname__ = f"schedule of {run.name}"
    return schedule_handler


def _now() -> float:
    """The wall clock of who runs the handler that asks, in seconds since 1970."""
    run = current.get()
    assert run is not None
    return run.server.clock.time()


async def put_run(connection: Connection, q_name: str, schedule: Schedule, run: DueRun) -> PutResult:
    """Put a run message. Where runs are not to overlap and another waits, runs or is to be tried again, the result is
    `duplicate`, and nothing was put.
    """
    data = schedule.run_message(run)
    if schedule.overlap == "skip" and not run.made_up:
        return await connection.put1(q_name, data, persistence=MQPER.PERSISTENT, key=RUN_KEY, window=None)
    return await connection.put1(q_name, data, persistence=MQPER.PERSISTENT)


async def put_schedule(connection: Connection, schedule: Schedule, at: float) -> PutResult:
    """Put the schedule message for an instant. Where there is one already, the result is `duplicate`."""
    return await connection.put1(
        schedule.q_name,
        schedule.message(at),
        persistence=MQPER.PERSISTENT,
        deliver_at=at,
        key=SCHEDULE_KEY,
        window=None,
    )


async def register(connection: Connection, work: Periodic, clock: Clock) -> None:
    """See to it that the schedule is on its queue as the code has it (handlers rule 5.5). What is there and the same is
    left alone; what is there and another is replaced, and its next instant counts from now.

    Raises MQError, among others OBJECT_IN_USE (2042) where the schedule message is in other hands for half a minute.
    """
    for _ in range(REGISTER_TRIES):
        if await _registered(connection, work, clock.time()):
            return
        await clock.sleep(REGISTER_PAUSE)
    raise MQError(MQRC.OBJECT_IN_USE, f"the schedule message on {work.schedule.q_name} stays in the hands of another")


async def _registered(connection: Connection, work: Periodic, now: float) -> bool:
    """Bring the schedule to what the code has now; False if somebody else has its message in his hands."""
    schedule = work.schedule
    at = now if work.at_once else schedule.timetable().after(now)
    options = MQOO.BROWSE | MQOO.INPUT_SHARED | MQOO.FAIL_IF_QUIESCING
    async with connection.open(schedule.q_name, options) as queue:
        found = await _found(queue)
        stored = None if found is None else _stored(found)
        if stored == schedule:
            return True
        try:
            async with connection.unit_of_work():
                if found is not None:
                    await _take(queue, found)
                placed = await put_schedule(connection, schedule, at)
        except MQError as error:
            if error.reason not in _BUSY:
                raise
            return False
    if placed.duplicate:
        return False
    if found is not None:
        was = "something else" if stored is None else stored.words()
        logger.info(
            "a schedule has changed: queue=%s was=%r is=%r",
            schedule.q_name,
            was,
            schedule.words(),
            extra={"event": "schedule_changed"},
        )
    return True


async def _found(queue: Queue) -> Message | None:
    """The schedule message on a queue, whether it waits or is due."""
    try:
        return await queue.get(options=MQGMO.BROWSE_FIRST, delayed=True)
    except MQError as error:
        if error.reason != MQRC.NO_MSG_AVAILABLE:
            raise
        return None


def _stored(message: Message) -> Schedule | None:
    try:
        return read_schedule(message.data)[0]
    except ValueError:
        return None


async def _take(queue: Queue, message: Message) -> None:
    """Get that message, under syncpoint."""
    gmo = GetMessageOptions(options=MQGMO.SYNCPOINT, match_options=MQMO.MATCH_MSG_ID)
    await queue.get(MessageDescriptor(msg_id=message.md.msg_id), gmo, delayed=True)
