"""Triggering by an initiation queue as a whole: puts, trigger messages, and the monitor that serves them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.testing import VirtualClock
from tests.triggers.fake import handlers
from tests.triggers.test_initiation_monitor import COMMANDS, depth, until
from tests.triggers.test_loadset import Source, source  # noqa: F401  # a fixture
from tests.triggers.test_triggering_end_to_end import run
from triggers import InitiationMonitor, TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import Connection

DEFINITIONS = (
    "DEFINE QLOCAL(INITQ)",
    "DEFINE QLOCAL(DLQ)",
    "ALTER QMGR DEADQ(DLQ)",
    "DEFINE PROCESS(P) APPLTYPE(DEF)",
    "DEFINE QLOCAL(FIRST) PROCESS(P) INITQ(INITQ) TRIGGER TRIGTYPE(FIRST) TRIGDATA('first')",
    "DEFINE QLOCAL(EVERY) PROCESS(P) INITQ(INITQ) TRIGGER TRIGTYPE(EVERY)",
    "DEFINE QLOCAL(DEPTH) PROCESS(P) INITQ(INITQ) TRIGGER TRIGTYPE(DEPTH) TRIGDPTH(3)",
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def manager(clock: VirtualClock) -> AsyncIterator[QueueManager]:
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect("operator") as operator:
        await run(operator, *DEFINITIONS)
        yield manager


async def put(manager: QueueManager, q_name: str, *texts: str) -> None:
    async with manager.connect() as connection:
        for text in texts:
            await connection.put1(q_name, text)


class Draining:
    """A handler that gets what there is, as one that FIRST or DEPTH starts has to."""

    def __init__(self) -> None:
        self.starts: list[tuple[str, str]] = []
        self.got: list[bytes] = []
        self.fails = 0

    def handlers(self) -> list[Any]:
        async def handler(trigger: TriggerMessage, connection: Connection) -> None:
            self.starts.append((trigger.q_name, trigger.trigger_data))
            async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
                try:
                    while True:
                        message = await queue.get(options=MQGMO.SYNCPOINT)
                        if self.fails:
                            self.fails -= 1
                            raise ValueError("not yet")
                        self.got.append(message.data)
                        await connection.commit()
                except MQError as error:
                    assert error.reason == MQRC.NO_MSG_AVAILABLE

        return [handlers(P=handler)]


async def test_each_type_starts_what_it_should(manager: QueueManager, clock: VirtualClock) -> None:
    draining = Draining()
    async with InitiationMonitor(manager, "INITQ", draining.handlers()):
        await put(manager, "FIRST", "1")
        await clock.advance(0)
        await put(manager, "EVERY", "2", "3")
        await clock.advance(0)
        await put(manager, "DEPTH", "4", "5")
        await clock.advance(0)
        assert draining.starts == [("FIRST", "first"), ("EVERY", ""), ("EVERY", "")]
        await put(manager, "DEPTH", "6")
        await clock.advance(0)
    assert draining.starts[3:] == [("DEPTH", "")]
    assert sorted(draining.got) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert await depth(manager, "DLQ") == 0


async def test_e7_what_came_before_the_monitor_is_found_when_it_opens_its_queue(
    manager: QueueManager, clock: VirtualClock
) -> None:
    await put(manager, "FIRST", *"12345")
    await put(manager, "EVERY", *"12345")
    draining = Draining()
    async with InitiationMonitor(manager, "INITQ", draining.handlers()):
        await clock.advance(1)
    assert sorted(draining.starts) == [("EVERY", ""), ("FIRST", "first")]
    assert len(draining.got) == 10


async def test_a_first_queue_whose_handler_fails_is_neither_hot_nor_stranded(
    manager: QueueManager, clock: VirtualClock
) -> None:
    draining = Draining()
    draining.fails = 6
    async with InitiationMonitor(manager, "INITQ", draining.handlers()) as monitor:
        await put(manager, "FIRST", "1")
        await clock.advance(3)
        assert len(draining.starts) == 5  # at 0, 0.1, 0.3, 0.7, 1.5 s: the close of each is an event of its own
        await clock.advance(30)
        assert draining.got == [b"1"]
        assert (monitor.statistics().failed, monitor.statistics().waiting) == (6, 0)


async def test_r_8_what_has_an_initiation_queue_is_not_for_the_fast_path(
    manager: QueueManager, clock: VirtualClock
) -> None:
    fast, slow = Draining(), Draining()
    async with (
        TriggerMonitor(manager, fast.handlers()),
        InitiationMonitor(manager, "INITQ", slow.handlers()),
    ):
        await put(manager, "EVERY", "1")
        await clock.advance(1)
    assert (fast.starts, slow.starts) == ([], [("EVERY", "")])


async def test_a_put_runs_a_command(tmp_path: Path) -> None:
    made = tmp_path / "made"
    async with QueueManager.open(name="QM1") as manager, manager.connect() as operator:
        await run(operator, *DEFINITIONS)
        await run(operator, f"ALTER PROCESS(P) APPLTYPE(UNIX) APPLICID('touch {made};')")
        async with InitiationMonitor(manager, "INITQ", commands=COMMANDS):
            await put(manager, "EVERY", "1")
            await until(made.exists)


# Changed handlers under load

SECONDS = int(os.environ.get("EVERMQ_SOAK_SECONDS", "60"))
PUTS_PER_SECOND = 500

COUNTING = """\
from broker.mqi import MQGMO, MQOO
from triggers import process
PADDING = "x" * 100_000 + {version!r}

