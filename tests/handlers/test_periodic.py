"""Periodic work over an embedded manager on the virtual clock: handlers rule 5."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker import Connection, QueueManager
from broker.cli.messages.pause import switched
from broker.mqi import MQOO, Outcome, Settlement
from broker.testing import VirtualClock
from broker.testing.clock import NEW_YEAR_2026
from tests.stores import as_killed, log_store
from triggers import App, Reject, Retry, Tick
from triggers.schedule.periodic_schedule import schedule_q_name
from triggers.schedule.schedules import NoScheduleError, found, listed, remove, run_now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

MINUTE, HOUR = 60.0, 3600.0
KILLS = 8
QUEUE = schedule_q_name("shop", "Work.working.report")


class Work:
    """Apps named shop with a periodic function `report`, and what that was told."""

    def __init__(self, manager: QueueManager, clock: VirtualClock) -> None:
        self.manager = manager
        self.clock = clock
        self.ticks: list[Tick] = []
        self.at: list[float] = []
        self.takes = 0.0
        self.running = self.most = 0
        self.error: Exception | None = None

    @property
    def minutes(self) -> list[float]:
        """The instants of the runs, in minutes since the beginning of the year."""
        return [(tick.scheduled_at.timestamp() - NEW_YEAR_2026) / MINUTE for tick in self.ticks]

    def working(self, *when: Any, cron: bool = False, **how: Any) -> App:
        app = App(self.manager, name="shop")

        @(app.cron if cron else app.every)(*when, **how)
        async def report(tick: Tick) -> None:
            self.ticks.append(tick)
            self.at.append(self.clock.time())
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                if self.takes:
                    await self.clock.sleep(self.takes)
                error, self.error = self.error, None
                if error is not None:
                    raise error
            finally:
                self.running -= 1

        return app

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait for what is on its way to a disk, which does not follow the virtual clock."""
        while not so():  # noqa: ASYNC110  # the test has a timeout
            await asyncio.sleep(0)

    def depth(self, q_name: str = QUEUE) -> int:
        return self.manager.core.objects.queues[q_name].depth


@asynccontextmanager
async def at_work(start: float = NEW_YEAR_2026, **where: Any) -> AsyncIterator[Work]:
    clock = VirtualClock(start)
    async with QueueManager.open(name="QM1", clock=clock, **where) as manager:
        yield Work(manager, clock)
        manager.core.check_invariants()


async def test_h5_1_three_workers_run_what_comes_every_minute_sixty_times_an_hour() -> None:
    async with at_work() as work, AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(work.working("1m").running())
        await work.clock.advance(HOUR)
        assert work.minutes == list(range(1, 61))
        assert work.at == [tick.scheduled_at.timestamp() for tick in work.ticks]
        assert {tick.missed for tick in work.ticks} == {0}


