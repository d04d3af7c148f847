"""A daemon killed with SIGKILL at any moment: what was acknowledged is there, once; the rest is there once or not."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.client import connect
from broker.mqi import MQGMO, MQOO
from tests.durability.daemon import Writer, daemon, drained
from tests.durability.kills import kill_under_load

if TYPE_CHECKING:
    from pathlib import Path

    from broker import Connection, Queue
    from tests.durability.daemon import Daemon

DEFINITIONS = "DEFINE QLOCAL(Q) MAXDEPTH(1000000) DEFPSIST(YES) REPLACE\nDEFINE QLOCAL(R) LIKE(Q) REPLACE"
ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE


async def test_a_daemon_killed_under_load_keeps_its_promises(tmp_path: Path) -> None:
    await kill_under_load(tmp_path, seed=1, kills=10)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 105))
async def test_a_daemon_killed_fifty_times_under_load_keeps_its_promises(tmp_path: Path, seed: int) -> None:
    await kill_under_load(tmp_path, seed, kills=50)


async def put_and_kill(folder: Path, lines: int, kills: int, seed: int) -> None:
    """Two writers put lines; the daemon is killed again and again while they do, at moments of the seed's choice."""
    print(f"seed {seed}")  # noqa: T201  # pytest shows it with a failure
    random = Random(seed)
    share = lines // (kills + 1) // 2
    writers: list[Writer] = []
    async with daemon(folder, DEFINITIONS) as server:
        for round in range(kills + 1):
            start = round * 2 * share
            pair = [Writer(range(start, start + share)), Writer(range(start + share, start + 2 * share))]
            writers += pair
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(writer.run(server.url, "Q")) for writer in pair]
                if round < kills:
                    await pair[0].has_put(random.randrange(share))
                    await server.kill()
                await asyncio.wait(running)
            if round < kills:
                await server.start()
        found = await drained(server.url, "Q")
    for writer in writers:
        own = [number for number in found if number in writer.numbers]
        assert own == sorted(set(own)), "in order, and none twice"
        assert set(writer.acknowledged) <= set(own), "all that was acknowledged"
    assert all(len(writer.acknowledged) == share for writer in writers[-2:])
    assert set(found) <= set(range(lines))


async def test_acknowledged_lines_survive_the_daemon(tmp_path: Path) -> None:
    await put_and_kill(tmp_path, lines=2_100, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
async def test_twenty_thousand_acknowledged_lines_survive_the_daemon(tmp_path: Path, seed: int) -> None:
    await put_and_kill(tmp_path, lines=20_000, kills=9, seed=seed)


async def numbers_on(queue: Queue) -> list[tuple[int, int]]:
    """Return the messages on a queue: numbers and backout counts."""
    found = []
    step = MQGMO.BROWSE_FIRST
    with suppress(MQError):
        while True:
            message = await queue.get(options=step)
            found.append((int(message.data), message.md.backout_count))
            step = MQGMO.BROWSE_NEXT
    return found


async def test_backout_counts_survive_and_open_units_of_work_do_not(tmp_path: Path) -> None:
    async with daemon(tmp_path, DEFINITIONS) as server:
        with pytest.raises(MQError, match="CONNECTION_BROKEN"):
            async with connect(server.url) as connection, connection.open("Q", ALL) as queue:
                for number in range(4):
                    await queue.put(b"%d" % number)
                for _ in range(2):
                    await queue.get(options=MQGMO.SYNCPOINT)
                await connection.backout()
                async with connection.unit_of_work():
                    await queue.get()  # in the hands of the program when the daemon is killed
                    for number in range(10, 20):
                        await connection.put1("R" if number % 2 else "Q", b"%d" % number)
                    await server.kill()
        await server.start()
        async with connect(server.url) as connection, connection.open("Q", ALL) as queue:
            assert await numbers_on(queue) == [(0, 2), (1, 1), (2, 0), (3, 0)]
            async with connection.open("R", ALL) as second:
                assert await numbers_on(second) == []
        await server.stop()


async def put_pairs(server: Daemon, first: int, acknowledged: list[int], enough: int) -> None:
    """Put messages on both queues, two in a unit of work, until the daemon has gone; kill it when there are enough."""
    with suppress(MQError):
        async with connect(server.url) as connection:
            for number in count(first):
                async with connection.unit_of_work():
                    await connection.put1("Q", b"%d" % number)
                    await connection.put1("R", b"%d" % number)
                acknowledged.append(number)
                if len(acknowledged) >= enough:
                    await server.kill()


async def test_a_unit_of_work_over_two_queues_survives_as_a_whole(tmp_path: Path) -> None:
    random = Random(7)
    async with daemon(tmp_path, DEFINITIONS) as server:
        acknowledged: list[int] = []
        for kill in range(3):
            enough = len(acknowledged) + random.randrange(1, 100)
            async with asyncio.TaskGroup() as tasks:
                for program in range(4):
                    first = (kill * 4 + program) * 1_000_000
                    tasks.create_task(put_pairs(server, first, acknowledged, enough))
            await server.start()
        async with connect(server.url) as connection:
            left = await all_of(connection, "Q")
            assert left == await all_of(connection, "R")
        assert len(left) == len(set(left))
        assert set(acknowledged) <= set(left)


async def all_of(connection: Connection, name: str) -> list[int]:
    async with connection.open(name, ALL) as queue:
        return sorted(number for number, _ in await numbers_on(queue))
