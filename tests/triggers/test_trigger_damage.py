"""A triggered queue with a message whose data is damaged: its handlers get the others, and nothing starts without end
(semantics 5.10).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from broker import Connection, QueueManager
from broker.config import Config
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.triggers.fake import handlers
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from broker import Queue


class Handler:
    """Gets messages under syncpoint, one or until there is none, and lets what goes wrong end it."""

    def __init__(self, *, until_none: bool) -> None:
        self.until_none = until_none
        self.starts = 0
        self.got: list[bytes] = []

    def module(self) -> Any:
        """A module with it as the handler of process P."""

        async def handler(trigger: TriggerMessage, connection: Connection) -> None:
            self.starts += 1
            async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
                try:
                    await self._get(queue)
                except MQError as error:
                    if error.reason != MQRC.NO_MSG_AVAILABLE:
                        raise

        return handlers(P=handler)

    async def _get(self, queue: Queue) -> None:
        self.got.append((await queue.get(options=MQGMO.SYNCPOINT)).data)
        while self.until_none:
            self.got.append((await queue.get(options=MQGMO.SYNCPOINT)).data)


@pytest.mark.parametrize("damaged", [[b"0"], [b"2"], [b"4"], [b"0", b"1"], [b"0", b"1", b"2", b"3", b"4"]])
@pytest.mark.parametrize("kind", ["EVERY", "FIRST"])
async def test_handlers_get_what_is_good_and_no_start_follows_another_for_ever(kind: str, damaged: list[bytes]) -> None:
    clock, store = VirtualClock(), FaultStore(MemoryStore())
    config = replace(Config(), limits=replace(Config().limits, body_bytes=0))
    handler = Handler(until_none=kind == "FIRST")
    data = [b"%d" % number for number in range(5)]
    store.damage(*damaged)
    async with QueueManager.open(config, store=store, clock=clock) as manager, manager.connect() as program:
        for command in (
            "DEFINE QLOCAL(Q) DEFPSIST(YES)",
            "DEFINE PROCESS(P) APPLICID(appl)",
            f"ALTER QLOCAL(Q) PROCESS(P) TRIGGER TRIGTYPE({kind})",
        ):
            await program.mqsc(command)
        queue = await program.open("Q", MQOO.OUTPUT)
        for each in data:
            await queue.put(each)
        async with TriggerMonitor(manager, [handler.module()]):
            for _ in range(20):
                await clock.advance(10)
            starts = handler.starts
            assert set(handler.got) == set(data) - set(damaged)
            assert starts <= 2 * len(data) + 1
            await clock.advance(3600)
            assert handler.starts == starts
            (figures,) = [each for each in manager.status()["queues"] if each["name"] == "Q"]
            assert (figures["trigger_pending"], figures["depth"], figures["damaged"]) == (0, len(damaged), len(damaged))
            handler.got.clear()
            await queue.put(b"next")
            await clock.advance(10)
            assert handler.got == [b"next"]
        manager.core.check_invariants()