@pytest.mark.parametrize("seed", range(4))
async def test_h5_2_kills_at_any_point_double_no_instant_and_lose_none(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path, start = tmp_path / "0", NEW_YEAR_2026
    for number in range(1, KILLS + 1):
        async with at_work(start, store=log_store(path)) as work, work.manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(DONE) DEFPSIST(YES)")
            async with reporting(work).running():
                advancing = asyncio.ensure_future(work.clock.advance(3 * MINUTE))
                due = asyncio.Event()
                work.clock.call_later(chance.randint(1, 2) * MINUTE - start % MINUTE, due.set)
                await due.wait()
                for _ in range(chance.randrange(60)):  # into the steps of who takes it, of the run, and between them
                    await asyncio.sleep(0)
                path, start = as_killed(path, tmp_path / str(number)), work.clock.time()
                await advancing
    async with at_work(start, store=log_store(path)) as work, work.manager.connect() as connection:
        async with reporting(work).running():
            await work.clock.advance(3 * MINUTE)
            passed = round((start - start % MINUTE - NEW_YEAR_2026) / MINUTE) + 3
            await work.until(lambda: work.depth("DONE") >= passed)
        async with connection.open("DONE", MQOO.INPUT_SHARED) as queue:
            done = [float(message.data) async for message in queue.messages()]
    assert sorted(done) == [NEW_YEAR_2026 + MINUTE * number for number in range(1, passed + 1)]


def reporting(work: Work) -> App:
    """An app that puts each of its instants on DONE, however late it is: disks do not follow the virtual clock. On a
    slow one the same run meets several kills.
    """
    app = App(work.manager, name="shop")

    @app.every("1m", missed="all", overlap="queue", retry=Retry(crashes=KILLS + 1))
    async def report(tick: Tick, own: Connection) -> None:
        await own.put1("DONE", str(tick.scheduled_at.timestamp()))

    return app


@pytest.mark.parametrize(
    ("cron", "when", "missed", "ticks"),
    [
        (True, "0 3 * * *", "one", [(3, 1)]),
        (False, "1h", "all", [(3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 0)]),
        (False, "1h", "one", [(8, 6), (9, 0)]),
        (False, "1h", "none", [(9, 0)]),
    ],
)
async def test_h5_3_what_was_missed_is_made_up_for(
    tmp_path: Path, cron: bool, when: str, missed: str, ticks: Any
) -> None:
    how: dict[str, Any] = {"cron": cron, "missed": missed, "overlap": "queue"}
    async with (
        at_work(NEW_YEAR_2026 + 2.5 * HOUR, store=log_store(tmp_path)) as work,
        work.working(when, **how).running(),
    ):
        await work.clock.advance(1)
    async with (
        at_work(NEW_YEAR_2026 + 9 * HOUR - 30, store=log_store(tmp_path)) as work,
        work.working(when, **how).running(),
    ):
        await work.until(lambda: len(work.ticks) >= len(ticks) - 1)
        await work.clock.advance(60)
        await work.until(lambda: len(work.ticks) >= len(ticks))
        assert [((each.scheduled_at.timestamp() - NEW_YEAR_2026) / HOUR, each.missed) for each in work.ticks] == ticks
        assert work.most == 1


@pytest.mark.parametrize(
    ("overlap", "minutes", "at", "most"),
    [
        ("skip", [5, 15, 25, 35], [5, 15, 25, 35], 1),
        ("queue", [5, 10, 15, 20, 25], [5, 12, 19, 26, 33], 1),
        ("parallel", [5, 10, 15, 20, 25, 30, 35], [5, 10, 15, 20, 25, 30, 35], 2),
    ],
)
async def test_h5_4_runs_that_take_seven_minutes_every_five(overlap: Any, minutes: Any, at: Any, most: int) -> None:
    async with at_work() as work:
        work.takes = 7 * MINUTE
        async with work.working("5m", overlap=overlap).running():
            await work.clock.advance(39 * MINUTE)
            assert (work.minutes, work.most) == (minutes, most)
            assert [(each - NEW_YEAR_2026) / MINUTE for each in work.at] == at
            work.takes = 0
            await work.clock.advance(10 * MINUTE)


async def test_h5_5_workers_that_register_at_one_moment_leave_one_schedule_message() -> None:
    async with at_work() as work:
        over = asyncio.Event()

        async def worker() -> None:
            async with work.working("1m").running():
                await over.wait()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(worker())
            await work.clock.advance(3 * MINUTE)
            assert (work.minutes, work.depth()) == ([1, 2, 3], 1)
            over.set()


async def test_h5_7_a_run_that_is_a_dead_letter_delays_nothing() -> None:
    async with at_work() as work, work.working("1m").running():
        work.error = Reject("never")
        await work.clock.advance(3 * MINUTE)
        assert work.minutes == [1, 2, 3]
        assert work.depth(f"{QUEUE}.RUN"[:43] + ".DEAD") == 1


async def test_a_run_that_is_tried_again_is_the_same_run() -> None:
    async with at_work() as work, work.working("1m", retry=1).running():
        work.error = ValueError("once")
        await work.clock.advance(90)
        assert work.minutes == [1, 1]
        assert MINUTE <= work.at[0] - NEW_YEAR_2026 < work.at[1] - NEW_YEAR_2026 < 62


async def test_h5_9_a_schedule_that_the_code_changed_is_replaced() -> None:
    async with at_work() as work:
        async with work.working("1h").running():
            await work.clock.advance(10)
        async with work.working("10m").running():
            assert work.depth() == 1
            await work.clock.advance(HOUR)
        assert work.minutes == [10, 20, 30, 40, 50, 60]


async def test_a_schedule_that_is_the_same_is_left_alone() -> None:
    async with at_work() as work:
        for _ in range(3):
            async with work.working("1h", now=True).running():
                await work.clock.advance(10 * MINUTE)
        assert (work.minutes, work.depth()) == ([0], 1)


async def test_a_changed_schedule_waits_for_its_message_where_that_is_in_other_hands() -> None:
    async with at_work() as work, work.manager.connect() as connection:
        async with work.working("1m").running():
            pass
        async with connection.deliveries(QUEUE, order_by="group_id") as deliveries:
            await work.clock.advance(MINUTE)
            [taken] = await deliveries.take()
            over = asyncio.Event()

            async def worker() -> None:
                async with work.working("10m").running():
                    await over.wait()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(worker())
                await work.clock.advance(5)
                assert work.ticks == []
                await deliveries.settle([Settlement(taken.id, Outcome.RETURNED)])
                await work.clock.advance(20 * MINUTE)
                assert (work.minutes, work.depth()) == ([10, 20], 1)
                over.set()


async def test_no_failure_stops_a_schedule() -> None:
    async with at_work() as work, work.manager.connect() as connection, work.working("1m").running():
        await connection.mqsc(f"ALTER QLOCAL('{QUEUE}.RUN') PUT(DISABLED)", check=True)
        await work.clock.advance(10 * MINUTE)
        assert (work.minutes, work.depth()) == ([], 1)
        await connection.mqsc(f"ALTER QLOCAL('{QUEUE}.RUN') PUT(ENABLED)", check=True)
        await work.clock.advance(2 * MINUTE)
        assert work.minutes[-1] == 12
        assert work.ticks[0].missed >= 9


async def test_a_schedule_that_is_paused_comes_due_when_it_is_resumed() -> None:
    async with at_work() as work, work.manager.connect() as connection, work.working("10m", missed="all").running():
        await switched(connection, QUEUE, on=False)
        await work.clock.advance(35 * MINUTE)
        assert work.minutes == []
        assert [each.paused for each in await listed(connection)] == [True]
        await switched(connection, QUEUE, on=True)
        await work.clock.advance(0)
        assert work.minutes == [10, 20, 30]
        await work.clock.advance(10 * MINUTE)
        assert work.minutes == [10, 20, 30, 40]


async def test_a_wall_clock_that_is_set_back_repeats_nothing() -> None:
    async with at_work() as work, work.working("1h").running():
        await work.clock.advance(HOUR + 10)
        work.clock._start -= HOUR
        await work.clock.advance(HOUR)
        assert work.minutes == [60]
        await work.clock.advance(HOUR)
        assert work.minutes == [60, 120]


async def test_an_app_that_does_not_serve_registers_nothing() -> None:
    async with at_work() as work:
        async with work.working("1m").running(handlers=False):
            assert work.depth() == 0
            await work.clock.advance(HOUR)
        assert work.ticks == []


async def test_a_plain_function_and_one_without_tick_are_run() -> None:
    async with at_work() as work:
        app, ran = App(work.manager, name="shop"), []

        @app.every("1m")
        async def report() -> None:
            ran.append("a")

        async with app.running():
            await work.clock.advance(2 * MINUTE)
        assert ran == ["a", "a"]


async def test_a_schedule_message_that_nobody_can_read_is_replaced_at_the_next_start() -> None:
    async with at_work() as work, work.manager.connect() as connection:
        async with work.working("1m").running():
            pass
        await connection.mqsc(f"CLEAR QLOCAL('{QUEUE}')", check=True)
        await connection.put1(QUEUE, "no schedule", persistence=1)
        async with work.working("1m").running():
            await work.clock.advance(MINUTE)
        assert work.minutes == [1]


# What `evermq schedules` does


async def test_schedules_are_listed_and_found() -> None:
    async with at_work() as work, work.manager.connect() as connection, work.working("5m").running():
        [schedule] = await listed(connection)
        assert (schedule.q_name, schedule.name) == (QUEUE, "shop.Work.working.report")
        assert (schedule.next_at, schedule.paused, schedule.runs) == (NEW_YEAR_2026 + 5 * MINUTE, False, 0)
        assert schedule.schedule is not None
        assert schedule.schedule.words() == "every 5m"
        for name in (QUEUE, QUEUE.lower(), "shop.work.working.report", "Work.working.report"):
            assert await found(connection, name) == schedule
        with pytest.raises(
            NoScheduleError, match=r"there is no schedule report; there are: shop\.Work\.working\.report"
        ):
            await found(connection, "report")


async def test_a_schedule_is_run_at_once_and_its_next_run_comes_as_ever() -> None:
    async with at_work() as work, work.manager.connect() as connection:
        work.takes = 90.0
        async with work.working("5m").running():
            schedule = await found(connection, QUEUE)
            assert await run_now(connection, schedule, work.clock.time())
            assert not await run_now(connection, schedule, work.clock.time())
            await work.clock.advance(5 * MINUTE)
            assert work.minutes == [0, 5]
            await work.clock.advance(2 * MINUTE)


async def test_a_schedule_that_is_removed_is_gone_until_a_program_registers_it() -> None:
    async with at_work() as work, work.manager.connect() as connection:
        async with work.working("5m").running():
            pass
        await remove(connection, await found(connection, QUEUE))
        assert await listed(connection) == []
        assert not [name for name in work.manager.core.objects.queues if name in (QUEUE, f"{QUEUE}.RUN")]
        async with work.working("5m").running():
            assert len(await listed(connection)) == 1


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda app: app.every("0.5s"), "at least 1 second"),
        (lambda app: app.every("soon"), "is no length of time"),
        (lambda app: app.cron("* * 30 2 *"), "never comes"),
        (lambda app: app.cron("@daily", tz="Mars"), "no time zone"),
        (lambda app: app.every("1m", missed="two"), "missed='two'"),
        (lambda app: app.every("1m", order_by="colour"), "order_by goes with overlap='parallel'"),
    ],
)
def test_h5_10_what_is_no_schedule_is_refused_at_the_decorator(declare: Callable[[App], Any], reason: str) -> None:
    async def report() -> None: ...

    with pytest.raises(ValueError, match=reason):
        declare(App("mq://127.0.0.1:1414"))(report)


def test_two_periodic_functions_of_one_name_are_refused() -> None:
    app = App("mq://127.0.0.1:1414")

    async def report() -> None: ...

    app.every("1m")(report)
    with pytest.raises(ValueError, match="has two handlers"):
        app.cron("@daily")(report)
