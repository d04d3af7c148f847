"""The figures of lines: how many there are, what is on its way, and who was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import QueueManager, connect
from broker.config import LimitsConfig, ListenerConfig
from broker.engine.figures.scrape import Scrape
from broker.engine.figures.selection import FigureSelection
from broker.mqi import MQRC, MQError
from broker.server import Server
from tests.exposition import samples

if TYPE_CHECKING:
    from tests.exposition import Samples


def lines_of(manager: QueueManager) -> Samples:
    """Return the figures of lines, by their names without the prefix."""
    scrape = Scrape(manager, FigureSelection(per="none"))
    for _ in scrape.steps():
        pass
    wanted = ("evermq_connections", "evermq_refused", "evermq_in_flight")
    return {
        name.removeprefix("evermq_"): value for name, value in samples(scrape.text).items() if name.startswith(wanted)
    }


async def test_o3_1_a_line_counts_while_it_is_there_and_one_that_is_refused_by_why() -> None:
    limits = LimitsConfig(connections=1)
    async with QueueManager.open(name="QM1") as manager:
        assert lines_of(manager) == {"connections": 0, "in_flight_bytes": 0}
        async with Server(manager, ListenerConfig(port=0), limits) as server:
            url = f"mq://{server.addresses[0]}"
            async with connect(url):
                assert lines_of(manager)["connections"] == 1
                with pytest.raises(MQError) as refused:
                    async with connect(url, reconnect=False):
                        pass
                assert refused.value.reason == MQRC.MAX_CONNS_LIMIT_REACHED
        assert lines_of(manager) == {
            "connections": 0, "in_flight_bytes": 0, 'refused_connections_total{reason="connections"}': 1,
        }  # fmt: skip
