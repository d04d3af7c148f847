"""A handler in the queue manager's own process that ends that process (handlers rule 1.5): programs of their own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.cli.conftest import environment

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 3

PROGRAM = """
import asyncio, os, sys
from broker import QueueManager
from broker.mqi import MQGMO, MQOO
from triggers import App, Retry

async def main(data, puts):
    async with QueueManager.open(name="QM1", data=data) as manager:
        app = App(manager, name="SHOP")

        @app.handler("ORDERS", retry=Retry(2, backoff=0.01))
        async def handle(body: str) -> None:
            if body == "poison":
                os._exit(9)

        async with app.running():
            if puts:
                for body in ("poison", *map(str, range(5))):
                    await app.put("ORDERS", body)
            async with manager.connect("test") as connection, connection.open("ORDERS.DEAD", MQOO.INPUT_SHARED) as dead:
                letter = await dead.get(options=MQGMO.NO_SYNCPOINT, wait=20.0)
            told = [letter.properties[f"evermq.{name}"] for name in ("why", "handler", "first_failed")]
            print(letter.data[172:].decode(), *told)

asyncio.run(main(sys.argv[1], sys.argv[2] == "puts"))
"""


def test_h1_11_a_handler_that_ends_the_queue_manager_ends_it_so_often_and_no_more(tmp_path: Path) -> None:
    starts = 0
    while True:
        starts += 1
        words = [sys.executable, "-c", PROGRAM, str(tmp_path / "data"), "puts" if starts == 1 else ""]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
        if done.returncode != 9:
            break
        assert starts <= LIMIT + 1, done.stderr
    assert done.returncode == 0, done.stderr
    body, why, handler, first_failed = done.stdout.split()
    assert (body, why) == ("poison", "crashed")
    assert float(first_failed) > 1e9
    assert handler.endswith("handle")
    assert starts > LIMIT - 1