@process("P")
async def handler(trigger, connection):
    async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
        message = await queue.get(options=MQGMO.SYNCPOINT)
        await connection.put1("OUT", message.data + b" " + {version!r}.encode(), options=2)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_s_23_a_module_replaced_again_and_again_under_load_handles_each_message_once(
    source: Source,  # noqa: F811
    tmp_path: Path,
) -> None:
    source.write("shop_counting.py", COUNTING.format(version="v0"))
    puts = PUTS_PER_SECOND * SECONDS
    versions = 0
    async with QueueManager.open(name="QM1") as manager, manager.connect() as operator:
        await run(
            operator,
            "DEFINE PROCESS(P)",
            "DEFINE QLOCAL(IN) PROCESS(P) TRIGGER TRIGTYPE(EVERY) MAXDEPTH(999999)",
            "DEFINE QLOCAL(OUT) MAXDEPTH(9999999)",
        )

        async def replace() -> None:
            nonlocal versions
            while True:
                await anyio.sleep(3)
                versions += 1
                broken = versions % 5 == 4
                source.write("shop_counting.py", "nonsense(" if broken else COUNTING.format(version=f"v{versions}"))

        async with (
            TriggerMonitor(manager, ["shop_counting"], generation_interval=1, throttle_delay=0) as monitor,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(replace)
            begin = time.monotonic()
            resident = 0
            for number in range(puts):
                await anyio.sleep(max(0.0, begin + number / PUTS_PER_SECOND - time.monotonic()))
                await operator.put1("IN", str(number))
                if number == puts // 5:
                    resident = rss_bytes()
            with anyio.fail_after(60):
                while await depth(manager, "IN"):  # noqa: ASYNC110  # handlers empty it
                    await anyio.sleep(0.1)
            grown = rss_bytes() - resident
            tasks.cancel_scope.cancel()
        figures = monitor.statistics()
        async with operator.open("OUT", MQOO.INPUT_SHARED) as queue:
            handled = [message.data.split() async for message in queue.messages()]
    assert sorted(int(number) for number, _ in handled) == list(range(puts))
    assert len({version for _, version in handled}) == figures.loads + 1 >= SECONDS // 3 - SECONDS // 12 - 1
    assert (figures.started, figures.failed) == (puts, 0)
    assert grown < 64_000_000 + 1000 * puts  # what is on OUT


def rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("beside", "waited"), [(0.04, 0.04), (5, 0.1)])
async def test_the_unit_of_a_handler_that_fails_is_backed_out_when_no_other_of_its_queue_runs(
    manager: QueueManager, clock: VirtualClock, beside: float, waited: float
) -> None:
    """So that the other does not get the message that has just failed. It waits for 0.1 s at most."""
    times: list[float] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        times.append(clock.monotonic())
        if len(times) == 1:
            await clock.sleep(beside)
            return
        with suppress(ValueError):
            async with connection.unit_of_work():
                raise ValueError("not now")
        times.append(clock.monotonic())

    async with InitiationMonitor(manager, "INITQ", [handlers(P=handler)], concurrency=2):
        await put(manager, "EVERY", "1", "2")
        for _ in range(20):
            await clock.advance(0.01)
        await clock.advance(10)
    first, second, backed_out = times
    assert (second - first, backed_out - second) == pytest.approx((0, waited))
