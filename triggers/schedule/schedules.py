"""The schedules of a queue manager: listed, run at once, removed. What `evermq schedules` does (handlers rule 5.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import MQGMO, MQOO, MQRC, CommandFailedError, MQError
from triggers.schedule.periodic import put_run
from triggers.schedule.periodic_schedule import PREFIX, DueRun, Schedule, read_schedule, run_q_name

if TYPE_CHECKING:
    from broker import Connection

_NOT_THERE: Final = frozenset({MQRC.NO_MSG_AVAILABLE, MQRC.UNKNOWN_OBJECT_NAME})


class NoScheduleError(LookupError):
    """There is no such schedule. The text names those that there are."""


@dataclass(frozen=True, slots=True)
class ListedSchedule:
    """A schedule. `next_at` is the instant of its next run, in seconds since 1970, which has come where nobody serves
    it; `runs` how many run messages wait, run or are to be tried again. `schedule` is None while its schedule message
    is in the hands of who serves it, or is none.
    """

    q_name: str
    schedule: Schedule | None
    next_at: float
    paused: bool
    runs: int

    @property
    def name(self) -> str:
        """Its name: app and function, or what is known of them."""
        schedule = self.schedule
        return self.q_name.removeprefix(PREFIX) if schedule is None else f"{schedule.app}.{schedule.function}"


async def listed(connection: Connection) -> list[ListedSchedule]:
    """All schedules, in the order of the names of their queues."""
    queues = await _queues(connection)
    names = sorted(name for name in queues if run_q_name(name) in queues)
    return [await _listed(connection, name, queues) for name in names]


async def found(connection: Connection, name: str) -> ListedSchedule:
    """The schedule of this name: app and function (`shop.report`), the function alone where it is clear, or the name of
    the queue. Raises NoScheduleError.
    """
    schedules = await listed(connection)
    for matches in (
        [
            each
            for each in schedules
            if name.upper() in (each.q_name, each.name.upper(), each.q_name.removeprefix(PREFIX))
        ],
        [each for each in schedules if each.schedule is not None and each.schedule.function == name],
    ):
        if len(matches) == 1:
            return matches[0]
    there = ", ".join(each.name for each in schedules) or "none"
    raise NoScheduleError(f"there is no schedule {name}; there are: {there}")


async def run_now(connection: Connection, schedule: ListedSchedule, now: float) -> bool:
    """Put a run message for this moment, whatever the schedule says; its next instant stays. False where runs do not
    overlap and there is one already. Raises NoScheduleError for one that says nothing just now.
    """
    if schedule.schedule is None:
        raise NoScheduleError(
            f"{schedule.q_name} has no schedule message: its next run is due just now, or it was never registered"
        )
    placed = await put_run(connection, run_q_name(schedule.q_name), schedule.schedule, DueRun(now))
    return not placed.duplicate


async def remove(connection: Connection, schedule: ListedSchedule) -> None:
    """Delete the queues of a schedule with what is on them, and their processes. Its dead letters stay. A program that
    has the function registers it again when it starts.

    Raises CommandFailedError, such as for queues that somebody has open.
    """
    for q_name in (schedule.q_name, run_q_name(schedule.q_name)):
        await connection.mqsc(f"DELETE QLOCAL('{q_name}') PURGE", check=True)
        [process] = await connection.mqsc(f"DELETE PROCESS('{q_name}')")
        if not process.ok and await _displayed(connection, f"PROCESS('{q_name}')"):
            raise CommandFailedError([process])


async def _listed(connection: Connection, q_name: str, queues: dict[str, dict[str, Any]]) -> ListedSchedule:
    schedule, next_at = await _read(connection, q_name)
    runs = queues[run_q_name(q_name)]["CURDEPTH"]
    return ListedSchedule(q_name, schedule, next_at, not queues[q_name]["TRIGGER"], runs)


async def _read(connection: Connection, q_name: str) -> tuple[Schedule | None, float]:
    """Read the schedule message on a queue."""
    try:
        async with connection.open(q_name, MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as queue:
            message = await queue.get(options=MQGMO.BROWSE_FIRST, delayed=True)
        return read_schedule(message.data)
    except ValueError:
        return None, 0.0
    except MQError as error:
        if error.reason not in _NOT_THERE:
            raise
        return None, 0.0


async def _queues(connection: Connection) -> dict[str, dict[str, Any]]:
    shown = await _displayed(connection, f"QLOCAL({PREFIX}*) TRIGGER CURDEPTH")
    return {str(each["QUEUE"]): each for each in shown}


async def _displayed(connection: Connection, what: str) -> list[dict[str, Any]]:
    [reply] = await connection.mqsc(f"DISPLAY {what}")
    return list(reply.attributes)
